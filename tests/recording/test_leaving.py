"""A client that moves to another run: what it left ends, now or at its next delivery, and the new run is claimed."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

from faber_ledger.runs.seen import SeenClient, seen_client

if TYPE_CHECKING:
    from pathlib import Path

START, COMPACT = "SessionStart.startup.interactive", "SessionStart.compact.interactive"
PRE = "PreCompact.auto.print"
ME = {"client": "me", "pid": "7"}
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": "me", "CLAUDE_PID": "7"}


def faber_starts(project: Project, run_id: str, **more: Any) -> Project:
    """Start a run as FABER does: its state and the active file, without a word to faber-ledger."""
    started = Project(project.root, run_id)
    started.run.mkdir(parents=True)
    started.put_state({**usual_state(run_id), **more})
    started.active_path.write_text(f"{run_id}\n")
    return started


def reasons(run: Project) -> list[str]:
    return [event["reason"] for event in run.of_type("session_ended")]


def seen(project: Project) -> SeenClient:
    found = seen_client(str(project.root), "me")
    assert found is not None
    return found


@pytest.fixture
def first(tmp_path: Path) -> Project:
    """The run that the client has a session on."""
    project = Project.made(tmp_path / "project")
    assert project.deliver(START, **ME).packet is not None
    return project


@pytest.mark.parametrize("delivery", [PRE, COMPACT])
def test_what_is_locked_is_left_at_the_next_delivery(first: Project, delivery: str) -> None:
    second = faber_starts(first, "second")
    with first.lock_path.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = second.deliver(delivery, **ME)
    assert answer.hint or answer.packet
    assert f"the session on {first.run_id} was not ended" in answer.errors
    assert reasons(first) == []
    second.deliver(COMPACT if delivery == PRE else PRE, **ME)  # the same bytes at once would be a repetition
    assert reasons(first) == ["normal"]
    assert seen(first).run_id == "second"
    assert first.state["sessions"]["current_session_id"] is None


def test_a_load_that_meets_a_lock_leaves_the_rest(first: Project) -> None:
    second = faber_starts(first, "second")
    with first.lock_path.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = second.faber("session-load", env=IN_CLIENT)
    assert f"the session on {first.run_id} was not ended" in done.stderr
    assert seen(first).run_id == first.run_id
    second.deliver(PRE, **ME)
    assert reasons(first) == ["normal"]


def test_a_load_does_not_change_since_when_the_client_is_there(first: Project) -> None:
    since = seen(first).session_at
    assert first.faber("session-load", env=IN_CLIENT).returncode in (0, 1)
    assert seen(first).session_at == since
    assert len(first.of_type("session_started")) == 1


def test_a_client_that_left_the_worktree_is_still_recorded_there(first: Project) -> None:
    """(real-client D1)"""
    tree = Project(first.root.parent / "tree", "wt-400")
    first.git("worktree", "add", "--quiet", "-b", "wt9", str(tree.root))
    assert tree.faber("run", "start", "--work-id", "400", "--run-id", "wt-400", "--yes", env=IN_CLIENT).returncode == 0
    first.deliver("SessionEnd.other.interactive", **ME)
    assert tree.current is None
    assert len(tree.of_type("session_ended")) == 1
