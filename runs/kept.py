"""The kept run: a run's mirror and the copy of its `state.json` below the git directory, seen as a run's folder.

Where a work tree lacks a run (a checkout of main, `git stash -u`, a bisect, a rebase that stopped), this clone reads it
from there and records on it there. The kept run has no mirror of its own, everything else holds for it as for any run.
The next time the run's log is opened where the work tree has it, the events are united with its ledger.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, append_line, read_regular
from faber_ledger.runs.clone import kept_folder
from faber_ledger.runs.git import common_directory
from faber_ledger.runs.private_files import is_behind_link
from faber_ledger.runs.run import ALONE, Run, find_run

LARGEST_NOTE = 4 * 1024 * 1024


def kept_run(root: str, run_id: str) -> Run | None:
    """Return a run as this clone keeps it below the git directory; None if it has no event there, or is behind a link.

    None without git, too.
    """
    folder = kept_folder(root, run_id)
    if folder is None or is_behind_link(folder, common_directory(root) or folder):
        return None
    from faber_ledger.runs.copies import has_events  # loads SQLite, which a hook outside a run does not need

    run = Run(root, run_id, folder)
    run.is_kept = True
    return run if has_events(run.ledger_path) else None


def run_here(root: str, run_id: str) -> Run:
    """Return the run to read and to record on: the work tree's if the tree has it, else the kept one if there is one.

    If there is neither, the work tree's run, of which nothing exists. Raises as `find_run`.
    """
    run = find_run(root, run_id)
    return run if run.is_recorded() else kept_run(root, run.run_id) or run


def note_alone(run: Run, ids: list[str]) -> None:
    """Note which events were recorded in a run's mirror alone: no git command has taken them out of a ledger.

    Events that leaving the run out of a branch (`one_sided.py`) took out of the one ledger that had them count, too.
    The note stays when a ledger has got them, since the ledgers of other work trees may not. It may be lost: then they
    are reported as rolled back.
    """
    try:
        path = os.path.join(kept_folder(run.root, run.run_id) or run.directory, ALONE)
        append_line(path, "\n".join(ids))
    except OSError:
        pass


def recorded_alone(run: Run) -> set[str]:
    """Return the ids of the events that were recorded on the kept run alone, wherever they are by now."""
    folder = kept_folder(run.root, run.run_id)
    try:
        return set(read_regular(os.path.join(folder or "", ALONE), LARGEST_NOTE).decode("ascii", "replace").split())
    except (FileRefused, OSError):
        return set()


def not_in_tree(run: Run) -> str:
    """Return the sentence that says where a kept run is recorded on, and how it comes back."""
    return (
        f"This work tree does not have the files of {run.run_id}. What happens is recorded below the git directory, and"
        " comes into the run's ledger once a work tree has it again, as after a checkout of its branch;"
        f" `faber-ledger run resume {run.run_id}` brings its files back here."
    )
