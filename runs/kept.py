"""The kept run: a run as this clone has it in its private folder, seen as a run's folder.

Where a work tree lacks a run (a checkout of main, `git stash -u`, a bisect, a rebase that stopped), hooks and commands
read its state from the copy there. Its log is the same one.
"""

from __future__ import annotations

import os

from faber_ledger.runs.clone import is_behind_link, is_empty
from faber_ledger.runs.layouts import find_run, private_run_id, run_ids
from faber_ledger.runs.run import Run, common_directory, path_form, private_folder_of, private_runs_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from faber_ledger.ledger.log import Log


def kept_run(root: str, run_id: str) -> Run | None:
    """Return a run as this clone keeps it in its private folder; None if it has no log there, or is behind a link."""
    folder = private_folder_of(root, run_id)
    if is_behind_link(folder, common_directory(root) or folder):
        return None
    run = Run(root, run_id, folder)
    run.is_kept = True
    return None if is_empty(run.log_path) else run


def run_here(root: str, run_id: str) -> Run:
    """Return the run to read and to record on: the work tree's if the tree has it, else the kept one if there is one.

    If there is neither, return the work tree's run, although nothing of it exists. Raises as `find_run`.
    """
    run = find_run(root, run_id)
    return run if run.is_recorded() else kept_run(root, run.run_id) or run


def runs_with_files(run: Run) -> list[Run]:
    """Return a run in each work tree of the clone that has its state, this one first."""
    from faber_ledger.runs.copies import runs_in_other_work_trees  # no hook asks

    there = [find_run(run.root, run.run_id), *runs_in_other_work_trees(run)]
    return [one for one in there if os.path.lexists(one.state_path)]


# The runs that this clone has: those of the work tree, and those that it keeps


def run_ids_here(root: str) -> list[str]:
    """Return the ids of the runs that this clone has: those of the work tree, and those that it keeps, sorted."""
    there = run_ids(root)
    return sorted([*there, *[run.run_id for run in kept_runs_besides(root, there)]])


def runs_here(root: str) -> list[Run]:
    """Return the runs that this clone has, each as `run_here` does, by their ids; raises InvalidRunId.

    A run that the work tree lacks may be of another branch or work tree, or deleted: the clone keeps it until
    `run forget`.
    """
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    return sorted([*runs, *kept_runs_besides(root, [run.run_id for run in runs])], key=lambda run: run.run_id)


def kept_runs_besides(root: str, there: Iterable[str]) -> list[Run]:
    """Return the runs that this clone keeps, besides those with the ids `there`; no link is followed."""
    forms = {path_form(run_id) for run_id in there}
    kept = [kept_run(root, run_id) for run_id in kept_run_ids(root) if path_form(run_id) not in forms]
    return [run for run in kept if run is not None]


def kept_logs(root: str) -> Iterator[tuple[Run, Log]]:
    """Yield the runs that have a readable log in this clone, each with it, by their ids."""
    from contextlib import suppress  # most hooks do without all of it

    from faber_ledger.ledger.errors import LedgerError
    from faber_ledger.ledger.file import sqlite3
    from faber_ledger.ledger.log import Log

    for run in kept_runs_besides(root, ()):
        with suppress(LedgerError, OSError, sqlite3.Error), Log.read(run.log_path) as log:
            yield run, log


def kept_run_ids(root: str) -> Iterator[str]:
    """Yield the ids of the runs that have a log in this clone, sorted. No link is followed."""
    folder = private_runs_folder(root)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    found = [private_run_id(os.path.join(folder, name)) for name in names if not os.path.islink(f"{folder}/{name}")]
    yield from sorted([run_id for run_id in found if run_id is not None])
