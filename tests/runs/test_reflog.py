"""Whose word a name in an active file is: git's or this work tree's, from the index and the reflog."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.project import Project

from faber_ledger.runs.git import forget_work_trees
from faber_ledger.runs.reflog import BROUGHT, CHECKED_OUT, RETURNED, WRITTEN, find_origin, find_written
from faber_ledger.runs.run import ACTIVE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = ACTIVE_FILES[0]
F_SETPIPE_SZ = 1031


class Repository(Project):
    """A repository in which an active file is written and moved about."""

    def name(self, run_id: str) -> None:
        self.write(FILE, f"{run_id}\n")

    def commit(self, message: str = "Work") -> None:
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    @property
    def named(self) -> str:
        return self.active_path.read_text().strip()

    @property
    def origin(self) -> str:
        forget_work_trees()
        return find_origin(str(self.root), FILE, self.named)[0]


@pytest.fixture
def here(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "here")
    made.root.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.write("code", "1\n")
    return made


@pytest.fixture
def other(here: Repository) -> Repository:
    """The repository with `ours` on main and `theirs` on the branch `other`."""
    here.name("ours")
    here.commit()
    here.git("checkout", "--quiet", "-b", "other")
    here.name("theirs")
    here.commit("theirs")
    here.git("checkout", "--quiet", "main")
    return here


def test_what_a_tool_wrote_is_this_work_trees(here: Repository) -> None:
    here.name("ours")
    assert here.origin == WRITTEN  # before the first commit
    here.git("add", "-A")
    assert here.origin == WRITTEN
    here.commit()
    assert here.origin == WRITTEN  # the first commit
    here.name("second")
    assert here.origin == WRITTEN
    here.git("add", "-A")
    assert here.origin == WRITTEN
    here.commit()
    here.write("code", "2\n")
    here.commit()
    here.git("commit", "--quiet", "--amend", "-m", "Again")
    assert here.origin == WRITTEN


def check_out_without_reflog(here: Repository) -> None:
    here.git("checkout", "--quiet", "other")
    (here.root / ".git/logs/HEAD").unlink()


MOVES: dict[str, Callable[[Repository], object]] = {
    "merge": lambda here: here.git("merge", "--quiet", "--no-ff", "--no-edit", "other"),
    "fast forward": lambda here: here.git("merge", "--quiet", "--ff-only", "other"),
    "pull": lambda here: here.git("pull", "--quiet", "--ff-only", ".", "other"),
    "pull with a rebase": lambda here: here.git("pull", "--quiet", "--rebase", ".", "other"),
    "rebase": lambda here: here.git("rebase", "--quiet", "other"),
    "reset": lambda here: here.git("reset", "--quiet", "--hard", "other"),
    "cherry-pick": lambda here: here.git("cherry-pick", "other"),
    "merge that is not committed yet": lambda here: here.git("merge", "--no-ff", "--no-commit", "other"),
    "squash that is not committed yet": lambda here: here.git("merge", "--squash", "other"),
    "merge with a commit of its own": lambda here: (
        here.git("merge", "--no-ff", "--no-commit", "other"),
        here.git("commit", "--quiet", "--no-edit"),
    ),
    "checkout without a reflog": check_out_without_reflog,
}


@pytest.mark.parametrize("how", MOVES)
def test_what_git_brought_is_gits(other: Repository, how: str) -> None:
    MOVES[how](other)
    assert (other.named, other.origin) == ("theirs", BROUGHT)
    other.write("code", "2\n")
    other.git("commit", "--quiet", "-a", "-m", "More")
    assert other.origin == (WRITTEN if "squash" in how else BROUGHT)  # a squash is committed as anything else is
    other.write(FILE, "theirs")
    assert other.origin == (WRITTEN if "squash" in how else BROUGHT)  # the same name, in other bytes


@pytest.fixture
def clone(other: Repository, tmp_path: Path) -> Repository:
    """A clone with `mine` on its branch main, made in it, whose remote has `theirs` on the branch `other`."""
    other.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    made = Repository(tmp_path / "clone")
    made.write("own", "1\n")
    made.git("commit", "--quiet", "--allow-empty", "-m", "Work")
    return made


STAGED: dict[str, Callable[[Repository], object]] = {
    "squash": lambda here: here.git("merge", "--squash", "origin/other"),
    "cherry-pick": lambda here: here.git("cherry-pick", "-n", "origin/other"),
    "checkout": lambda here: here.git("checkout", "origin/other", "--", "."),
    "restore": lambda here: here.git("restore", "--source=origin/other", "--staged", "--worktree", "."),
    "soft reset": lambda here: (
        here.git("merge", "--quiet", "--no-ff", "--no-edit", "origin/other"),
        here.git("reset", "--soft", "HEAD~1"),
    ),
}


@pytest.mark.parametrize("how", STAGED)
def test_what_git_staged_from_a_colleagues_branch_stays_gits(clone: Repository, how: str) -> None:
    STAGED[how](clone)
    assert (clone.named, clone.origin) == ("theirs", BROUGHT)
    clone.commit("Their work")
    assert clone.origin == BROUGHT
    clone.git("commit", "--quiet", "--amend", "-m", "Their work again")
    assert clone.origin == BROUGHT


@pytest.mark.parametrize("how", STAGED)
def test_sessions_that_git_staged_from_a_colleagues_branch_stay_gits(
    clone: Repository, other: Repository, how: str
) -> None:
    other.git("checkout", "--quiet", "other")
    other.write("sessions", "theirs\n")
    other.commit("theirs")
    clone.git("fetch", "--quiet")
    if how == "cherry-pick":
        clone.git("cherry-pick", "origin/other~1")
    STAGED[how](clone)
    clone.write("sessions", "theirs\nours\n")

    def written() -> list[str]:
        return find_written(str(clone.root), "sessions", ["theirs", "ours"], lambda read: read.decode().split(), 10_000)

    assert written() == ["ours"]
    clone.commit("Both")
    assert written() == ["ours"]


def test_what_was_committed_here_stays_ours_wherever_it_was_pushed(clone: Repository) -> None:
    clone.git("checkout", "--quiet", "-b", "mine")
    clone.name("mine")
    clone.commit("first")
    clone.write("code", "2\n")
    clone.commit("second")
    clone.git("push", "--quiet", "origin", "mine")
    clone.git("reset", "--quiet", "--soft", "HEAD~2")
    assert clone.origin == WRITTEN
    clone.commit("one commit of two")
    assert clone.origin == WRITTEN  # although the remote's branch had it before
    clone.git("commit", "--quiet", "--amend", "-m", "again")
    assert clone.origin == WRITTEN
    clone.git("rebase", "--quiet", "--force-rebase", "origin/main")
    clone.git("push", "--quiet", "--force", "origin", "mine:mine")
    clone.git("reset", "--quiet", "--soft", "HEAD~1")
    clone.commit("of a rebased one")
    assert clone.origin == WRITTEN


def test_what_a_remote_squashed_later_was_written_here_first(
    clone: Repository, other: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone.git("checkout", "--quiet", "-b", "mine")
    clone.name("mine")
    clone.commit()
    clone.git("push", "--quiet", "origin", "mine")
    other.git("merge", "--squash", "mine")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
    other.commit("mine, squashed")
    clone.git("fetch", "--quiet")
    assert clone.origin == WRITTEN


@pytest.mark.parametrize("side", ["--theirs", "--ours"])
def test_a_side_of_a_conflict_is_what_git_has_of_it(clone: Repository, side: str) -> None:
    clone.git("checkout", "--quiet", "-b", "mine")
    clone.name("mine")
    clone.commit()
    with pytest.raises(subprocess.CalledProcessError):
        clone.git("merge", "origin/other")
    clone.git("checkout", side, "--", FILE)
    theirs = side == "--theirs"
    assert (clone.named, clone.origin) == (("theirs", BROUGHT) if theirs else ("mine", WRITTEN))
    clone.name("a tool's")
    assert clone.origin == WRITTEN


@pytest.mark.parametrize("verb", ["checkout", "switch"])
def test_a_checkout_is_told_apart(clone: Repository, verb: str) -> None:
    clone.git(verb, "--quiet", "other")
    assert (clone.named, clone.origin) == ("theirs", CHECKED_OUT)
    clone.git(verb, "--quiet", "-c" if verb == "switch" else "-b", "new")
    assert clone.origin == CHECKED_OUT


def test_a_checkout_of_what_was_committed_here_is_a_return(other: Repository) -> None:
    other.git("checkout", "--quiet", "other")
    assert (other.named, other.origin) == ("theirs", RETURNED)


def test_a_checkout_of_what_was_squashed_here_is_no_return(clone: Repository) -> None:
    clone.git("checkout", "--quiet", "-b", "squashed")
    STAGED["squash"](clone)
    clone.commit("Their work")
    clone.git("checkout", "--quiet", "main")
    clone.git("checkout", "--quiet", "squashed")
    assert (clone.named, clone.origin) == ("theirs", CHECKED_OUT)


def test_a_checkout_of_a_branch_with_the_same_name_brings_nothing(other: Repository) -> None:
    other.git("checkout", "--quiet", "-b", "new")
    other.git("checkout", "--quiet", "main")
    other.git("checkout", "--quiet", "other")
    other.git("checkout", "--quiet", "main")
    other.name("mine")
    other.commit()
    other.git("checkout", "--quiet", "-B", "new")
    assert (other.named, other.origin) == ("mine", WRITTEN)


def test_a_stash_gives_back_what_a_tool_wrote(other: Repository) -> None:
    other.name("mine")
    other.git("stash", "--quiet")
    assert other.named == "ours"
    other.git("stash", "pop", "--quiet")
    assert (other.named, other.origin) == ("mine", WRITTEN)


def test_a_clone_and_a_new_worktree_have_gits_word(other: Repository, tmp_path: Path) -> None:
    other.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    assert Repository(tmp_path / "side").origin == BROUGHT
    other.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    clone = Repository(tmp_path / "clone")
    assert clone.origin == BROUGHT
    clone.name("mine")
    clone.commit()
    assert clone.origin == WRITTEN


def test_a_project_below_the_top_of_its_repository(here: Repository) -> None:
    project = Repository(here.root / "app")
    project.name("ours")
    here.commit()
    assert project.origin == WRITTEN
    here.git("checkout", "--quiet", "-b", "other")
    project.name("theirs")
    here.commit()
    here.git("checkout", "--quiet", "main")
    here.git("merge", "--quiet", "other")
    assert (project.named, project.origin) == ("theirs", BROUGHT)


def test_a_name_that_is_older_than_the_reflog_is_gits(other: Repository) -> None:
    log = other.root / ".git/logs/HEAD"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[-1:]))
    other.git("commit", "--quiet", "--allow-empty", "-m", "one")
    log.write_text("".join(log.read_text().splitlines(keepends=True)[-1:]))
    assert other.origin == BROUGHT


@pytest.mark.parametrize("content", [b"", b"nonsense\n" * 9, b"\xff\xfe\0" * 99, b"0 1\tcommit: x\n", b"\t\n\t\n"])
def test_a_broken_reflog_is_none(other: Repository, content: bytes) -> None:
    (other.root / ".git/logs/HEAD").write_bytes(content)
    assert other.origin == BROUGHT


def test_only_the_newest_moves_are_asked_for(other: Repository) -> None:
    for number in range(130):
        other.git("commit", "--quiet", "--allow-empty", "-m", f"{number}")
    assert other.origin == BROUGHT
    other.name("mine")
    other.commit()
    assert other.origin == WRITTEN


def test_a_reflog_of_any_size_is_asked_for_through_the_smallest_pipe(
    other: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user above the system's limit for pipes gets pipes of a page, and a write into a full one blocks."""
    for number in range(60):
        other.git("commit", "--quiet", "--allow-empty", "-m", f"{number}")
    pipe = os.pipe

    def narrow() -> tuple[int, int]:
        ends = pipe()
        fcntl.fcntl(ends[1], F_SETPIPE_SZ, 4096)
        return ends

    monkeypatch.setattr(os, "pipe", narrow)
    signal.alarm(20)  # ends the test run: nothing else would
    try:
        assert other.origin == RETURNED
    finally:
        signal.alarm(0)


def test_a_pipe_in_place_of_the_reflog_is_not_waited_for(other: Repository) -> None:
    (other.root / ".git/logs/HEAD").unlink()
    os.mkfifo(other.root / ".git/logs/HEAD")
    signal.alarm(20)
    try:
        assert other.origin == BROUGHT
    finally:
        signal.alarm(0)


def test_a_large_file_in_a_commit_costs_nothing(here: Repository) -> None:
    here.name("x" * 3_000_000)
    here.commit()
    here.name("ours")
    assert here.origin == BROUGHT  # git's answer is too long, so it is not known


def test_git_that_does_not_answer_is_not_known(other: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert other.origin == BROUGHT


def test_without_git_a_tool_wrote_it(tmp_path: Path) -> None:
    plain = Repository(tmp_path / "plain")
    plain.name("ours")
    assert plain.origin == WRITTEN
