"""The kept run: a run as this clone has it in its private folder, seen as a run's folder.

Where a work tree lacks a run (a checkout of main, `git stash -u`, a bisect, a rebase that stopped), hooks and commands
read its state from the copy there. Its log is the same one.
"""

from __future__ import annotations

from faber_ledger.runs.clone import is_behind_link, is_empty
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import Run, common_directory, private_folder_of


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


def not_in_tree(run: Run) -> str:
    """Return the sentence that says where a kept run is recorded on, and how it comes back."""
    return (
        f"This work tree does not have the files of {run.run_id}. What happens is recorded below the git directory, and"
        " is written into the run's files once a work tree has them again, as after a checkout of its branch;"
        f" `faber-ledger run resume {run.run_id}` brings its files back here."
    )
