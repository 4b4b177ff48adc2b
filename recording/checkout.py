"""What git has checked out when a session starts or ends: the branch, and whether there are uncommitted changes."""

from __future__ import annotations

from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.git_refs import branch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from faber_ledger.ledger.events import CheckoutRecorded, Draft
    from faber_ledger.runs.run import Run

    class Checkout(TypedDict):
        """The branch (None: detached or unknown), and whether there are uncommitted changes (None: unknown).

        `has_run` says whether the work tree has the files of the run that it is about.
        """

        has_run: bool
        branch: str | None
        uncommitted: bool | None


def checkout_at_start(run: Run) -> Checkout | None:
    """Return the branch that is checked out where a run is used, without running git; None outside git."""
    if work_tree_of(run.root) is None:
        return None
    return {"has_run": not run.is_kept, "branch": branch_of(run.root), "uncommitted": None}


def checkout_at_end(run: Run) -> Checkout | None:
    """Return the branch that is checked out, and whether anything outside `.fractary` is not committed.

    None outside git.
    """
    found, tree = checkout_at_start(run), work_tree_of(run.root)
    if found is None or tree is None:
        return None
    from faber_ledger.runs.uncommitted import WorkTreeQuery  # not at a start

    return {**found, "uncommitted": WorkTreeQuery(run.root, tree).is_uncommitted()}


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
