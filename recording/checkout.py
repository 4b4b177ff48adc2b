"""What git has checked out when a session starts or ends: the branch, and whether there are uncommitted changes."""

from __future__ import annotations

import os

from faber_ledger.runs.git import GitQuery, branch_of, options_against_filters, time_limit, work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from faber_ledger.ledger.events import CheckoutRecorded, Draft
    from faber_ledger.runs.git import WorkTree
    from faber_ledger.runs.run import Run

    class Checkout(TypedDict):
        """The branch (None: detached or unknown), and whether there are uncommitted changes (None: unknown).

        `has_run` says whether the work tree has the files of the run that it is about.
        """

        has_run: bool
        branch: str | None
        uncommitted: bool | None


SECONDS = 0.3  # for all that git is asked: a hook must not be noticed
MAX_CHANGED = 100  # files whose attributes are looked at
WITHOUT_PROGRAMS = ("-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}")


def checkout_at_start(run: Run) -> Checkout | None:
    """Return the branch that is checked out where a run is used, without running git; None outside git."""
    if work_tree_of(run.root) is None:
        return None
    return {"has_run": not run.is_kept, "branch": branch_of(run.root), "uncommitted": None}


def checkout_at_end(run: Run) -> Checkout | None:
    """Return the branch that is checked out, and whether anything outside `.fractary` is not committed.

    None outside git. No filter, hook or file system monitor runs: the repository's settings, and so its programs, may
    be somebody else's. No submodule is entered: its commit counts, its files are unknown. It takes at most `SECONDS`.
    """
    tree = work_tree_of(run.root)
    if tree is None:
        return None
    return {
        "has_run": not run.is_kept,
        "branch": branch_of(run.root),
        "uncommitted": _Questions(run.root, tree).is_uncommitted(),
    }


class _Questions:
    """What git is asked about a work tree, one question after the other, with one deadline."""

    def __init__(self, root: str, tree: WorkTree) -> None:
        self._root = root
        self._tree = tree
        self._deadline = time_limit(SECONDS)

    def is_uncommitted(self) -> bool | None:
        """Return whether anything outside `.fractary` is not committed; None if that is not known in time."""
        names = self._ask("config", "--name-only", "--get-regexp", ".").answer()
        against_filters = options_against_filters(names) if names is not None else None
        if against_filters is None:
            return None
        printed = self._ask(
            *against_filters,
            *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty"),
            *("--", ":(top)", ":(exclude).fractary"),
        ).answer_bytes()
        if printed is None:
            return None
        changes = [change for change in printed.split(b"\0") if change]
        if not against_filters or not all([change.startswith(b" M ") for change in changes]):
            return True if changes else self._is_unknown_in_submodules()
        if not changes:
            return self._is_unknown_in_submodules()
        return self._is_changed_without_filter([change[3:] for change in changes[:MAX_CHANGED]])

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


def checkout_after(fact: Draft, checkout: Checkout | None) -> list[Draft]:
    """Return the fact of what was checked out when a run or session started, or a session ended.

    It follows `fact`, that start or end, at once. None if nothing is known of it.
    """
    of = fact["event"]
    if checkout is None:
        return []
    event: CheckoutRecorded = {
        "type": "checkout_recorded",
        "is_end": of["type"] == "session_ended",
        "has_run": checkout["has_run"],
        "branch": checkout["branch"],
        "uncommitted": checkout["uncommitted"],
    }
    if of["type"] == "session_started" or of["type"] == "session_ended":
        event["session_id"] = of["session_id"]
    return [{"event": event, "client": fact.get("client")}]
