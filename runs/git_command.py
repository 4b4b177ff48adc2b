"""Git from a command: as the user would call it, in the user's place and with the user's index."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from faber_ledger.ledger.errors import GitFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


NO_MORE = 0.0  # git was too slow once, and is asked no more
_limit: ContextVar[float | None] = ContextVar("seconds for an answer of git", default=None)


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Give git so long for each answer meanwhile, or less where less was given before.

    After one that did not come, the next questions fail at once.
    """
    before = _limit.get()
    token = _limit.set(seconds if before is None else min(seconds, before))
    try:
        yield
    finally:
        _limit.reset(token)


def git(*arguments: str, at: str | None = None, content: bytes | None = None, without: Collection[str] = ()) -> bytes:
    """Run a git command and give what it printed; raises GitFailed with git's own complaint.

    The environment stays, but for the names in `without`: in a commit hook it names the index that is being committed.
    """
    done = asked(*arguments, at=at, content=content, without=without)
    if done.returncode:
        raise GitFailed(
            f"`git {arguments[0]}` failed: {complaint(done)}", hint="see what `git status` says, and run it again"
        )
    return done.stdout


def asked(
    *arguments: str, at: str | None = None, content: bytes | None = None, without: Collection[str] = ()
) -> subprocess.CompletedProcess[bytes]:
    """Run a git command whose exit code is its answer; raises GitFailed if git is not installed, or is too slow."""
    kept = {name: value for name, value in os.environ.items() if name not in without}
    seconds = _limit.get()
    try:
        if seconds == NO_MORE:
            raise subprocess.TimeoutExpired("git", NO_MORE)
        return subprocess.run(
            ["git", *arguments],
            cwd=at,
            env={**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            input=b"" if content is None else content,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        _limit.set(NO_MORE)
        hint = "see what `git status` does here; a pipe in place of one of git's files stops it, as a slow disk does"
        raise GitFailed("git did not answer in time", hint=hint) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        if at is not None and not os.path.isdir(at):  # removed by another process a moment ago
            raise GitFailed(f"the folder {at} is not there", hint="run the command again") from error
        raise GitFailed("git is not installed", hint="install git, then run the command again") from error


def top_of(root: str) -> str | None:
    """Give the top of the work tree that a project lies in; None where git has none."""
    try:
        done = asked("rev-parse", "--show-toplevel", at=root)
    except GitFailed:
        return None
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 and done.stdout.strip() else None


def worktree_roots(root: str) -> list[str]:
    """Give where a project lies in each worktree of its clone, this one first; without git there is this one alone."""
    roots, top = [root], top_of(root)
    if top is not None:
        inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
        listed = os.fsdecode(asked("worktree", "list", "--porcelain", at=root).stdout).splitlines()
        trees = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
        roots += [os.path.normpath(os.path.join(tree, inside)) for tree in trees]
    return roots


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """Give the first line of what git complained of, else its exit code."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else f"exit code {done.returncode}"
