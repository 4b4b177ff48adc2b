"""Each git verb that touches a run's files, tried with real git: what docs/guides/GIT.md says of it happens.

After each of them every event that was ever acknowledged is in the ledger again, and the two blocks show it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import LEDGER, RUN, STATE, Clone

DIRTY = f" M {LEDGER}\n M {STATE}\n"


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    return Clone.first(tmp_path / "one")


@pytest.fixture
def other(one: Clone) -> Clone:
    return one.clone("other")


def assert_settled(clone: Clone, *clients: str) -> None:
    """Let the next thing be written, and check that the sessions of all these clients are there."""
    clone.faber("project")
    assert {"first", *clients} <= clone.clients()
    clone.assert_sound()


def status(clone: Clone) -> str:
    return clone.git("status", "--porcelain")


@pytest.mark.parametrize("how", [("--no-rebase",), ("--rebase",)])
def test_a_pull_over_what_is_not_committed_keeps_the_events_of_both_sides(
    one: Clone, other: Clone, how: tuple[str]
) -> None:
    other.advance("there")
    one.advance("here")
    one.record("uncommitted")
    output = one.git("pull", *how, "../other", "main")
    assert "Created autostash" in output
    assert "Applied autostash" in output
    assert one.clients() == {"first", "there", "here", "uncommitted"}
    assert_settled(one, "there", "here", "uncommitted")


def test_pull_without_autostash_is_refused_and_a_commit_lets_it_through(one: Clone, other: Clone) -> None:
    one.git("config", "--local", "merge.autoStash", "false")
    other.advance("there")
    one.record("uncommitted")
    assert "would be overwritten by merge" in one.git("pull", "--no-rebase", "../other", "main", code=1)
    one.faber("seal")
    one.git("commit", "-qm", "keep")
    one.git("pull", "-q", "--no-rebase", "../other", "main")
    assert_settled(one, "there", "uncommitted")


def test_a_merge_keeps_the_events_of_both_sides(one: Clone, other: Clone) -> None:
    other.advance("there")
    one.advance("here")
    one.git("fetch", "-q", "../other", "main:theirs")
    one.record("uncommitted")
    one.git("merge", "-q", "theirs")
    assert one.clients() == {"first", "there", "here", "uncommitted"}
    assert_settled(one, "there", "here", "uncommitted")


def test_a_merge_without_the_driver_stops_and_resolve_keeps_the_events_of_both_sides(one: Clone, other: Clone) -> None:
    one.forget_driver()
    other.advance("there")
    one.advance("here")
    output = one.git("pull", "--no-rebase", "../other", "main", code=1)
    assert f"CONFLICT (content): Merge conflict in {LEDGER}" in output
    one.faber("resolve")
    one.git("commit", "-q", "--no-edit")
    assert_settled(one, "there", "here")
    assert status(one) == ""


def test_an_octopus_merge_that_git_refuses_works_one_branch_at_a_time(one: Clone, other: Clone) -> None:
    third = one.clone("third")
    for clone in (other, third):
        clone.advance(clone.root.name)
        one.git("fetch", "-q", f"../{clone.root.name}", f"main:{clone.root.name}")
    one.advance("here")
    one.git("merge", "-q", "other", "third", code=2)
    one.git("reset", "-q", "--merge")
    one.git("merge", "-q", "other")
    one.git("merge", "-q", "third")
    assert one.clients() == {"first", "other", "third", "here"}
    assert_settled(one, "other", "third", "here")


def test_a_criss_cross_merge_keeps_the_events_of_both_sides(one: Clone, other: Clone) -> None:
    """Two merge bases: git runs the drivers on those first."""
    one.advance("here")
    other.advance("there")
    here, there = one.git("rev-parse", "HEAD").strip(), other.git("rev-parse", "HEAD").strip()
    one.git("fetch", "-q", "../other", "main")
    other.git("fetch", "-q", "../one", "main")
    one.git("merge", "-q", there)
    other.git("merge", "-q", here)
    for clone in (one, other):
        clone.faber("project")
        clone.advance(f"after-{clone.root.name}")
    one.git("pull", "-q", "--no-rebase", "../other", "main")
    assert_settled(one, "here", "there", "after-one", "after-other")


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


@pytest.mark.parametrize("verb", [("checkout", "HEAD", "--", "."), ("restore", "."), ("reset", "-q", "--hard")])
def test_what_was_recorded_comes_back_after_committed_files_are_put_back(one: Clone, verb: tuple[str, ...]) -> None:
    one.record("taken")
    one.git(*verb)
    assert one.clients() == {"first"}
    assert "rolled_back" in one.faber("verify", code=20).stdout
    assert_settled(one, "taken")


def test_the_events_of_a_commit_that_was_reset_come_back(one: Clone) -> None:
    one.advance("second")
    one.git("reset", "-q", "--hard", "HEAD~1")
    one.record("third")
    assert_settled(one, "second", "third")


def test_a_rebase_keeps_every_commit_and_every_event(one: Clone, other: Clone) -> None:
    other.advance("there")
    one.advance("here-1")
    one.advance("here-2")
    one.git("fetch", "-q", "../other", "main:theirs")
    one.record("uncommitted")
    one.git("rebase", "-q", "theirs")
    assert one.git("rev-list", "--count", "theirs..main") == "2\n"
    assert one.clients() == {"first", "there", "here-1", "here-2", "uncommitted"}
    assert_settled(one, "there", "here-1", "here-2", "uncommitted")


def test_a_cherry_pick_brings_the_events_of_earlier_commits_too(one: Clone, other: Clone) -> None:
    other.advance("skipped")
    other.advance("picked")
    one.advance("here")
    one.git("fetch", "-q", "../other", "main:theirs")
    one.git("cherry-pick", "theirs")
    assert one.clients() == {"first", "picked", "skipped", "here"}
    assert_settled(one, "picked", "skipped", "here")


def test_revert_removes_no_event(one: Clone) -> None:
    (one.root / "code.py").write_text("x = 1\n")
    one.advance("second")
    one.advance("third")
    one.git("revert", "--no-edit", "HEAD~1")
    assert not (one.root / "code.py").exists()
    assert one.clients() == {"first", "second", "third"}
    assert_settled(one, "second", "third")


def test_revert_of_the_newest_commit_rolls_back_and_the_next_record_brings_it_back(one: Clone) -> None:
    """Nothing is merged then: git puts the older file there."""
    one.advance("second")
    one.git("revert", "--no-edit", "HEAD")
    assert one.clients() == {"first"}
    assert_settled(one, "second")


def test_a_stash_rolls_back_and_its_pop_brings_the_events_back(one: Clone) -> None:
    one.record("stashed")
    one.git("stash", "-q")
    assert one.clients() == {"first"}
    assert "rolled_back" in one.faber("verify", code=20).stdout
    one.git("stash", "pop", "-q")
    assert_settled(one, "stashed")


def test_stash_pop_over_new_events_is_refused_until_they_are_committed(one: Clone) -> None:
    (one.root / "code.py").write_text("x = 1\n")
    one.git("add", "code.py")
    one.record("stashed")
    one.git("stash", "-q")
    one.record("since")
    assert "would be overwritten by merge" in one.git("stash", "pop", code=1)
    one.faber("seal")
    one.git("commit", "-qm", "keep")
    one.git("stash", "pop", "-q")
    assert (one.root / "code.py").exists()
    assert_settled(one, "stashed", "since")


def test_a_stash_of_untracked_files_and_a_clean_lose_no_event(one: Clone) -> None:
    one.git("rm", "-rq", "--cached", ".fractary/runs")
    one.git("commit", "-qm", "not tracked")
    one.git("stash", "-uq")
    assert not one.ledger.exists()
    one.git("stash", "pop", "-q")
    assert_settled(one)
    one.record("second")
    one.git("clean", "-fdxq")
    assert not one.ledger.parent.exists()
    one.faber("project", RUN)
    assert_settled(one, "second")


def test_linked_worktrees_bring_each_others_events(one: Clone) -> None:
    one.git("worktree", "add", "-q", "../linked")
    linked = Clone(one.root.parent / "linked")
    linked.faber("run", "resume", RUN)  # a second worktree takes a run up by its own word
    linked.record("elsewhere")
    one.record("here")
    assert {"elsewhere", "here"} <= one.clients()
    assert_settled(linked, "elsewhere", "here")
