"""`faber-ledger show`: everything known of one event, session or artifact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.digests import keyed_digest
from support.forging import forge
from support.project import PROTOCOL, Project
from support.sample_log import CLIENT, FIRST, SECOND, write_run
from support.sample_log import RUN as SAMPLE

from faber_ledger.cli.ui.words import value_words
from faber_ledger.ledger.log import Log

LOADED_FIRST = "# Orchestration\n\nOne step after the other.\n"


@pytest.fixture
def sample(tmp_path: Path) -> Project:
    write_run(tmp_path)
    return Project(tmp_path, SAMPLE)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run in which the protocol was loaded, changed, loaded again, and changed once more."""
    made = Project.made(tmp_path / "project")
    assert made.faber("session-load").returncode == 0
    made.write(PROTOCOL, "# Second\n")
    made.git("commit", "--quiet", "-am", "Second")
    assert made.faber("session-load", "--force").returncode == 0
    made.write(PROTOCOL, "# Third\n")
    return made


def shown(project: Project, *arguments: str) -> Any:
    done = project.faber("show", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["data"]


def refused(project: Project, *arguments: str, code: int = 10) -> str:
    done = project.faber("show", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    return done.stderr


def test_an_event_is_found_by_seq_id_or_prefix(sample: Project) -> None:
    events = sample.events
    for recorded in events[::5]:
        for name in (str(recorded["seq"]), recorded["id"], recorded["id"][:-1], recorded["id"].lower()):
            data = shown(sample, name)
            assert (data["kind"], data["event"]) == ("event", recorded)
            assert data["hash_holds"]


def test_an_event_is_shown_with_what_it_changed(sample: Project) -> None:
    assert [change["field"] for change in shown(sample, "9")["changes"]] == []
    fields = [change["field"] for change in shown(sample, "4")["changes"]]
    assert "context_metadata.artifacts_in_context[0]" in fields
    lines = sample.faber("show", "9").stdout
    assert "it changed nothing in state.json" in lines


def test_entries_of_which_none_has_room_are_counted() -> None:
    assert value_words([{"summary": "x" * 200}]) == "[1 entry]"
    assert value_words({"one": "x" * 200, "two": 2}) == "{2 entries}"
    assert value_words(["x" * 60, "y" * 60]).endswith(", … 1 more]")


def test_an_event_that_was_changed_says_so(sample: Project) -> None:
    assert shown(sample, "4")["hash_holds"]  # from now on the clone has its log
    forge(sample.clones_log, "UPDATE event SET client = 'forged' WHERE seq = 4")
    assert not shown(sample, "4")["hash_holds"]
    assert "which does not match what it says" in sample.faber("show", "4").stdout


def test_a_session_is_found_by_id_suffix_or_client_id(sample: Project) -> None:
    for name in (FIRST, "abc123", FIRST[:-1]):
        data = shown(sample, name)
        assert (data["kind"], data["session"]["session_id"]) == ("session", FIRST)
        assert data["session"]["hostname"] == "dev-machine-1"
        assert [recorded["seq"] for recorded in data["events"]] == [3, 4, 5, 6, 7, 8, 10]
        assert data["clients"] == [CLIENT]
    assert "  frame ✓, architect ✓\n" in sample.faber("show", "abc123").stdout


def test_an_ambiguous_name_is_refused_with_all_its_meanings(sample: Project) -> None:
    output = refused(sample, "claude-session")
    assert f"  session {FIRST}\n  session {SECOND}" in output
    assert "hint: give one of these ids\n" in output
    output = refused(sample, sample.events[0]["id"][:5])
    assert f"  event {sample.events[0]['id']} (1, run_started at" in output
    assert "and others\n\nhint: give one of these ids, or more of the id\n" in output
    forge(sample.clones_log, f"UPDATE event SET client = '{CLIENT}' WHERE session_id = '{SECOND}'")
    output = refused(sample, CLIENT)
    assert f"  session {FIRST}\n  session {SECOND}\n\nhint: give one of these ids\n" in output


@pytest.mark.parametrize("name", ["workflow-stat3", "99", "01KE7QZZZZZZZZZZZZZZZZZZZZ", "\x1b[31m", "9" * 40])
def test_an_unknown_name_is_refused(sample: Project, name: str) -> None:
    output = refused(sample, name)
    assert output.startswith("error: there is no event, session or artifact")
    assert "\x1b" not in output


def test_an_artifact_is_shown_with_its_loads(project: Project) -> None:
    data = shown(project, "orchestration-protocol")
    assert [one["source"] for one in data["loads"]] == [PROTOCOL, PROTOCOL]
    assert len({one["sha256"] for one in data["loads"]}) == 2
    output = project.faber("show", "orchestration-protocol").stdout
    assert "orchestration-protocol: 2 loads, 0 failed, 0 skipped" in output
    assert output.count("artifact_loaded") == 2


def test_the_content_that_was_loaded_is_printed_byte_for_byte(project: Project) -> None:
    assert project.faber("show", "orchestration-protocol", "--content").stdout == "# Second\n"
    first = shown(project, "orchestration-protocol")["loads"][0]["event_id"]
    assert project.faber("show", first, "--content").stdout == LOADED_FIRST
    assert shown(project, first, "--content")["content"] == LOADED_FIRST


def test_a_source_outside_the_project_is_never_read(project: Project) -> None:
    secret = project.root.parent / "secret.txt"
    secret.write_text("secret\n")
    writer = project.events[0]["writer"]
    digest = f"keyed:{keyed_digest(project.root / '.git', secret.read_bytes())}"
    (project.root / "link.txt").symlink_to(secret)
    for number, source in enumerate(["../secret.txt", str(secret), "link.txt", "--output=x", "a\x00b", ":(top)x"]):
        event: Any = {
            "type": "artifact_loaded",
            "session_id": FIRST,
            "artifact_id": f"hostile-{number}",
            "trigger": "manual",
            "source": source,
            "size_bytes": 7,
            "sha256": digest,
            "given": "inline",
        }
        with Log.open(str(project.ledger_path)) as log:
            log.append([{"event": event}], at=1_767_623_422.0, writer=writer)
            log.commit()
        assert "is neither in" in refused(project, f"hostile-{number}", "--content")


def test_the_content_of_another_clones_load_is_said_to_be_there(project: Project, tmp_path: Path) -> None:
    project.deliver("SessionStart.startup.print")
    project.commit()
    other = project.clone(tmp_path / "other", "desktop")
    error = refused(other, "orchestration-protocol", "--content")
    assert f"the load was recorded on {project.hostname}, in another clone" in error
    assert "git log" not in error  # which has no version where git ignores the file
    assert other.faber("session-load", "--force").returncode == 0
    other.commit()
    project.git("pull", "--quiet", str(other.root))
    done = project.faber("show", "orchestration-protocol", "--content")
    own = [
        one
        for one in shown(project, "orchestration-protocol")["loads"]
        if one["writer"] == project.recorded[0]["writer"]
    ]
    assert done.stdout == "# Third\n"
    assert f"on desktop, is another clone's: this is what was loaded here at {own[-1]['at']}\n" in done.stderr


def test_an_event_names_the_machine_of_its_clone(project: Project) -> None:
    project.deliver("SessionStart.startup.print")
    assert f", on {project.hostname}" in project.faber("show", "1").stdout
    for start in [one["id"] for one in project.events if one["event"]["type"] == "session_started"]:
        project.redact(start)
    assert ", on this machine\n" in project.said("show", "1")  # and not on `[redacted]`


def test_a_note_outside_a_session_is_of_its_machine(project: Project) -> None:
    assert project.faber("note", "alone").returncode == 0
    assert "alone" in project.said("log", "--machine", project.hostname, "--type", "note_recorded")
    assert "--machine WRITER also finds" in project.said("log", "--machine", "elsewhere")
