"""Which run is active after git has brought another one's active file: the one that was taken up in this work tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.clones import ACTIVE, RUN, Clone
from support.project import COMMAND


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    clone = Clone.first(tmp_path / "one")
    clone.faber("run", "resume", RUN)
    return clone


@pytest.fixture
def other(one: Clone) -> Clone:
    return one.clone("other")


def started(clone: Clone, run_id: str) -> str:
    clone.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes")
    return run_id


def pushed(clone: Clone, run_id: str) -> None:
    started(clone, run_id)
    clone.commit(run_id)


def in_file(clone: Clone) -> str:
    return (clone.root / ACTIVE).read_text().strip()


def active(clone: Clone) -> str:
    found = json.loads(clone.faber("status", "--json").stdout)["data"]["run_id"]
    assert isinstance(found, str)
    return found


def noted(clone: Clone) -> str:
    """Give what a hook says beside recording on the active run."""
    delivery = {"session_id": "c", "hook_event_name": "PreCompact", "trigger": "auto", "cwd": str(clone.root)}
    (clone.root.parent / "delivery").write_text(json.dumps(delivery))
    done = clone.call("sh", "-c", f"{COMMAND} hook pre-compact < ../delivery", CLAUDE_PROJECT_DIR=str(clone.root))
    return done.stderr


@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_pull_leaves_the_run_that_was_started_here_active(
    one: Clone, other: Clone, how: str, committed: bool
) -> None:
    pushed(one, "theirs")
    started(other, "mine")
    if committed:
        other.commit("mine")
    other.git("pull", "-q", how, "../one", "main")
    assert in_file(other) == "mine"
    assert active(other) == "mine"


def test_stash_pop_leaves_it_active(one: Clone, other: Clone) -> None:
    pushed(one, "theirs")
    started(other, "mine")
    other.git("stash", "-q", "-u")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    other.git("stash", "pop", "-q")
    assert active(other) == "mine"


def test_a_run_that_a_tool_made_active_here_stays_so_too(one: Clone, other: Clone) -> None:
    """Without a word of this work tree: what was recorded here tells."""
    pushed(one, "theirs")
    run_id = started(other, "mine")
    (other.root / ".git/faber-ledger-run").unlink()
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert in_file(other) == run_id


def test_a_merge_that_only_brings_the_other_file_switches_nothing_and_is_told_once(one: Clone, other: Clone) -> None:
    other.faber("run", "resume", RUN)
    pushed(one, "theirs")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert in_file(other) == "theirs"
    assert active(other) == RUN
    assert f"names theirs; {RUN}, which is claimed here, stays active - `faber-ledger run resume theirs`" in noted(
        other
    )
    assert "theirs" not in noted(other)
    assert active(other) == RUN
    other.faber("run", "resume", "theirs", "--yes")
    assert active(other) == "theirs"


@pytest.mark.parametrize("how", ["--no-rebase", "--ff-only", "--rebase"])
@pytest.mark.parametrize("by", ["hook", "session-load"])
def test_a_session_alone_keeps_the_run_active_too(one: Clone, other: Clone, how: str, by: str) -> None:
    """A clone that only works on, by hooks or session-load, has never started or resumed a run."""
    if by == "hook":
        other.record("works on")
    else:
        other.faber("session-load", "--artifacts", "workflow-state")
    if how == "--rebase":
        other.commit("work")
    pushed(one, "theirs")
    other.git("pull", "-q", how, "../one", "main")
    assert active(other) == RUN


def test_a_session_on_a_run_that_a_tool_made_active_takes_it_up(one: Clone) -> None:
    one.faber("run", "start", "--work-id", "1", "--run-id", "second", "--yes")
    (one.root / ACTIVE).write_text(f"{RUN}\n")
    assert active(one) == RUN
    one.record("back")
    assert (one.root / ".git/faber-ledger-run").read_text().split() == [RUN]


def test_status_tells_once_which_run_git_brought(one: Clone, other: Clone) -> None:
    other.record("works on")
    pushed(one, "theirs")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert f"names theirs; {RUN}, which is claimed here, stays active" in other.faber("status").stderr
    assert other.faber("status").stderr == ""


def test_a_run_that_git_clean_took_with_the_active_file_is_named(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "plain")
    clone.root.mkdir()
    clone.git("init", "-q")
    started(clone, "mine")
    clone.git("clean", "-q", "-fdx")
    for command in (["status"], ["note", "add", "text"]):
        assert "`faber-ledger run resume mine` brings back the run" in clone.faber(*command, code=10).stderr
    assert "`faber-ledger run resume mine` brings it back" in clone.faber("run", "list").stdout
    clone.faber("run", "resume", "mine", "--yes")
    assert active(clone) == "mine"
    assert "brings it back" not in clone.faber("run", "list").stdout


def test_a_stopped_merge_of_the_active_file_changes_nothing(one: Clone, other: Clone) -> None:
    other.forget_driver()
    pushed(one, "theirs")
    pushed(other, "mine")
    other.git("pull", "--no-rebase", "../one", "main", code=1)
    assert in_file(other).startswith("<<<<<<<")
    assert active(other) == "mine"
    other.faber("resolve")
    assert in_file(other) == "mine"


def test_resolve_in_a_rebase_keeps_the_run_that_was_started_here(one: Clone, other: Clone) -> None:
    other.forget_driver()
    pushed(one, "theirs")
    pushed(other, "mine")
    other.git("pull", "--rebase", "../one", "main", code=1)
    other.faber("resolve")
    assert in_file(other) == "mine"


def test_a_checkout_of_a_branch_makes_its_run_active_where_it_was_worked_on_here(one: Clone) -> None:
    one.git("checkout", "-q", "-b", "topic")
    pushed(one, "second")
    one.git("checkout", "-q", "main")
    assert active(one) == RUN
    one.git("checkout", "-q", "topic")
    assert active(one) == "second"


def test_a_checkout_of_a_branch_without_our_run_makes_the_branchs_own_active(one: Clone, other: Clone) -> None:
    pushed(one, "theirs")
    pushed(other, "mine")
    other.git("fetch", "-q", "../one", "main:review")
    other.git("checkout", "-q", "review")
    assert active(other) == "theirs"


def test_a_tool_that_writes_the_active_file_is_believed(one: Clone) -> None:
    folder = one.root / ".fractary/runs/by-a-tool"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({**one.state, "run_id": "by-a-tool"}))
    (one.root / ACTIVE).write_text("by-a-tool\n")
    assert active(one) == "by-a-tool"
