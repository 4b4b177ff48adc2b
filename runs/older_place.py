"""Move what an earlier version kept of a run for the whole clone to the folder of the run's project.

Only of a project in a folder below the repository's top (`clone.py`); each step may be repeated after a kill.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.union import remove_database, write_union
from faber_ledger.runs.clone import older_kept_folder, older_spool_path, spools_folder
from faber_ledger.runs.private_files import make_kept_folder
from faber_ledger.runs.run import LEDGER, kept_runs_folder
from faber_ledger.runs.unaccepted import keep_back_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def take_over(run: Run) -> None:
    """Move a run's mirror and what is beside it, and its waiting deliveries.

    The caller holds the run's lock. What cannot be moved now is used where it is, and moved the next time.
    """
    try:
        _move_mirror(run)
        _move_spool(run)
    except (LedgerError, OSError, sqlite3.Error):
        return


def _move_mirror(run: Run) -> None:
    older, runs = older_kept_folder(run.root, run.run_id), kept_runs_folder(run.root)
    if older is None or runs is None:
        return
    folder = os.path.join(runs, *run.run_id.split("/"))
    make_kept_folder(run, folder)
    ledgers = [path for path in (os.path.join(folder, LEDGER), os.path.join(older, LEDGER)) if os.path.isfile(path)]
    if all([os.path.getsize(path) for path in ledgers]):
        keep_back_from(run, ledgers)
        write_union(ledgers, os.path.join(folder, LEDGER))
    _move_files(older, folder)
    remove_database(os.path.join(older, LEDGER))  # the last step: until then all is done again after a kill
    _remove_folder(older)


def _move_spool(run: Run) -> None:
    older, spools = older_spool_path(run), spools_folder(run.root)
    if older is None or spools is None:
        return
    folder = os.path.join(spools, *run.run_id.split("/"))
    make_kept_folder(run, folder)
    _move_files(older, folder)
    _remove_folder(older)


def _move_files(older: str, folder: str) -> None:
    """Move a folder's files but the ledger, and not those of other runs below it; what `folder` has is newer."""
    for name in os.listdir(older):
        path, target = os.path.join(older, name), os.path.join(folder, name)
        is_log = name in (LEDGER, LEDGER + JOURNAL_ENDING)
        if is_log or (os.path.isdir(path) and not os.path.islink(path)):
            continue
        if os.path.lexists(target):
            os.unlink(path)
        else:
            os.replace(path, target)


def _remove_folder(folder: str) -> None:
    try:
        os.removedirs(folder)  # and those above it that are empty
    except OSError:
        return
