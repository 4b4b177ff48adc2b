"""Hooks on bad input: they exit with 0, print a packet or nothing, say in the log what was wrong, and harm nothing."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command import COMMAND
from support.project import RUN, Answer, Project, usual_state
from support.sizes import few, pair

from faber_ledger.hooks.main import LONGEST_LOG
from faber_ledger.recording.call import Call

if TYPE_CHECKING:
    from pathlib import Path

START = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
EVERY = (START, PRE, POST, END)
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "myproject")


@pytest.fixture
def opened(project: Project) -> Project:
    """Return the project with a session of this client open."""
    assert project.deliver(START, client=ME, fields={"prompt_id": "earlier"}).packet
    return project


def check(project: Project, answer: Answer, *, said: str, packet: bool) -> str:
    """Check what holds for every failure; return the packet's text."""
    assert answer.code == 0
    assert "Traceback" not in answer.errors
    assert (answer.packet is not None) is packet, answer.errors
    assert any(said in line for line in project.log_lines), project.log_lines
    return answer.packet or ""


def bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


# state.json

BROKEN_STATES = {
    "empty": (b"", "the file is empty"),
    "truncated": (json.dumps(usual_state(), indent=2).encode()[:-30], "Invalid JSON at line"),
    "a list": (b"[]\n", "it is not a JSON object"),
    "not UTF-8": (b'{"run_id": "\xff"}', "not UTF-8 at byte 12"),
    "nested too deeply": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "NaN": (b'{"a": NaN}', "NaN is not JSON"),
}


@pytest.mark.long
@pytest.mark.parametrize(("what", "recorded"), pair(BROKEN_STATES, [START, END]))
def test_a_broken_state_without_a_ledger_is_reported_and_left_alone(project: Project, what: str, recorded: str) -> None:
    content, said = BROKEN_STATES[what]
    project.put_state(content)
    text = check(project, project.deliver(recorded), said=said, packet=recorded == START)
    if recorded == START:
        assert text.startswith("❌ ERROR: Cannot read state file - invalid JSON\nPath: .fractary/runs/")
        assert "Recovery:\n1. " in text
        assert said in text
    assert project.state_path.read_bytes() == content
    assert not project.ledger_path.exists()
    assert [path.name for path in project.run.iterdir() if path.name.endswith(".tmp")] == []


@pytest.mark.long
@pytest.mark.parametrize(("what", "recorded"), pair(["empty", "truncated", "a list", "missing"], EVERY))
def test_a_state_that_breaks_later_loses_no_event(opened: Project, what: str, recorded: str) -> None:
    healthy = opened.state_path.read_bytes()
    if what == "missing":
        opened.state_path.unlink()
    else:
        opened.state_path.write_bytes(BROKEN_STATES[what][0])
    before, known = bytes_of(opened.state_path), len(opened.recorded)
    answer = opened.deliver(recorded, client=ME)
    said = "the run has no state.json" if what == "missing" else BROKEN_STATES[what][1]
    said = said.replace("the run has", f"the run {RUN} has")
    text = check(opened, answer, said=said, packet=recorded == START)
    if recorded == START:
        assert text.startswith("❌ ERROR: Cannot read state file")
        assert "Phase: build" in text  # from the backup
    assert bytes_of(opened.state_path) == before
    assert len(opened.recorded) > known
    assert not any("not recorded" in line for line in opened.log_lines)
    opened.state_path.write_bytes(healthy)
    assert opened.faber("project", RUN).returncode == 0
    opened.assert_projected()


@pytest.mark.long
@pytest.mark.parametrize(("recorded", "has_ledger"), pair(EVERY, [False, True]))
def test_another_runs_state_is_neither_shown_nor_changed(tmp_path: Path, recorded: str, has_ledger: bool) -> None:
    project = Project.made(tmp_path / "myproject")
    if has_ledger:
        project.deliver(START, client=ME)
    project.put_state({**usual_state("another-run"), "sessions": {"current_session_id": "x", "session_history": []}})
    state, ledger = project.state_path.read_bytes(), bytes_of(project.ledger_path)
    answer = project.deliver(recorded, client=ME, pid="99")
    check(project, answer, said="it is the state of another run, 'another-run'", packet=recorded == START)
    assert project.state_path.read_bytes() == state
    assert bytes_of(project.ledger_path) == ledger


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_a_state_that_is_not_a_file_is_refused(project: Project, kind: str) -> None:
    elsewhere = project.write("elsewhere.json", project.state_path.read_bytes())
    project.state_path.unlink()
    if kind == "directory":
        project.state_path.mkdir()
    elif kind == "link":
        project.state_path.symlink_to(elsewhere)
    else:
        os.mkfifo(project.state_path)
    before = elsewhere.read_bytes()
    check(project, project.deliver(START), said="state.json", packet=True)
    check(project, project.deliver(END), said="state.json", packet=False)
    assert elsewhere.read_bytes() == before
    assert not project.ledger_path.exists()


# The active file


def test_an_active_file_without_a_run_id_is_refused(project: Project) -> None:
    for content in [b"../../../elsewhere", b"a/b/c/d", b"x" * 100_000, b"a\0b", b"\x1b[31mred"]:
        project.active_path.write_bytes(content)
        state = project.state_path.read_bytes()
        for recorded in EVERY:
            check(project, project.deliver(recorded), said="is not a run id", packet=False)
        assert project.state_path.read_bytes() == state
        assert all(line.isprintable() for line in project.log_lines)
        assert sorted(path.name for path in project.run.iterdir()) == ["state.json"]


@pytest.mark.parametrize("content", [b"", b" \r\n\n", b"\xef\xbb\xbf\r\n", b"\xff\xfe\x00\x01", None])
def test_an_empty_active_file_counts_as_missing(project: Project, content: bytes | None) -> None:
    project.active_path.unlink()
    if content is None:
        project.active_path.mkdir()
    else:
        project.active_path.write_bytes(content)
    for recorded in EVERY:
        check(project, project.deliver(recorded), said="No active workflow found, skipping", packet=False)
    assert not project.ledger_path.exists()


@pytest.mark.parametrize("form", ["\ufeff{}\r\n", "{}\r\nsomething else\r\n"])
def test_an_active_file_from_any_editor_is_read(project: Project, form: str) -> None:
    project.active_path.write_bytes(form.format(RUN).encode())
    assert project.deliver(START).packet
    assert len(project.history) == 1


def test_the_second_active_file_is_read_if_the_first_is_empty(project: Project) -> None:
    project.active_path.write_bytes(b"\n")
    project.write(".fractary/faber/runs/.active-run-id", RUN)
    assert project.deliver(START).packet


def test_a_run_that_is_a_link_out_of_the_project_is_refused(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(project.run, outside)
    project.run.symlink_to(outside)
    for recorded in EVERY:
        check(project, project.deliver(recorded), said="is behind a link that leads out of", packet=False)
    assert [path.name for path in outside.iterdir()] == ["state.json"]


# Workflow, git


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "Workflow configuration not found: fractary-faber:special"),
        (b"{", "line 1 column 2"),
        (b"[]", "not a JSON object"),
        (b'{"critical_artifacts": []}', "critical_artifacts is not an object"),
        (b'{"critical_artifacts": {"always_load": {}}}', "critical_artifacts.always_load is not a list"),
        (b'{"extends": "fractary-faber:special"}', "it extends itself"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "cannot be used"),
    ],
)
def test_an_unusable_workflow_is_reported_with_the_position(project: Project, content: bytes | None, said: str) -> None:
    project.change_state(workflow_id="fractary-faber:special")
    if content is not None:
        project.write("plugins/faber/config/workflows/special.json", content)
    answer = project.deliver(START)
    assert answer.code == 0
    assert answer.packet is not None
    problem, _, position = answer.packet.partition(f"# FABER run {RUN}")
    assert said in problem
    assert "plugins/faber/config/workflows/special.json" in problem
    assert "Phase: build" in position
    assert len(project.history) == 1
    assert project.metadata["reload_count"] == 0  # nothing was reloaded
    assert "last_artifact_reload" not in project.metadata
    project.assert_projected()


@pytest.mark.parametrize("git", ["no repository", "no program"])
def test_a_hook_needs_no_git(tmp_path: Path, git: str) -> None:
    project = Project.made(tmp_path / "myproject")
    env: dict[str, str | None] = {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    if git == "no program":
        env["PATH"] = str(tmp_path)
    else:
        shutil.rmtree(project.root / ".git")
    assert project.deliver(START, client=ME, env=env).packet
    assert project.deliver(END, client=ME, env=env).output == b""
    (entry,) = project.history
    assert (entry["environment"]["git_commit"] is not None, entry["end_reason"]) == (git == "no program", "normal")
    assert len({recorded["writer"] for recorded in project.events}) == 1
    project.assert_projected()


# The delivery

UNREADABLE = {
    "half an object": b'{"session_id": "3248',
    "not UTF-8": b'{"session_id": "\xff\xfe"}',
    "a list": b"[1, 2]",
    "nested too deeply": b"[" * 200_000,
    "10 MB of no JSON": b"x" * 10_000_000,
    "more than anyone sends": b'{"source": "' + b"x" * 33_554_432 + b'"}',
}


@pytest.mark.long
@pytest.mark.parametrize("what", few(UNREADABLE, 4))
def test_an_unreadable_delivery_is_reported_and_the_variables_replace_it(project: Project, what: str) -> None:
    answer = project.deliver(START, client=ME, stdin=UNREADABLE[what])
    text = check(project, answer, said="the delivery cannot be read", packet=True)
    assert "\nworkflow-state: .fractary/" in text
    answer = project.deliver(END, client=ME, stdin=UNREADABLE[what])
    check(project, answer, said="the delivery cannot be read", packet=False)
    assert [entry["end_reason"] for entry in project.history] == ["normal"]
    assert project.events[1]["client"] == ME
    project.assert_projected()


def test_a_delivery_of_10_mb_is_read(project: Project) -> None:
    fields = {"compact_summary": "🦀" * 2_500_000, "deep": json.loads("[" * 500 + "]" * 500)}
    assert project.deliver(START, client=ME, fields=fields).packet
    assert project.deliver(POST, client=ME, fields=fields).output == b""
    assert project.types == ["run_adopted", "session_started", "compaction_completed"]
    assert project.ledger_path.stat().st_size < 100_000


@given(st.text('"\\,:{}[] a\n\ud83e', min_size=1), st.booleans(), st.sampled_from(["utf-8", "utf-8-sig"]))
def test_a_long_text_is_read_whatever_it_contains(text: str, is_ascii: bool, encoding: str) -> None:
    summary = text * (100_000 // len(text) + 1)
    line = json.dumps({"cwd": text, "compact_summary": summary, "session_id": ME}, ensure_ascii=is_ascii)
    call = Call("PostCompact", line.encode(encoding, "surrogatepass"), {})
    assert (call.problem, call.compact_summary, call.client) == (None, summary, ME)


def test_an_event_that_is_not_one_of_our_hooks_is_reported(project: Project) -> None:
    for name in ["Stop", "", "\x1b[31m"]:
        answer = project.deliver("Stop.interactive", argument=name, without=["hook_event_name"])
        check(project, answer, said="is not a hook of faber-ledger", packet=False)
        assert not project.ledger_path.exists()


def test_an_option_before_the_hook_does_not_stop_it(project: Project) -> None:
    answer = shell(project, '"$1" --unheard-of hook session-start')
    assert (answer.code, answer.packet is not None) == (0, True)
    assert project.of_type("session_started")


def test_the_delivery_overrides_the_argument(opened: Project) -> None:
    check(opened, opened.deliver(END, client=ME, argument="session-start"), said="SessionEnd", packet=False)
    assert opened.current is None
    answer = opened.deliver("Stop.interactive", client=ME, argument="session-end")
    check(opened, answer, said="Stop, which is not a hook of faber-ledger; it is handled as SessionEnd", packet=False)


# Streams, folders


def shell(project: Project, line: str, **changes: Any) -> Answer:
    """Deliver through a shell that does something to the hook's streams."""
    return project.deliver(START, client=ME, program=["sh", "-c", line, "sh", COMMAND, str(project.root)], **changes)


@pytest.mark.parametrize(
    ("redirection", "goes_wrong"), [(">&-", False), (">/dev/full 2>&1", False), ("2>&-", True), (">/dev/full", True)]
)
def test_a_hook_whose_output_is_not_read_still_records(project: Project, redirection: str, goes_wrong: bool) -> None:
    if goes_wrong:
        project.state_path.chmod(0o444)  # the state cannot be written, and standard error hears of it
    answer = shell(project, f'"$1" hook session-start {redirection}')
    assert answer.code == 0
    assert "Traceback" not in answer.errors
    assert len(project.of_type("session_started")) == 1
    if redirection.startswith(">"):
        assert answer.output == b""
        assert project.log_lines


def test_a_reader_that_is_gone_does_not_fail_the_hook(project: Project) -> None:
    project.write("plugins/faber/docs/workflow-orchestration-protocol.md", "more than a pipe's buffer " * 300)
    process = project.started(START, client=ME)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(project.prepared(START, client=ME)[0])
    assert process.returncode == 0
    assert b"Traceback" not in errors
    assert len(project.history) == 1


def test_a_hook_with_its_input_closed_uses_the_variables(project: Project) -> None:
    assert shell(project, '"$1" hook session-start <&-').packet
    assert project.events[1]["client"] == ME


def test_a_hook_in_a_directory_that_is_gone_finds_the_project(project: Project, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    assert shell(project, 'rmdir "$PWD" && exec "$1" hook session-start', directory=tmp_path / "gone").packet
    assert len(project.history) == 1


# The hook log


def test_the_hook_log_is_bounded(project: Project) -> None:
    project.active_path.write_text("../x" + "y" * 3000)
    project.log_path.parent.mkdir()
    project.log_path.write_text("an old line\n" * (LONGEST_LOG // 12 + 1))
    old = project.log_path.read_bytes()
    check(project, project.deliver(END), said="is not a run id", packet=False)
    assert project.log_path.with_name("hooks.log.1").read_bytes() == old
    assert len(project.log_lines) == 1
    assert len(project.log_lines[0]) <= 2000
    project.log_path.write_bytes(old)
    project.deliver(END)
    assert sorted(path.name for path in project.log_path.parent.iterdir()) == ["hooks.log", "hooks.log.1"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_that_cannot_be_written_stops_nothing(project: Project, tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    project.log_path.parent.mkdir()
    if kind == "link":
        project.log_path.symlink_to(victim)
    else:
        os.mkfifo(project.log_path)
    answer = project.deliver(START, client=ME, stdin=b"no JSON")
    assert answer.code == 0
    assert answer.packet
    assert victim.read_text() == "mine\n"
