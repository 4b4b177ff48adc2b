"""Run git for a command, with `subprocess`: as the user would, in the user's folder.

Commands use this where git's exit code or complaint matters, or where git changes something. Hooks, and the libraries
that they load, ask with `GitQuery` of `runs/git_query.py`, which costs less and never writes.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.git_query import FOREIGN, INDEX, SAFE, index_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


NO_TIME_LEFT = 0.0  # git was too slow once: it is not asked again
# No argument: the limit of one `doctor` holds for each call below it, and the first answer that is late ends them all.
_limit: ContextVar[float | None] = ContextVar("seconds for an answer of git", default=None)


@contextmanager
def limit_answers(seconds: float) -> Iterator[None]:
    """Limit the time for each answer of git inside the `with` block; the shorter of nested limits holds.

    After one answer that did not come in time, the next questions fail at once.
    """
    before = _limit.get()
    token = _limit.set(seconds if before is None else min(seconds, before))
    try:
        yield
    finally:
        _limit.reset(token)


def git(*arguments: str, at: str | None = None, content: bytes | None = None) -> bytes:
    """Run a git command and return what it printed; raises GitFailed with git's own complaint."""
    done = run_git(*arguments, at=at, content=content)
    if done.returncode:
        name = next(word for word in arguments if not word.startswith("-"))
        raise GitFailed(f"`git {name}` failed: {complaint(done)}", hint="see what `git status` says, and run it again")
    return done.stdout


def run_git(
    *arguments: str,
    at: str | None = None,
    content: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
    asked: str = "git",
    may_ask: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a git command whose exit code matters; raises GitFailed if git is not installed or too slow.

    `environment` replaces this process's own; git finds the repository of the folder `at`, whatever it names, and in a
    commit hook the index to commit is used. `seconds` limit the time for the answer, besides `limit_answers`; `asked`
    is who gives none then. Git asks the user for a password only if it `may_ask`.
    """
    kept = {name: value for name, value in (environment or os.environ).items() if name not in FOREIGN}
    index = named_index(at or os.getcwd())
    if index is not None:
        kept[INDEX] = index
    limit = _limit.get()
    seconds = min([one for one in (limit, seconds) if one is not None], default=None)
    try:
        if seconds == NO_TIME_LEFT:
            raise subprocess.TimeoutExpired("git", NO_TIME_LEFT)
        return subprocess.run(
            ["git", *SAFE, *arguments],
            cwd=at,
            env={**kept, "LC_ALL": "C", **({} if may_ask else {"GIT_TERMINAL_PROMPT": "0"})},
            input=b"" if content is None else content,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        if limit is not None:
            _limit.set(NO_TIME_LEFT)
        if asked != "git":
            within = f"within {seconds:g} s" if seconds else "in time"
            raise GitFailed(f"{asked} did not answer {within}", hint=f"try `git fetch {asked}` by hand") from error
        hint = "see what `git status` does here; a pipe in place of one of git's files stops it, as a slow disk does"
        raise GitFailed("git did not answer in time", hint=hint) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        if at is not None and not os.path.isdir(at):  # removed by another process a moment ago
            raise GitFailed(f"the folder {at} does not exist", hint="run the command again") from error
        raise GitFailed("git is not installed", hint="install git, then run the command again") from error


def named_index(folder: str) -> str | None:
    """Return the `index_of` the work tree that a folder is in."""
    tree = work_tree_of(folder)
    return index_of(tree.top, tree.own) if tree is not None else None


def top_of(root: str) -> str | None:
    """Return the top of the work tree that a project lies in; None if git knows none."""
    try:
        done = run_git("rev-parse", "--show-toplevel", at=root)
    except GitFailed:
        return None
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 and done.stdout.strip() else None


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of git's complaint that is no warning, or its exit code if it printed none."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    lines = [line for line in lines if not line.startswith("warning: ")] or lines
    return lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else f"exit code {done.returncode}"


# Git's cache of ledgers as text: notes that git writes with each version of a ledger that it shows. `init` switches it
# on (`diff.faber-ledger.cachetextconv`). It is one ref of the clone, and a push takes it along only if it names it, or
# with `--mirror`. The notes hold payloads, also those that were redacted later.
TEXT_CACHE = "refs/notes/textconv/faber-ledger"


def has_text_cache(root: str) -> bool:
    """Return whether this clone has such a cache."""
    return top_of(root) is not None and run_git("show-ref", "--verify", "--quiet", TEXT_CACHE, at=root).returncode == 0


def has_cached_text(root: str, blob: str) -> bool:
    """Return whether the cache has the text of a ledger's version, given by its object's id."""
    return has_text_cache(root) and run_git("notes", f"--ref={TEXT_CACHE}", "list", blob, at=root).returncode == 0


def remove_text_cache(root: str) -> bool:
    """Remove the cache, and return whether there was one; raises GitFailed. The next `git log -p` makes a new one."""
    if not has_text_cache(root):
        return False
    git("update-ref", "-d", TEXT_CACHE, at=root)
    return True
