"""A hook whose surroundings fail: a lock that is never released, a renamed folder, a clock set back, a crowd."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from support.command import COMMAND
from support.project import Project, without_overrides

from faber_ledger.hooks.hook import Hook
from faber_ledger.recording import inbox
from faber_ledger.recording.call import Call
from faber_ledger.runs.active import active_run
from faber_ledger.runs.layouts import find_run
from faults.calls import stop_at
from faults.crowds import run_crowd, run_rewrites
from faults.stories import events_of

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.made(tmp_path / "project")
    project.deliver(START, client="one")
    return project


def waiting(project: Project) -> int:
    return len(inbox.list_waiting(find_run(str(project.root), project.run_id)))


def ended(project: Project) -> bool:
    """Return whether the clone's log has the session's end, published or not."""
    return "session_ended" in [recorded["event"]["type"] for recorded in events_of(project)]


def assert_ended_once(project: Project) -> None:
    """Run the next hook, and check that the session's end is recorded once."""
    assert project.deliver(START, client="two").packet
    assert waiting(project) == 0
    assert [event["inferred"] for event in project.of_type("session_ended")] == [False]
    project.assert_projected()


@pytest.mark.parametrize(("call", "number"), [("unlink", 1), ("openat", 1)])
def test_a_file_that_git_is_writing_is_not_touched(project: Project, call: str, number: int) -> None:
    project.commit("one")
    assert project.deliver(START, client="one").code == 0
    assert project.deliver(END, client="one").code == 0
    ended = project.events[-1]
    before = project.state_path.read_bytes()
    ledger = project.ledger_path.relative_to(project.root)
    os.utime(project.ledger_path, (0, 0))  # or git reads a file that may be as old as its index, before it writes it
    with stop_at(call, number, ledger, ["git", "checkout", "HEAD", "--", "."], project.root) as git:
        assert not project.ledger_path.exists() or project.ledger_path.stat().st_size == 0
        assert project.deliver(START, client="two").packet
        assert not project.ledger_path.exists() or project.ledger_path.stat().st_size == 0
        assert project.state_path.read_bytes() == before
        git.send_signal(signal.SIGCONT)
        assert git.wait() == 0
    assert project.deliver(END, client="two").code == 0
    assert project.types[-2:] == ["session_started", "session_ended"]
    assert ended in project.events
    project.assert_projected()


def test_a_project_that_is_renamed_under_a_hook_loses_nothing(project: Project, tmp_path: Path) -> None:
    delivery, environment, _ = project.prepared(START, client="two")
    command = [str(COMMAND), "hook", "session-start"]
    with (
        open(tmp_path / "answer", "wb") as answer,
        stop_at("openat", 1, project.lock_path, command, project.root, environment, delivery, answer) as hook,
    ):
        project.root.rename(tmp_path / "renamed")
        hook.send_signal(signal.SIGCONT)
        assert hook.wait() == 0
    assert project.run_id in (tmp_path / "answer").read_text()
    assert not project.root.exists()
    renamed = Project(tmp_path / "renamed")
    assert renamed.deliver(END, client="two").code == 0
    clients = [recorded["client"] for recorded in events_of(renamed) if recorded["event"]["type"] == "session_started"]
    assert clients == ["one", "two"]


def test_a_lock_file_of_another_user_blocks_no_hook(project: Project) -> None:
    project.lock_path.chmod(0)
    assert project.deliver(END, client="one", preexec_fn=without_overrides).code == 0
    assert waiting(project) == 1
    project.lock_path.chmod(0o666)
    assert_ended_once(project)


def test_a_clock_set_back_by_a_day_changes_no_order(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "GIT_"))]:
        monkeypatch.delenv(name)
    content = json.dumps({"session_id": "one", "hook_event_name": "SessionEnd"}).encode()
    run = find_run(str(project.root), project.run_id)
    yesterday = time.time() - 86_400
    Hook(Call("SessionEnd", content, {}), run, active_run(run.root), yesterday, pytest.fail, None).answer()
    assert [event["seq"] for event in project.events] == list(range(1, len(project.events) + 1))
    assert_ended_once(project)


def test_a_hook_that_may_not_write_says_so_and_exits_with_0(project: Project) -> None:
    before = project.state_path.read_bytes()
    answer = project.deliver(END, client="one", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert answer.code == 0
    assert "cannot be written into the inbox" in answer.errors
    assert project.state_path.read_bytes() == before
    assert project.deliver(END, client="one").code == 0
    assert_ended_once(project)


@pytest.mark.parametrize("most", [6, 8])
def test_too_few_descriptors_lose_nothing(project: Project, most: int) -> None:
    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    answer = project.deliver(END, client="one", preexec_fn=narrow)
    assert answer.code == 0
    assert waiting(project) or ended(project) or "cannot be written into the inbox" in answer.errors
    assert project.deliver(END, client="one").code == 0
    project.assert_projected()


def test_forty_hooks_at_once_lose_no_delivery_and_tear_no_read(project: Project) -> None:
    run_crowd(project)
    project.assert_projected()


def test_another_tool_that_rewrites_the_state_loses_us_no_event(project: Project) -> None:
    run_rewrites(project, writes=50)
    assert project.faber("project").returncode == 0
    project.assert_projected()
