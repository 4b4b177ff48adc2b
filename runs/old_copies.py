"""Old copies of a run's files, and of words in them, which a redaction removes.

These are backups, and what killed writers left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from faber_ledger.ledger import BACKUP_ENDING, disk
from faber_ledger.ledger.disk import OURS, FileRefused, read_regular
from faber_ledger.ledger.log import Log
from faber_ledger.runs.kept_summaries import remove_redacted_summaries
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import LARGEST_STATE, STATE, STATE_BACKUP, STRIPPED, Run, with_suffix
from faber_ledger.runs.state_file import read_state_copy, state_copy_path

# How the names of our copies begin and end. `state.backup.json` is FABER's own name (AGENT, RELOAD), and
# `state.json.tmp` belongs to another tool, which may be about to rename it.
COPIES = (("state", BACKUP_ENDING), (".state", OURS), (".ledger", OURS))


def old_copies(run: Run) -> list[str]:
    """Return the old copies of a run's files: in its folders, and beside its log."""
    tree = find_run(run.root, run.run_id) if run.is_kept else run  # git leaves what it ignores
    found = [path for one in (Run(run.root, run.run_id, run.private_folder), tree) for path in _copies_of(one)]
    unfinished = os.path.join(run.private_folder, f"{STATE}.tmp")  # by a killed writer of the state's copy
    return [*found, *_outdated_state(run), *([unfinished] if os.path.lexists(unfinished) else [])]


def _outdated_state(run: Run) -> list[str]:
    """Return the copy of the run's state.json beside the log if it is not the same, or there is no state.json."""
    path, kept = state_copy_path(run), read_state_copy(run)
    if path is None or kept is None:
        return []
    try:
        return [path] if read_regular(run.state_path, LARGEST_STATE) != kept else []
    except (FileRefused, OSError):
        return [path]


def remove_old_copies(run: Run, log: Log) -> list[str]:
    """Remove the old copies of a run's files and the kept summaries that its log has redacted; return their paths.

    The caller holds the run's lock, and has written log and state.json.
    """
    removed = remove_redacted_summaries(run, log)
    for path in old_copies(run):
        os.unlink(path)
        removed.append(path)
    disk.remove(os.path.join(run.private_folder, STRIPPED))
    return removed


def _copies_of(run: Run) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(run.directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        ours = any([entry.name.startswith(begins) and entry.name.endswith(ends) for begins, ends in COPIES])
        is_copy = ours or entry.name == with_suffix(STATE_BACKUP, run.suffix)
        if is_copy and run.owns(entry.name) and not entry.is_dir(follow_symlinks=False):
            yield entry.path
