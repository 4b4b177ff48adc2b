"""Find what a work tree has not committed, as far as git knows it without running a program of the repository.

No filter, hook or file system monitor runs: the repository's settings, and so its programs, may be somebody else's. No
submodule is entered: its commit counts, its files are unknown. It takes at most `SECONDS`.
"""

from __future__ import annotations

import os

from faber_ledger.runs.git import LIMIT, config_paths, read_git_file
from faber_ledger.runs.git_query import GitQuery, options_against_filters, time_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.git import WorkTree


SECONDS = 0.3  # for all that git is asked: a hook must not be noticed
MAX_CHANGED = 100  # files whose attributes are looked at
MORE_CONFIGURATION = ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_SYSTEM")  # besides `config_paths`
WITHOUT_PROGRAMS = ("-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}")


class WorkTreeQuery:
    """What git is asked about a work tree, one question after the other, with one deadline."""

    def __init__(self, root: str, tree: WorkTree) -> None:
        self._root = root
        self._tree = tree
        self._deadline = time_limit(SECONDS)

    def is_uncommitted(self) -> bool | None:
        """Return whether anything outside `.fractary` is not committed; None if that is not known in time."""
        against_filters, changes = self._changes()
        if changes is None:
            return None
        if not against_filters or not all([change.startswith(b" M ") for change in changes]):
            return True if changes else self._is_unknown_in_submodules()
        if not changes:
            return self._is_unknown_in_submodules()
        return self._is_changed_without_filter([change[3:] for change in changes[:MAX_CHANGED]])

    def list_uncommitted(self) -> list[str]:
        """Return the files and new folders outside `.fractary` that surely are not committed, from the top."""
        against_filters, changes = self._changes()
        sure = [change[3:] for change in changes or [] if not (against_filters and change.startswith(b" M "))]
        return [os.fsdecode(path) for path in sure]

    def _changes(self) -> tuple[list[str], list[bytes] | None]:
        """Return the options that keep git from running filters, and its lines about what is not committed, or None."""
        against_filters: list[str] | None = []
        if _may_name_filters(self._tree):
            names = self._ask("config", "--name-only", "--get-regexp", ".").answer()
            against_filters = options_against_filters(names) if names is not None else None
        if against_filters is None:
            return [], None
        printed = self._ask(
            *against_filters,
            *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty"),
            *("--", ":(top)", ":(exclude).fractary"),
        ).answer_bytes()
        return against_filters, None if printed is None else [change for change in printed.split(b"\0") if change]

    def _is_unknown_in_submodules(self) -> bool | None:
        """Return None if a submodule is checked out, whose files only git in it could compare; False if none is."""
        if not os.path.lexists(os.path.join(self._tree.top, ".gitmodules")):
            return False
        printed = self._ask("ls-files", "--stage", "-z", "--full-name", "--", ":(top)").answer_bytes()
        if printed is None:
            return None
        links = [entry.partition(b"\t")[2] for entry in printed.split(b"\0") if entry.startswith(b"160000 ")]
        folders = [os.path.join(self._tree.top, os.fsdecode(link)) for link in links]
        return None if any([os.path.lexists(os.path.join(folder, ".git")) for folder in folders]) else False

    def _is_changed_without_filter(self, paths: list[bytes]) -> bool | None:
        """Return whether one of these files has no filter; None if all have one, which alone could compare them."""
        tops = [os.path.join(self._tree.top, os.fsdecode(path)) for path in paths]
        printed = self._ask("check-attr", "-z", "filter", "--", *tops).answer_bytes()
        values = printed.split(b"\0")[2::3] if printed is not None else []
        return True if any([value in (b"unspecified", b"unset") for value in values]) else None

    def _ask(self, *arguments: str) -> GitQuery:
        top = f"--work-tree={self._tree.top}"  # whatever core.worktree says
        return GitQuery([top, *WITHOUT_PROGRAMS, *arguments], self._root, deadline=self._deadline)


def _may_name_filters(tree: WorkTree) -> bool:
    """Return whether a configuration that git reads may name a filter; one of a system elsewhere is the user's own."""
    if any([name in os.environ for name in MORE_CONFIGURATION]):
        return True
    paths = (*config_paths(tree.common), os.path.join(tree.own, "config.worktree"))
    texts = [text.lower() for text in map(read_git_file, paths) if text]
    return any([b"filter" in text or b"include" in text or len(text) == LIMIT for text in texts])
