"""`export` for OpenTelemetry: a run is one trace, sent span by span when each has ended, and nowhere unasked."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from support.command import COMMAND
from support.forged_events import forge_event
from support.otlp_receiver import SECONDS, Receiver, spans_of, values_of
from support.project import RUN, Project, heed_interrupts

from faber_ledger.ledger.encoding import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

STARTED, ENDED = "SessionStart.startup.print", "SessionEnd.other.print"
CLIENT = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
SECRET = "the cache goes"
UNSET, ERROR = 0, 2


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an open session, and a note."""
    project = Project.made(tmp_path / "shop")
    project.deliver(STARTED, client=CLIENT)
    project.faber("note", SECRET, "--decision")
    return project


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def finish(project: Project, status: str = "completed") -> None:
    project.change_state(status=status)
    project.deliver(ENDED, client=CLIENT)


def sent(project: Project, receiver: Receiver, *options: str) -> list[Span]:
    project.said("export", "--otlp", receiver.address, *options)
    return receiver.all()


def in_json(project: Project, *options: str) -> Any:
    return json.loads(project.faber("export", "--format", "otlp", *options).stdout)


def json_spans(project: Project, *options: str) -> list[dict[str, Any]]:
    found = in_json(project, *options)["resourceSpans"]
    return [span for one in found for scope in one["scopeSpans"] for span in scope["spans"]]


def names_of(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


# What a run is


def test_a_run_is_a_trace_of_its_phases_and_sessions(project: Project, receiver: Receiver) -> None:
    finish(project)
    phase, session, run = sent(project, receiver)
    assert names_of([phase, session, run]) == [
        "phase build",
        "invoke_agent claude",
        "invoke_workflow fractary-faber:default",
    ]
    assert {one.trace_id for one in (phase, session, run)} == {run.trace_id}
    assert (phase.parent_span_id, session.parent_span_id, run.parent_span_id) == (run.span_id, run.span_id, b"")
    assert run.start_time_unix_nano <= session.start_time_unix_nano < session.end_time_unix_nano
    assert run.end_time_unix_nano >= session.end_time_unix_nano
    of_session, of_run = values_of(session.attributes), values_of(run.attributes)
    assert (of_session["gen_ai.operation.name"], of_session["gen_ai.conversation.id"]) == ("invoke_agent", CLIENT)
    assert (of_session["gen_ai.agent.name"], of_session["faber_ledger.status"]) == ("claude", "normal")
    assert of_run["gen_ai.agent.name"] == "fractary-faber:default"
    assert (of_run["faber_ledger.run_id"], of_run["faber_ledger.status"]) == (RUN, "completed")
    names = [event.name for event in session.events]
    assert {"artifact_loaded", "note_recorded"} <= {*names}


def test_an_export_twice_is_the_same_trace_and_the_run_comes_last(project: Project, receiver: Receiver) -> None:
    finish(project)
    first, again = sent(project, receiver), sent(project, receiver)
    assert [span.SerializeToString() for span in first] == [span.SerializeToString() for span in again]
    project.said("export", "--otlp", f"{receiver.address}/base/v1/traces?team=shop")
    requests = [receiver.requests.get(timeout=SECONDS) for _ in range(2)]
    assert [path for path, _ in requests] == ["/base/v1/traces?team=shop"] * 2
    assert spans_of(requests[1][1]) == first[-1:]


def test_the_json_says_the_same_with_ids_in_hex(project: Project, receiver: Receiver) -> None:
    finish(project)
    said = in_json(project)
    parts = [span for one in said["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]]
    found = sent(project, receiver)
    assert [(one["traceId"], one["spanId"]) for one in parts] == [
        (one.trace_id.hex(), one.span_id.hex()) for one in found
    ]
    for one in parts:
        for name in ("traceId", "spanId", "parentSpanId"):
            one.pop(name, None)
    read = spans_of(Parse(json.dumps(said), ExportTraceServiceRequest()))
    assert [values_of(one.attributes) for one in read] == [values_of(one.attributes) for one in found]
    assert [one.events for one in read] == [one.events for one in found]


def test_a_compaction_and_a_second_machine_are_one_trace(project: Project, receiver: Receiver, tmp_path: Path) -> None:
    project.deliver("PreCompact.auto.print", client=CLIENT)
    project.deliver("SessionStart.compact.print", client=CLIENT)
    project.commit()
    other = project.clone(tmp_path / "other", "desktop")
    other.deliver(STARTED, client="another")
    other.change_state(status="completed")
    other.deliver(ENDED, client="another")
    other.said("export", "--otlp", receiver.address)
    requests = [receiver.requests.get(timeout=SECONDS)[1] for _ in range(receiver.requests.qsize())]
    resources = [values_of(one.resource.attributes) for request in requests for one in request.resource_spans]
    assert {one["host.name"] for one in resources} == {"dev-machine-1", "desktop"}
    assert {one["service.name"] for one in resources} == {"faber-ledger"}
    assert {one["vcs.ref.head.name"] for one in resources} == {"main"}
    spans = [span for request in requests for span in spans_of(request)]
    assert len({span.trace_id for span in spans}) == 1
    assert names_of(spans).count("invoke_agent claude") == 3
    assert [event.name for span in spans for event in span.events].count("compaction") == 1
    scopes = {scope.schema_url for request in requests for one in request.resource_spans for scope in one.scope_spans}
    assert scopes == {"https://opentelemetry.io/schemas/gen-ai/0.1.0"}


def test_tokens_are_the_sessions_and_cached_ones_are_input(project: Project, receiver: Receiver) -> None:
    finish(project)
    used = {"input_tokens": 10, "cached_tokens": 90, "output_tokens": 7, "turns": 1, "active_seconds": 3}
    payload = canonical({"model": "opus", "in_phase": None, "read_files": {}, **used})
    session = project.recorded[-1]["event"]["session_id"]  # type: ignore[typeddict-item]  # of an end
    forge_event(project.clones_log, type="usage_recorded", payload=payload, session_id=session)
    (found,) = [values_of(one.attributes) for one in sent(project, receiver) if one.name == "invoke_agent claude"]
    assert {name: value for name, value in found.items() if "usage" in name or "model" in name} == {
        "gen_ai.request.model": "opus",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 90,
        "gen_ai.usage.output_tokens": 7,
    }


def test_a_failed_run_is_an_error(project: Project, receiver: Receiver) -> None:
    finish(project, "failed")
    spans = sent(project, receiver)
    assert [one.status.code for one in spans] == [UNSET, UNSET, ERROR]
    assert values_of(spans[-1].attributes)["error.type"] == "_OTHER"


def test_the_phase_in_which_a_run_failed_has_a_span(project: Project) -> None:
    phases = {"frame": {"status": "completed"}, "architect": {"status": "completed"}, "build": {"status": "failed"}}
    project.change_state(status="failed", current_phase="release", phases=phases | {"release": {"status": "failed"}})
    spans = {span["name"]: span.get("status", {}).get("code", UNSET) for span in json_spans(project)}
    assert (spans["phase build"], spans["phase release"]) == (ERROR, ERROR)


def test_what_otlp_cannot_hold_stops_no_export(project: Project, receiver: Receiver) -> None:
    finish(project)
    payload = json.dumps({"artifact_id": "\ud800", "trigger": "manual", "source": "x", "size_bytes": 10**30})
    forge_event(project.clones_log, type="artifact_loaded", payload=payload, at="9999-12-31T23:59:59Z")
    (event,) = [event for span in sent(project, receiver) for event in span.events if event.time_unix_nano >= 2**63 - 1]
    assert values_of(event.attributes) == {
        "faber_ledger.artifact_id": "?",
        "faber_ledger.source": "x",
        "faber_ledger.trigger": "manual",
    }


# What has not ended


def test_what_is_open_is_not_sent_and_marked_in_the_json(project: Project, receiver: Receiver) -> None:
    assert sent(project, receiver) == []
    spans = json_spans(project)
    marks = [{"key": "faber_ledger.open", "value": {"boolValue": True}}] * 3
    assert [one for span in spans for one in span["attributes"] if one["key"] == "faber_ledger.open"] == marks
    assert all(int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) for span in spans)


@contextmanager
def following(project: Project, receiver: Receiver) -> Iterator[subprocess.Popen[str]]:
    """Start an export that follows the run; it is ended with the block."""
    with subprocess.Popen(
        [COMMAND, "export", "--otlp", receiver.address, "--follow"],
        cwd=project.root,
        env=project.environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509  # it calls nothing that another thread may hold
    ) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def test_who_follows_gets_each_span_when_it_has_ended(project: Project, receiver: Receiver) -> None:
    with following(project, receiver) as follower:
        project.deliver(ENDED, client=CLIENT)
        assert names_of(receiver.next()) == ["invoke_agent claude"]
        project.change_state(status="completed")
        assert names_of(receiver.next()) == ["phase build"]
        assert names_of(receiver.next()) == ["invoke_workflow fractary-faber:default"]
        assert follower.wait(SECONDS) == 0


def test_who_follows_waits_for_an_endpoint_that_was_there(project: Project) -> None:
    project.deliver(ENDED, client=CLIENT)
    with Receiver() as first, following(project, first) as follower:
        assert names_of(first.next()) == ["invoke_agent claude"]
        first.server.shutdown()
        first.server.server_close()
        project.change_state(status="completed")
        assert follower.stderr is not None
        assert any("trying again" in line for line in follower.stderr)
        with Receiver(port=first.server.server_port) as second:
            assert names_of(second.next() + second.next()) == ["phase build", "invoke_workflow fractary-faber:default"]
            assert follower.wait(SECONDS) == 0


def test_an_abandoned_session_may_go_on_until_the_run_is_over(project: Project, receiver: Receiver) -> None:
    project.deliver(STARTED, client="another")
    assert [event["reason"] for event in project.of_type("session_ended")] == ["abandoned"]
    assert sent(project, receiver) == []
    project.deliver(ENDED, client="another")
    project.change_state(status="completed")
    assert names_of(sent(project, receiver)).count("invoke_agent claude") == 2


def test_an_interrupt_ends_the_following_well(project: Project, receiver: Receiver) -> None:
    project.deliver(ENDED, client=CLIENT)
    with following(project, receiver) as follower:
        assert follower.stderr is not None
        assert "1 span of" in follower.stderr.readline()
        follower.send_signal(signal.SIGINT)
        assert "2 spans of" in follower.communicate(timeout=SECONDS)[1]
        assert follower.returncode == 0


# What is sent to whom


def test_texts_are_sent_only_if_asked_for(project: Project, receiver: Receiver) -> None:
    finish(project)
    for options, is_there in (((), False), (("--texts",), True)):
        found = [event for span in sent(project, receiver, *options) for event in span.events]
        assert (SECRET in str(found)) is is_there
        assert (SECRET in str(in_json(project, *options))) is is_there


def test_a_redacted_note_says_only_that_it_is(project: Project) -> None:
    finish(project)
    (note,) = [one["id"] for one in project.recorded if one["event"]["type"] == "note_recorded"]
    project.redact(note)
    events = [event for span in json_spans(project, "--texts") for event in span.get("events", ())]
    (left,) = [event for event in events if event["name"] == "note_recorded"]
    assert left["attributes"] == [{"key": "faber_ledger.redacted", "value": {"boolValue": True}}]
    (redaction,) = [event for event in events if event["name"] == "event_redacted"]
    assert {"key": "faber_ledger.event_id", "value": {"stringValue": note}} in redaction["attributes"]


def test_no_endpoint_of_the_environment_gets_anything(project: Project, receiver: Receiver) -> None:
    finish(project)
    with Receiver() as other:
        names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        variables = dict.fromkeys(names, other.address)
        project.said("export", env=variables)
        project.said("export", "--otlp", receiver.address, env=variables)
        assert (len(receiver.all()), other.all()) == (3, [])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ann:pass@host.example:8443/shop.git?token=1", "https://host.example:8443/shop.git"),
        ("git@host.example:team/shop.git", "ssh://host.example/team/shop.git"),
        ("https://ann:pa/ss@host.example/shop", None),
        ("/home/ann/shop.git", None),
    ],
)
def test_the_repositorys_url_has_no_user_and_no_password(project: Project, url: str, shown: str | None) -> None:
    project.git("remote", "add", "origin", url)
    (resource,) = in_json(project)["resourceSpans"]
    found = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
    assert found.get("vcs.repository.url.full", {}).get("stringValue") == shown


def test_a_redirect_is_not_followed(project: Project, receiver: Receiver) -> None:
    finish(project)
    with Receiver(307, location=receiver.address) as leading:
        said = project.said("export", "--otlp", leading.address, code=14)
    assert f"error: {leading.address}/v1/traces did not take the spans: HTTP status 307\n" in said
    assert receiver.all() == []


@pytest.mark.parametrize(("answer", "code"), [(400, 14), (429, 13), (503, 13)])
def test_what_may_be_taken_later_is_told_from_a_refusal(project: Project, answer: int, code: int) -> None:
    finish(project)
    with Receiver(answer) as refusing:
        project.said("export", "--otlp", refusing.address, code=code, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1"})


def test_spans_that_an_answer_refuses_are_not_sent(project: Project) -> None:
    finish(project)
    refusal = ExportTracePartialSuccess(rejected_spans=2, error_message="quota\x1b")
    answer = ExportTraceServiceResponse(partial_success=refusal).SerializeToString()
    with Receiver(answer=answer) as refusing:
        said = project.said("export", "--otlp", refusing.address, code=14)
    assert "did not take 2 of the spans: quota\\x1b\n" in said


def test_a_header_of_another_form_is_refused_and_not_shown(project: Project, receiver: Receiver) -> None:
    finish(project)
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization: Bearer {SECRET}"}
    said = project.said("export", "--otlp", receiver.address, code=2, env=headers)
    assert ("OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE" in said, SECRET in said) == (True, False)
    assert receiver.all() == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--otlp http://127.0.0.1:1", 13, "http://127.0.0.1:1/v1/traces did not take the spans: ConnectionError"),
        ("--otlp localhost:4318", 2, "--otlp is not a web address"),
        ("--otlp https://ann:secret@host.example", 2, "--otlp has a password or user"),
        ("--follow", 2, "--follow needs --otlp ENDPOINT"),
        ("--texts", 2, "--texts needs --otlp ENDPOINT or --format otlp"),
        ("--otlp http://127.0.0.1:1 -o file", 2, "give --otlp or --output, not both"),
    ],
)
def test_what_cannot_be_sent_is_said_once(project: Project, words: str, code: int, message: str) -> None:
    finish(project)
    said = project.said("export", *words.split(), code=code, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1"})
    assert message in said
    assert "secret" not in said
    assert "Transient" not in said


def test_without_the_extra_the_export_says_how_to_install_it(project: Project, tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text("raise ModuleNotFoundError(name='opentelemetry')\n")
    said = project.said("export", "--format", "otlp", code=1, env={"PYTHONPATH": str(tmp_path)})
    assert said.startswith("error: an export for OpenTelemetry needs the extra faber-ledger[otel]\n\nhint: install ")
