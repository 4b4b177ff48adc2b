"""Runs whose ledger is missing or empty, although this clone's mirror or git's last commit still has it."""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger.errors import LedgerLost
from faber_ledger.runs.copies import is_in_head, is_other_than_head, mirror_with_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def lacks_ledger(run: Run) -> bool:
    """Return whether a run has no ledger, or an empty file: a writer killed in its first transaction leaves one."""
    try:
        found = os.lstat(run.ledger_path)
    except OSError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def loss_of_events(run: Run) -> tuple[str, str] | None:
    """Return message and hint if the ledger has no event and git's last commit has another one, else None.

    The caller has seen that the ledger has no event.
    """
    if not is_other_than_head(run):
        return None
    return (
        f"the ledger of {run.run_id} holds no event; git's last commit has another one",
        f"{_hint_to_check_out(run)} to bring it back",
    )


def loss_of(run: Run) -> tuple[str, str] | None:
    """Return message and hint if the missing ledger of a run can be restored, None if there never was one."""
    if mirror_with_events(run) is not None:
        return (
            f"the ledger of {run.run_id} is gone; this clone's mirror under the git directory still has it",
            f"run `faber-ledger project {run.run_id}` to bring it back",
        )
    if is_in_head(run):
        return (
            f"the ledger of {run.run_id} is gone; git's last commit still has it",
            f"{_hint_to_check_out(run)} to bring it back",
        )
    return None


def check_not_lost(run: Run) -> None:
    """Raise LedgerLost if git's last commit has a log of a run that has none here: a run must not get a second one."""
    if is_in_head(run):
        raise LedgerLost(
            f"the ledger of {run.run_id} is gone; git's last commit still has it, and a second one is not begun",
            hint=f"{_hint_to_check_out(run)}; or, if it is to be gone,"
            f" `git rm --cached {run.shown(run.ledger_path)}` and commit that",
        )


def _hint_to_check_out(run: Run) -> str:
    return f"run `git checkout HEAD -- {run.shown(run.ledger_path)}` in {run.root}"
