"""Which run is active after git has brought an active file of another run: the one that this work tree claims."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.clones import ACTIVE, RUN, Clone
from support.command import COMMAND
from support.project import Project, usual_state

from faber_ledger.projections.blocks import text_of
from faber_ledger.runs import active_file
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import ACTIVE_FILES


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    clone = Clone.first(tmp_path / "one")
    clone.faber("run", "resume", RUN)
    return clone


@pytest.fixture
def other(one: Clone) -> Clone:
    return one.clone("other")


def start(clone: Clone, run_id: str) -> str:
    clone.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes")
    return run_id


def start_and_commit(clone: Clone, run_id: str) -> None:
    start(clone, run_id)
    clone.commit(run_id)


def write_run(clone: Clone, run_id: str, file: str) -> None:
    """Write a run's state and name it in one active file, as FABER's tools do."""
    for path, content in ((f".fractary/runs/{run_id}/state.json", text_of(usual_state(run_id))), (file, f"{run_id}\n")):
        (clone.root / path).parent.mkdir(parents=True, exist_ok=True)
        (clone.root / path).write_text(content)


def commit_at(clone: Clone, seconds: int) -> None:
    clone.git("add", "-A")
    assert clone.call("git", "commit", "-qm", "Work", GIT_COMMITTER_DATE=f"{seconds} +0000").returncode == 0


def in_file(clone: Clone) -> str:
    return (clone.root / ACTIVE).read_text().strip()


def active(clone: Clone) -> str:
    found = json.loads(clone.faber("status", "--json").stdout)["data"]["run_id"]
    assert isinstance(found, str)
    return found


def messages_of_a_hook(clone: Clone) -> str:
    """Return what a hook prints as messages while it records on the active run."""
    delivery = {"session_id": "c", "hook_event_name": "PreCompact", "trigger": "auto", "cwd": str(clone.root)}
    (clone.root.parent / "delivery").write_text(json.dumps(delivery))
    done = clone.call("sh", "-c", f"{COMMAND} hook pre-compact < ../delivery", CLAUDE_PROJECT_DIR=str(clone.root))
    return done.stderr


@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_pull_leaves_the_run_that_was_started_here_active(
    one: Clone, other: Clone, how: str, committed: bool
) -> None:
    start_and_commit(one, "theirs")
    start(other, "mine")
    if committed:
        other.commit("mine")
    other.git("pull", "-q", how, "../one", "main")
    assert in_file(other) == "mine"
    assert active(other) == "mine"


def test_stash_pop_leaves_it_active(one: Clone, other: Clone) -> None:
    start_and_commit(one, "theirs")
    start(other, "mine")
    other.git("stash", "-q", "-u")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    other.git("stash", "pop", "-q")
    assert active(other) == "mine"


def test_a_run_that_a_tool_made_active_here_stays_so_too(one: Clone, other: Clone) -> None:
    """Without a claim, the run that something was recorded on in this work tree is its own."""
    start_and_commit(one, "theirs")
    run_id = start(other, "mine")
    (other.root / ".git/faber-ledger-run").unlink()
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert in_file(other) == run_id


def test_a_merge_that_only_brings_the_other_file_switches_nothing(one: Clone, other: Clone) -> None:
    other.faber("run", "resume", RUN)
    start_and_commit(one, "theirs")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert in_file(other) == "theirs"
    assert active(other) == RUN
    assert messages_of_a_hook(other) == ""
    assert active(other) == RUN
    other.faber("run", "resume", "theirs", "--yes")
    assert active(other) == "theirs"


@pytest.mark.parametrize("how", ["--no-rebase", "--ff-only", "--rebase"])
@pytest.mark.parametrize("by", ["hook", "session-load"])
def test_a_session_alone_keeps_the_run_active_too(one: Clone, other: Clone, how: str, by: str) -> None:
    """A clone that only continues to work, by hooks or session-load, has never started or resumed a run."""
    if by == "hook":
        other.record("works on")
    else:
        other.faber("session-load", "--artifacts", "workflow-state")
    if how == "--rebase":
        other.commit("work")
    start_and_commit(one, "theirs")
    other.git("pull", "-q", how, "../one", "main")
    assert active(other) == RUN


def test_a_session_on_a_run_that_a_tool_made_active_claims_it(one: Clone) -> None:
    one.faber("run", "start", "--work-id", "1", "--run-id", "second", "--yes")
    (one.root / ACTIVE).write_text(f"{RUN}\n")
    assert active(one) == RUN
    one.record("back")
    assert (one.root / ".git/faber-ledger-run").read_text().split() == [RUN]


@pytest.mark.parametrize("is_one_commit", [True, False])
def test_a_rebase_names_no_run_again(one: Clone, is_one_commit: bool) -> None:
    """FABER names a run in its own file only; then a rebase writes both files, within one tick of the clock."""
    began = int(time.time())
    one.git("checkout", "-q", "-b", "feat")
    write_run(one, "older", ACTIVE_FILES[0])
    if not is_one_commit:
        commit_at(one, began + 100)
    write_run(one, "newer", ACTIVE_FILES[1])
    if is_one_commit:
        assert "newer" in one.compact("client")
    commit_at(one, began + 200)
    one.git("update-ref", "refs/heads/main", one.git("commit-tree", "main^{tree}", "-p", "main", "-m", "More").strip())
    one.call("git", "rebase", "-q", "main", GIT_COMMITTER_DATE=f"{began + 300} +0000")
    for file in ACTIVE_FILES:
        os.utime(one.root / file, (began + 300, began + 300))
    assert [(one.root / file).read_text() for file in ACTIVE_FILES] == ["older\n", "newer\n"]
    assert active(one) == "newer"
    assert "newer" in one.compact("next")


def test_status_says_which_run_git_brought(one: Clone, other: Clone) -> None:
    other.record("works on")
    start_and_commit(one, "theirs")
    other.git("pull", "-q", "--no-rebase", "../one", "main")
    assert (
        f"git brought an active file that names theirs; {RUN}, which is claimed here, stays active"
        " - `faber-ledger run resume theirs` makes the other one active"
    ) in other.faber("status").stderr


def test_a_run_that_git_clean_removed_with_the_active_file_stays_active(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "plain")
    clone.root.mkdir()
    clone.git("init", "-q")
    start(clone, "mine")
    clone.git("clean", "-q", "-fdx")
    assert active_run(str(clone.root)).run_id == "mine"
    assert "`faber-ledger run resume mine` restores them" in clone.faber("run", "list").stdout
    clone.faber("run", "resume", "mine", "--yes")
    assert active(clone) == "mine"
    assert "restores them" not in clone.faber("run", "list").stdout


def test_an_active_file_that_somebody_removed_ends_the_claim(one: Clone) -> None:
    (one.root / ACTIVE).unlink()
    assert active_run(str(one.root)).run_id is None


def test_a_stopped_merge_of_the_active_file_changes_nothing(one: Clone, other: Clone) -> None:
    other.forget_driver()
    start_and_commit(one, "theirs")
    start_and_commit(other, "mine")
    other.git("pull", "--no-rebase", "../one", "main", code=1)
    assert in_file(other).startswith("<<<<<<<")
    assert active(other) == "mine"
    other.faber("resolve")
    assert in_file(other) == "mine"


def test_resolve_in_a_rebase_keeps_the_run_that_was_started_here(one: Clone, other: Clone) -> None:
    other.forget_driver()
    start_and_commit(one, "theirs")
    start_and_commit(other, "mine")
    other.git("pull", "--rebase", "../one", "main", code=1)
    other.faber("resolve")
    assert in_file(other) == "mine"


def test_a_checkout_of_a_branch_makes_its_run_active_where_it_was_worked_on_here(one: Clone) -> None:
    one.git("checkout", "-q", "-b", "topic")
    start_and_commit(one, "second")
    one.git("checkout", "-q", "main")
    assert active(one) == RUN
    one.git("checkout", "-q", "topic")
    assert active(one) == "second"


def test_a_checkout_of_a_branch_without_our_run_leaves_it_active(one: Clone, other: Clone) -> None:
    """The branch's run is a colleague's; ours is not here now, but this clone's mirror has it."""
    start_and_commit(one, "theirs")
    start_and_commit(other, "mine")
    other.git("fetch", "-q", "../one", "main:review")
    other.git("checkout", "-q", "review")
    found = active_run(str(other.root))
    assert (found.run_id, found.is_shown) == ("mine", False)


def test_a_tool_that_writes_the_active_file_is_believed(one: Clone) -> None:
    folder = one.root / ".fractary/runs/by-a-tool"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({**one.state, "run_id": "by-a-tool"}))
    (one.root / ACTIVE).write_text("by-a-tool\n")
    assert active(one) == "by-a-tool"


# The files below the git directory


@pytest.mark.parametrize("file", ["faber-ledger-run", "faber-ledger/used-runs"])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "folder"])
def test_anything_else_in_place_of_a_file_is_not_waited_for(tmp_path: Path, file: str, kind: str) -> None:
    project = Project.made(tmp_path / "project")
    path = project.root / ".git" / file
    path.parent.mkdir(exist_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    assert project.deliver("SessionStart.startup.print").packet is not None
    assert project.types == ["run_adopted", "session_started"]


def test_of_two_uses_at_once_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands make runs active in two work trees; one has read which runs were used when the other writes."""
    root = str(Project.made(tmp_path / "project").root)
    used = active_file._used_runs

    def interrupt(root: str) -> list[str]:
        known = used(root)
        monkeypatch.undo()
        active_file.remember_use(root, "second")
        return known

    monkeypatch.setattr(active_file, "_used_runs", interrupt)
    active_file.remember_use(root, "first")
    assert [active_file.was_used(root, run_id) for run_id in ("first", "second", "third")] == [True, True, False]
