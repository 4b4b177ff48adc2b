"""The kept run: a run's mirror and the copy of its `state.json` below the git directory, seen as a run's folder.

Where a work tree lacks a run (a checkout of main, `git stash -u`, a bisect, a rebase that stopped), this clone reads it
from there and records on it there. The kept run has no mirror of its own, everything else holds for it as for any run.
The next time the run's log is opened where the work tree has it, the events are united with its ledger.
"""

from __future__ import annotations

import os

from faber_ledger.runs.clone import kept_folder
from faber_ledger.runs.copies import has_events
from faber_ledger.runs.run import Run, find_run


def kept_run(root: str, run_id: str) -> Run | None:
    """Return a run as this clone keeps it below the git directory; None without git, and if it has no event there."""
    folder = kept_folder(root, run_id)
    if folder is None:
        return None
    run = Run(root, run_id, folder)
    run.is_kept = True
    return run if has_events(run.ledger_path) else None


def run_here(root: str, run_id: str) -> Run:
    """Return the run to read and to record on: the work tree's if the tree has it, else the kept one if there is one.

    If there is neither, the work tree's run, of which nothing exists. Raises as `find_run`.
    """
    run = find_run(root, run_id)
    return run if is_in_tree(run) else kept_run(root, run.run_id) or run


def is_in_tree(run: Run) -> bool:
    """Return whether a work tree has a run: its state or its ledger. A lock or a backup, which git ignores, stays."""
    return os.path.lexists(run.state_path) or os.path.lexists(run.ledger_path)
