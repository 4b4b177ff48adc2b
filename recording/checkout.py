"""What git has checked out when a session starts or ends: the branch, and whether there are uncommitted changes."""

from __future__ import annotations

import os

from faber_ledger.runs.git import GitQuery, branch_of, options_against_filters, time_limit, work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from faber_ledger.ledger.events import CheckoutRecorded, Draft

    class Checkout(TypedDict):
        """The branch (None: detached or unknown), and whether there are uncommitted changes (None: unknown)."""

        branch: str | None
        uncommitted: bool | None


SECONDS = 0.3  # for all that git is asked: a hook must not be noticed
MAX_CHANGED = 100  # files whose attributes are looked at
WITHOUT_PROGRAMS = ("-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}")


def checkout_at_start(root: str) -> Checkout | None:
    """Return the branch that is checked out, without running git; None outside git."""
    if work_tree_of(root) is None:
        return None
    return {"branch": branch_of(root), "uncommitted": None}


class CheckoutQuery:
    """What is checked out when a session ends; git is asked in the background, from the moment this is made."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._tree = work_tree_of(root)
        self._deadline = time_limit(SECONDS)
        self._names = self._ask("config", "--name-only", "--get-regexp", ".") if self._tree else None

    def read(self) -> Checkout | None:
        """Return the branch, and whether anything outside `.fractary` is not committed; None outside git.

        No filter, hook or file system monitor runs: the repository's settings, and so its programs, may be somebody
        else's. Submodules do not count.
        """
        if self._names is None:
            return None
        return {"branch": branch_of(self._root), "uncommitted": self._is_uncommitted(self._names.answer())}

    def _is_uncommitted(self, names: str | None) -> bool | None:
        against_filters = options_against_filters(names) if names is not None else None
        if against_filters is None:
            return None
        printed = self._ask(
            *against_filters,
            *("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all"),
            *("--", ":(top)", ":(exclude).fractary"),
        ).answer_bytes()
        if printed is None:
            return None
        changes = [change for change in printed.split(b"\0") if change]
        if not against_filters or not all([change.startswith(b" M ") for change in changes]):
            return bool(changes)
        return self._is_changed_without_filter([change[3:] for change in changes[:MAX_CHANGED]]) if changes else False

    def _is_changed_without_filter(self, paths: list[bytes]) -> bool | None:
        """Return whether one of these files has no filter; None if all have one, which alone could compare them."""
        tops = [os.path.join(self._tree.top, os.fsdecode(path)) for path in paths] if self._tree else []
        printed = self._ask("check-attr", "-z", "filter", "--", *tops).answer_bytes()
        values = printed.split(b"\0")[2::3] if printed is not None else []
        return True if any([value in (b"unspecified", b"unset") for value in values]) else None

    def _ask(self, *arguments: str) -> GitQuery:
        top = f"--work-tree={self._tree.top}" if self._tree else ""  # whatever core.worktree says
        return GitQuery([top, *WITHOUT_PROGRAMS, *arguments], self._root, deadline=self._deadline)


def checkout_after(fact: Draft, checkout: Checkout | None) -> list[Draft]:
    """Return the fact of what was checked out when a session started or ended; none if nothing is known of it.

    It follows `fact`, the session's start or end, at once.
    """
    of = fact["event"]
    if checkout is None or not (of["type"] == "session_started" or of["type"] == "session_ended"):
        return []
    event: CheckoutRecorded = {
        "type": "checkout_recorded",
        "session_id": of["session_id"],
        "is_end": of["type"] == "session_ended",
        "branch": checkout["branch"],
        "uncommitted": checkout["uncommitted"],
    }
    return [{"event": event, "client": fact.get("client")}]
