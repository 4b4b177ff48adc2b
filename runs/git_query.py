"""Ask git with `os.posix_spawn`.

This is how hooks ask git, and every library that a hook may load: read-only, without a shell, with a deadline, answered
while other work goes on, and without the module `subprocess`, which costs too much to import. Commands that need git as
the user has it, or that change something with it, call `runs/git_command.py`.
"""

from __future__ import annotations

import os
import time

from faber_ledger.ledger.clock import time_left

SECONDS = 2.0
LIMIT = 1_000_000
SIGKILL = 9  # the module `signal` costs as much as a third of `json`
QUIET = {
    "GIT_ALLOW_PROTOCOL": "none",  # an object that a partial clone lacks would be fetched, by a program of its settings
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# A bare repository that came along as files has a configuration of its own, which may name programs.
SAFE = ("-c", "safe.bareRepository=explicit")
WITHOUT_MONITOR = ("-c", "core.fsmonitor=")  # which even `ls-files` would run
INDEX = "GIT_INDEX_FILE"
# What says which repository git is at work in: a client that another repository's hook has started would have us ask
# that one. `git rev-parse --local-env-vars` lists them, and settings; the last two are not in its list.
FOREIGN = {
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_PREFIX", INDEX, "GIT_CONFIG"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"),
    *("GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_INTERNAL_SUPER_PREFIX"),
    *("GIT_NAMESPACE", "GIT_QUARANTINE_PATH"),
}
# Settings that the environment gives: by a script for each git that it runs, or by `git -c` to what git starts.
GIVEN_SETTINGS = ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS")


class GitQuery:
    """A git command that was started; it never writes and never prompts."""

    def __init__(
        self,
        arguments: list[str],
        directory: str,
        *,
        limit: int = LIMIT,
        deadline: float | None = None,
        content: bytes = b"",
    ) -> None:
        """Start `git -C directory arguments`; without git, or above `limit` bytes, its answer is None.

        `deadline` comes from `time_limit`; without one, git has two seconds. A hook's own deadline holds too. `content`
        is its standard input, written while the answer is read: a pipe may hold no more than a page.
        """
        self._pid = 0
        self._content = content
        self._limit = limit
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}  # a call less
        environment |= QUIET
        command = ["git", *SAFE, *WITHOUT_MONITOR, "-C", directory, *arguments]
        self._deadline = time_limit(SECONDS) if deadline is None else deadline
        self._read, write = os.pipe()
        self._write: int | None = None
        given: int | None = None
        if content:
            given, self._write = os.pipe()
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        actions = [
            nothing if given is None else (os.POSIX_SPAWN_DUP2, given, 0),
            (os.POSIX_SPAWN_DUP2, write, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
        ]
        try:
            self._pid = os.posix_spawnp("git", command, environment, file_actions=actions)
        except OSError:
            pass
        finally:
            os.close(write)
            if given is not None and self._write is not None:
                os.close(given)
                os.set_blocking(self._write, False)

    def answer(self) -> str | None:
        """Return what git printed, without the last newline; None if it failed, was too slow or is not installed."""
        printed = self.answer_bytes()
        return None if printed is None else printed.decode("utf-8", "replace").rstrip("\n")

    def answer_bytes(self) -> bytes | None:
        """Return what git printed; None if it failed, was too slow, printed too much or is not installed."""
        import select  # imported here, while git is working

        pieces, size, is_late = [], 0, False
        try:
            while self._pid and size < self._limit:
                left = time_left(self._deadline - time.monotonic())
                writing = [] if self._write is None else [self._write]
                ready = select.select([self._read], writing, [], left) if left > 0 else ([], [], [])
                if not (ready[0] or ready[1]):
                    is_late = True  # even if git has ended well meanwhile: nobody read what it printed
                    os.kill(self._pid, SIGKILL)
                    break
                if ready[1]:
                    self._write_more()
                if not ready[0]:
                    continue
                piece = os.read(self._read, 65536)
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        finally:
            os.close(self._read)
            self._close_input()
        if not self._pid or os.waitpid(self._pid, 0)[1] != 0 or is_late:
            return None
        return b"".join(pieces)

    def _write_more(self) -> None:
        """Write what the pipe to git has room for."""
        try:
            self._content = self._content[os.write(self._write or 0, self._content) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # git has ended
            self._content = b""
        if not self._content:
            self._close_input()

    def _close_input(self) -> None:
        if self._write is not None:
            os.close(self._write)
            self._write = None


def index_of(top: str, own: str) -> str | None:
    """Return the index that git names to the hooks that it calls, if it is of the work tree with this top and folder.

    A commit has its own: where another repository's hook calls us, what we stage must not get into that commit.
    """
    named = os.environ.get(INDEX)
    if not named:
        return None
    path = os.path.realpath(os.path.join(top, named))
    return path if os.path.dirname(path) == os.path.realpath(own) else None


def own_environment() -> dict[str, str]:
    """Return this process's environment without what names a repository: git finds the one of the folder it is in."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def time_limit(seconds: float) -> float:
    """Return the deadline of questions that together may take `seconds` from now on."""
    return time.monotonic() + seconds


def options_against_filters(names: str) -> list[str] | None:
    """Return options that keep git from running filters on changed files; None if one of them cannot be disabled.

    `names` is what `git config --name-only --get-regexp .` prints: the names of all settings, one a line.
    """
    filters = [name[7:].rpartition(".") for name in names.split("\n") if name.startswith("filter.")]
    options = []
    for name in sorted({name for name, dot, _ in filters if dot}):
        if "=" in name or "\ufffd" in name:
            return None
        for variable, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
            options += ["-c", f"filter.{name}.{variable}={value}"]
    return options


# What is not committed


SECONDS_FOR_CHANGES = 0.3  # for all that git is asked: a hook must not be noticed
MAX_CHANGED = 100  # files whose attributes are looked at
WITHOUT_HOOKS = ("-c", f"core.hooksPath={os.devnull}")


class WorkTreeQuery:
    """What git is asked about a work tree's changes, one question after the other, with one deadline.

    No filter, hook or file system monitor runs: the repository's settings, and so its programs, may be somebody else's.
    No submodule is entered: its commit counts, its files do not.
    """

    def __init__(self, root: str, top: str, *, may_filter: bool) -> None:
        """Ask about the work tree at `top`; `may_filter` is what `git.may_name_filters` says."""
        self._root = root
        self._top = top
        self._may_filter = may_filter
        self._deadline = time_limit(SECONDS_FOR_CHANGES)

    def find_uncommitted(self) -> list[str]:
        """Return the files and new folders outside `.fractary` that surely are not committed, from the top.

        Empty, too, if git does not answer in time.
        """
        against_filters: list[str] | None = []
        if self._may_filter:
            names = self._ask("config", "--name-only", "--get-regexp", ".").answer()
            against_filters = options_against_filters(names) if names is not None else None
        if against_filters is None:
            return []
        printed = self._ask(
            *against_filters,
            *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty"),
            *("--", ":(top)", ":(exclude).fractary"),
        ).answer_bytes()
        changes = [change for change in (printed or b"").split(b"\0") if change]
        unsure = [change[3:] for change in changes if against_filters and change.startswith(b" M ")]
        sure = [change[3:] for change in changes if not (against_filters and change.startswith(b" M "))]
        return [os.fsdecode(path) for path in sure or (self._without_filter(unsure[:MAX_CHANGED]) if unsure else [])]

    def _without_filter(self, paths: list[bytes]) -> list[bytes]:
        """Return those of these files that have no filter: only its filter could compare one that has."""
        tops = [os.path.join(self._top, os.fsdecode(path)) for path in paths]
        printed = self._ask("check-attr", "-z", "filter", "--", *tops).answer_bytes()
        values = printed.split(b"\0")[2::3] if printed is not None else []
        return [path for path, value in zip(paths, values, strict=False) if value in (b"unspecified", b"unset")]

    def _ask(self, *arguments: str) -> GitQuery:
        top = f"--work-tree={self._top}"  # whatever core.worktree says
        return GitQuery([top, *WITHOUT_HOOKS, *arguments], self._root, deadline=self._deadline)
