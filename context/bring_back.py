"""A run that `git clean` took away before it was ever committed, brought back from this clone's mirror."""

from __future__ import annotations

import os

from faber_ledger.context.git import Question
from faber_ledger.context.lost_ledger import remembered
from faber_ledger.context.project import find_run, is_run_id, read_active_run, taken_up
from faber_ledger.ledger.errors import LedgerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.project import Run

MADE = {"status": "in_progress"}  # nobody finishes a run and leaves it uncommitted


def bring_back(root: str, text: str | None, warn: Callable[[str], None]) -> None:
    """Bring back the run that is named, or the active one, if its folder is gone; raises as `regenerated`.

    One that a commit has is left alone: it was deleted, or is on another branch, where it would be in git's way.
    """
    named = text or read_active_run(root)
    run = _if_taken(root, named)
    if run is None:
        return
    from faber_ledger.context.regenerate import regenerated

    os.makedirs(run.directory)
    try:
        _, source, unknown = regenerated(run, rebuild=False, warn=warn, made=MADE)
    except LedgerError:
        _remove_empty(run)
        raise
    state = f"made of the log, which does not know: {', '.join(unknown)}; its status is set to in_progress"
    warn(
        f"the run {run.run_id} was gone and is brought back from this clone's mirror;"
        f" state.json is {f'taken from {source}' if source else state}"
    )


def run_taken_away(root: str) -> str | None:
    """Name the run that goes on here if git has taken it away and it can be brought back; else None.

    `git clean -x` takes the active file as well: then what was taken up in this work tree tells.
    """
    run = _if_taken(root, read_active_run(root) or taken_up(root))
    return run.run_id if run else None


def _if_taken(root: str, named: str | None) -> Run | None:
    if named is None or not is_run_id(named):
        return None
    run = find_run(root, named)
    if os.path.lexists(run.directory) or remembered(run) is None or _is_committed(run):
        return None
    return run


def _is_committed(run: Run) -> bool:
    """Tell whether a commit of any branch or tag has the run; git that does not answer may have one."""
    path = run.shown("ledger.db")
    told = Question(["rev-list", "--all", "--max-count=1", "--", path], run.root).answer()
    return told is None or told != ""


def _remove_empty(run: Run) -> None:
    try:
        for name in (run.lock_path, run.ledger_path):
            if os.path.lexists(name):
                os.unlink(name)
        os.rmdir(run.directory)
    except OSError:
        pass
