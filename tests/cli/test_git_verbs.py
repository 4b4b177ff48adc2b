"""Each git verb that touches a run's files, tried with real git: what docs/guides/GIT.md says of it happens.

After each of them every event that was ever acknowledged is in the ledger again, and the two blocks show it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import ACTIVE, LEDGER, RUN, STATE, Clone
from support.folders import copy_prepared
from support.project import usual_state
from support.sizes import few

DIRTY = f" M {LEDGER}\n M {STATE}\n"


def assert_settled(clone: Clone, *clients: str) -> None:
    """Let the next thing be written, and check that the sessions of all these clients are there."""
    clone.faber("project")
    assert {"first", *clients} <= clone.clients()
    clone.assert_sound()


def status(clone: Clone) -> str:
    return clone.git("status", "--porcelain")


def test_a_checkout_of_another_branch_is_refused_or_merges_what_is_not_committed(one: Clone) -> None:
    one.git("branch", "older")
    one.advance("newer")
    one.record("uncommitted")
    assert "would be overwritten by checkout" in one.git("checkout", "older", code=1)
    assert status(one) == DIRTY
    one.git("checkout", "-m", "-q", "older")
    assert {"uncommitted", "newer"} <= one.clients()
    assert_settled(one, "newer", "uncommitted")


def test_checkout_that_git_does_not_refuse_rolls_back_and_the_next_record_brings_it_back(one: Clone) -> None:
    one.git("branch", "older")
    one.advance("newer")
    one.git("checkout", "-q", "older")
    assert one.clients() == {"first"}
    assert "rolled_back" in one.faber("verify", code=20).stdout
    one.record("on-older")
    assert one.clients() == {"first", "newer", "on-older"}
    assert_settled(one, "newer", "on-older")


# --- leaving a branch: `feature` has three commits of a session, whose end came after the last one


@pytest.fixture
def branch(tmp_path: Path) -> Clone:
    copy_prepared(prepare, tmp_path)
    return Clone(tmp_path / "one")


def prepare(folder: Path) -> None:
    clone = Clone(folder / "one")
    clone.root.mkdir()
    clone.git("init", "-q", "-b", "main")
    clone.faber("init", "--git-only")
    change(clone, "base.py")
    clone.git("checkout", "-q", "-b", "feature")
    clone.state_path.parent.mkdir(parents=True)
    clone.put({**usual_state(RUN), "updated_at": "2026-01-05T14:30:22Z"})
    (clone.root / ACTIVE).write_text(f"{RUN}\n")
    clone.record("mine")
    clone.commit("begin")
    for name in ("one.py", "two.py", "three.py"):
        clone.compact("mine")
        change(clone, name)
    clone.git("branch", "other", "main")
    clone.end("mine")
    assert status(clone) == DIRTY


def change(clone: Clone, name: str, text: str = "x = 1\n") -> None:
    """Write a file and commit it, with what was recorded."""
    (clone.root / name).write_text(text)
    clone.commit(f"{name}: {text}")


def change_elsewhere(clone: Clone, branch: str, name: str, text: str) -> None:
    """Commit a change of one file on another branch, as a colleague does."""
    clone.git("worktree", "add", "-q", "../elsewhere", branch)
    elsewhere = Clone(clone.root.parent / "elsewhere")
    (elsewhere.root / name).write_text(text)
    elsewhere.git("add", name)
    elsewhere.git("commit", "-qm", name)
    clone.git("worktree", "remove", "../elsewhere")


def save(clone: Clone) -> None:
    """Do what the guide says to do before leaving a branch."""
    clone.faber("seal")
    clone.git("commit", "-qm", "Save the session", ".fractary")


def assert_nothing_lost(clone: Clone, before: set[str]) -> None:
    """Let the next thing be written; check that each event is in the ledger, and that a commit leaves a clean tree."""
    clone.faber("project")
    assert before <= clone.ids()
    clone.assert_sound()
    if status(clone):
        save(clone)
    assert status(clone) == ""


@pytest.mark.long
@pytest.mark.parametrize("leave", few([("checkout", "main"), ("checkout", "HEAD~1")], 1), ids=" ".join)
def test_a_branch_is_left_after_a_commit_and_found_again(branch: Clone, leave: tuple[str, str]) -> None:
    assert "would be overwritten by checkout" in branch.git(*leave, code=1)
    save(branch)
    branch.git(*leave)
    assert status(branch) == ""
    assert RUN in branch.compact("mine")
    before = branch.kept_ids()
    if leave[1] == "main" or not branch.ledger.exists():
        assert status(branch) == ""  # recorded in the log alone: main is not the run's branch
    else:
        assert status(branch) == DIRTY
        assert "would be overwritten by checkout" in branch.git("checkout", "feature", code=1)
    branch.git("checkout", "-m", "feature")
    assert_nothing_lost(branch, before)
    branch.git("checkout", "main")
    assert status(branch) == ""


def test_a_stash_with_the_ledger_pops_after_a_commit(branch: Clone) -> None:
    (branch.root / "draft.py").write_text("draft\n")
    branch.git("stash", "-qu")
    branch.compact("mine")
    before = branch.kept_ids()
    save(branch)
    branch.git("stash", "pop", "-q")
    assert (branch.root / "draft.py").exists()
    assert branch.git("stash", "list") == ""
    (branch.root / "draft.py").unlink()
    assert_nothing_lost(branch, before)


@pytest.mark.long
@pytest.mark.parametrize("verb", few(["rebase", "merge"], 1))
def test_a_rebase_or_merge_that_stopped_goes_on_after_a_seal(branch: Clone, verb: str) -> None:
    change(branch, "base.py", "mine\n")
    branch.record("uncommitted")
    change_elsewhere(branch, "other", "base.py", "theirs\n")
    branch.git(verb, "other", code=1)
    branch.compact("uncommitted")
    before = branch.kept_ids()
    (branch.root / "base.py").write_text("both\n")
    branch.git("add", "base.py")
    branch.faber("seal")
    branch.git(*(["rebase", "--continue"] if verb == "rebase" else ["commit", "--no-edit"]))
    assert branch.git("branch", "--show-current") == "feature\n"
    assert branch.git("stash", "list") == ""
    assert_nothing_lost(branch, before)
