"""A run's ledger that is gone, or empty, while this clone still has it: in its mirror, or in git's last commit."""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger.errors import LedgerError, LedgerLost
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import is_empty, mirror_path
from faber_ledger.runs.git import GitQuery, work_tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def lacks_ledger(run: Run) -> bool:
    """Tell whether a run has no ledger; an empty file is none: a writer killed in its first transaction leaves one."""
    try:
        found = os.lstat(run.ledger_path)
    except OSError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def remembered(run: Run) -> str | None:
    """Return the path of a run's mirror if it has an event; one that cannot be read may have.

    0.1.0 made an empty one where there was nothing to record.
    """
    path = mirror_path(run)
    return path if path is not None and has_events(path) else None


def has_events(path: str) -> bool:
    """Return whether a mirror is a file with an event, or one that cannot be read."""
    if not os.path.isfile(path) or is_empty(path):
        return False
    try:
        with Log.read(path) as log:
            return bool(log.heads())
    except (LedgerError, OSError, UnicodeDecodeError, sqlite3.Error):
        return True


def is_mirrored(run: Run) -> bool:
    """Tell whether this clone's mirror has events of the run."""
    return remembered(run) is not None


def is_in_head(run: Run) -> bool:
    """Ask git whether the last commit has a ledger of the run."""
    place = work_tree_of(run.root)
    if place is None:
        return False
    inside = os.path.relpath(os.path.realpath(run.ledger_path), os.path.realpath(place.top)).replace(os.sep, "/")
    return GitQuery(["cat-file", "-e", f"HEAD:{inside}"], place.top).answer() is not None


def loss_of_events(run: Run) -> tuple[str, str] | None:
    """Say that git's last commit has another ledger than the one here, which holds no event; None if it has not."""
    place = work_tree_of(run.root)
    if place is None:
        return None
    path = os.path.realpath(run.ledger_path)
    inside = os.path.relpath(path, os.path.realpath(place.top)).replace(os.sep, "/")
    kept = GitQuery(["rev-parse", "--verify", "--quiet", f"HEAD:{inside}"], place.top).answer()
    if kept is None or kept == GitQuery(["hash-object", "--no-filters", "--", path], place.top).answer():
        return None
    return (
        f"the ledger of {run.run_id} holds no event; git's last commit has another one",
        f"run `git checkout HEAD -- {run.shown('ledger.db')}` in {run.root} to bring it back",
    )


def loss_of(run: Run) -> tuple[str, str] | None:
    """Say that the ledger of a run which lacks it is lost, and how to have it back; None if there never was one."""
    if is_mirrored(run):
        return (
            f"the ledger of {run.run_id} is gone; this clone's mirror under the git directory still has it",
            f"run `faber-ledger project {run.run_id}` to bring it back",
        )
    if is_in_head(run):
        path = run.shown("ledger.db")
        return (
            f"the ledger of {run.run_id} is gone; git's last commit still has it",
            f"run `git checkout HEAD -- {path}` in {run.root} to bring it back",
        )
    return None


def check_not_lost(run: Run) -> None:
    """Raise LedgerLost if git's last commit has a log of a run that has none here: two logs of one run never meet."""
    if is_in_head(run):
        path = run.shown("ledger.db")
        raise LedgerLost(
            f"the ledger of {run.run_id} is gone; git's last commit still has it, and a second one is not begun",
            hint=f"run `git checkout HEAD -- {path}` in {run.root}; or, if it is to be gone, `git rm --cached {path}`"
            " and commit that",
        )
