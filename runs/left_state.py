"""The runs that this clone has: those of the work tree, and those that it keeps below the git directory."""

from __future__ import annotations

import os

from faber_ledger.runs.kept import run_here
from faber_ledger.runs.layouts import find_run, private_run_id, run_ids
from faber_ledger.runs.run import path_form, private_runs_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.runs.run import Run


def run_ids_here(root: str) -> list[str]:
    """Return the ids of the runs that this clone has: those of the work tree, and those that it keeps, sorted."""
    there = run_ids(root)
    forms = {path_form(run_id) for run_id in there}
    return sorted([*there, *[run_id for run_id in kept_run_ids(root) if path_form(run_id) not in forms]])


def runs_here(root: str) -> list[Run]:
    """Return the runs that this clone has, each as `run_here` does, by their ids; raises InvalidRunId.

    A run that the work tree lacks may be of another branch or work tree, or deleted: the clone keeps it until
    `run forget`.
    """
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    there = {path_form(run.run_id) for run in runs}
    for run_id in kept_run_ids(root):
        if path_form(run_id) not in there and (here := run_here(root, run_id)).is_kept:
            runs.append(here)
    return sorted(runs, key=lambda run: run.run_id)


def kept_run_ids(root: str) -> Iterator[str]:
    """Yield the ids of the runs that have a log in this clone, sorted. No link is followed."""
    folder = private_runs_folder(root)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    found = [private_run_id(os.path.join(folder, name)) for name in names if not os.path.islink(f"{folder}/{name}")]
    yield from sorted([run_id for run_id in found if run_id is not None])
