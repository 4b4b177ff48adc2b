"""Whether a run that git brought belongs to this clone, or is a colleague's (DECISIONS 37 c)."""

from __future__ import annotations

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.runs import state_file
from faber_ledger.runs.active_file import read_claim, was_used
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.copies import mirror_with_events
from faber_ledger.runs.git import branch_of, is_tracked, other_roots, work_tree_of
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.progress import branch_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from faber_ledger.runs.run import Run

    T = TypeVar("T")


def belongs_here(root: str, run_id: str) -> bool:
    """Return whether a run was used in this clone, or its own branch is checked out, or git did not bring it."""
    if work_tree_of(root) is None or was_used_here(root, run_id) or is_own_branch(root, run_id):
        return True
    run = run_here(root, run_id)
    return not run.is_kept and is_tracked(run.state_path) is False


def was_used_here(root: str, run_id: str) -> bool:
    """Return whether a run was started, resumed or recorded on in any work tree of this clone."""
    claims = [read_claim(one) for one in (root, *other_roots(root))]
    if run_id in [claim.run_id for claim in claims if claim is not None] or was_used(root, run_id):
        return True
    writer = known_writer(root)
    return writer is not None and any(
        [_ask(path, lambda log: log.has_writer(writer)) for path in _logs_of(root, run_id)]
    )


def is_own_branch(root: str, run_id: str) -> bool:
    """Return whether the branch that is checked out is the run's own; if none is known for it, any branch is.

    It is the branch that its state names, else the newest that was recorded where the work tree had the run.
    """
    own = _branch_in_state(root, run_id)
    if not isinstance(own, str):
        own = _newest_branch(root, run_id)
    return not own or own.removeprefix("refs/heads/") == branch_of(root)


def _newest_branch(root: str, run_id: str) -> str | None:
    """Return the newest branch in a run's log, which the file of a branch that is checked out need not know."""
    found = [_ask(path, lambda log: log.newest_branch()) for path in _logs_of(root, run_id)]
    newest = max([branch for branch in found if branch is not None], default=None)
    return newest[2] if newest is not None else None


def _branch_in_state(root: str, run_id: str) -> object:
    try:
        return branch_name(state_file.look_at_state(run_here(root, run_id), state_file.LARGEST_TO_ASK).value)
    except LedgerError:
        return None


def _logs_of(root: str, run_id: str) -> list[str]:
    """Return the paths of a run's log and its mirror, as far as they exist."""
    try:
        run: Run = run_here(root, run_id)
    except LedgerError:
        return []
    mirror = None if run.is_kept else mirror_with_events(run)
    return [run.ledger_path, *([mirror] if mirror else [])]


def _ask(path: str, question: Callable[[Log], T]) -> T | None:
    """Return a log's answer; None if there is no log, or it cannot be read."""
    try:
        with Log.read(path) as log:
            return question(log)
    except (LedgerError, OSError, UnicodeDecodeError, sqlite3.Error):
        return None
