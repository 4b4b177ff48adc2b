"""Old copies of a run's files, and of words in them, which a redaction removes.

These are backups, those of `doctor`, and what killed writers left.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING, disk
from faber_ledger.ledger.disk import OURS, FileRefused, read_regular
from faber_ledger.runs.kept_summaries import remove_redacted_summaries
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import (
    COPY_ENDINGS,
    LARGEST_STATE,
    STATE_BACKUP,
    STRIPPED,
    UNFINISHED_ENDINGS,
    Run,
    clone_folder,
    state_folder,
    with_suffix,
)
from faber_ledger.runs.state_file import read_state_copy, state_copy_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.log import Log


# How the names of our copies begin and end. `state.backup.json` is FABER's own name (AGENT, RELOAD), and
# `state.json.tmp` belongs to another tool, which may be about to rename it.
COPIES = (
    ("ledger", (*COPY_ENDINGS, *[ending + JOURNAL_ENDING for ending in UNFINISHED_ENDINGS])),
    ("state", (BACKUP_ENDING, f"{BACKUP_ENDING}.tmp")),
    (".state", (OURS,)),
    (".ledger", (OURS,)),
)


def old_copies(run: Run) -> list[str]:
    """Return the old copies of a run's files: in its folders, and where `doctor` keeps its own."""
    tree = find_run(run.root, run.run_id) if run.is_kept else run  # git leaves what it ignores
    found = [path for one in (Run(run.root, run.run_id, run.private_folder), tree) for path in _copies_of(one)]
    return found + _outdated_state(run) + [path for path in doctor_copies(run.root) if _is_of(path, run)]


def _outdated_state(run: Run) -> list[str]:
    """Return the copy of the run's state.json beside the log if it is not the same, or there is no state.json."""
    path, kept = state_copy_path(run), read_state_copy(run)
    if path is None or kept is None:
        return []
    try:
        return [path] if read_regular(run.state_path, LARGEST_STATE) != kept else []
    except (FileRefused, OSError):
        return [path]


def doctor_copies(root: str) -> list[str]:
    """Return the copies that `doctor --fix` made of files before it changed them, in a run or elsewhere."""
    walked = sorted(os.walk(doctor_folder(root)))
    return [os.path.join(folder, name) for folder, _, names in walked for name in sorted(names)]


def _is_of(path: str, run: Run) -> bool:
    """Return whether a copy of `doctor` is of this run's files; it has the path that the file had in the project."""
    folder, name = os.path.split(path.replace(os.sep, "/"))
    if run.suffix and folder.endswith(f"/{run.shown(run.directory)}"):
        return run.owns(name)
    return folder.endswith((f"/runs/{run.run_id}", f"/{run.shown(run.directory)}"))


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


def doctor_folder(root: str) -> str:
    """Return the folder in which `doctor --fix` keeps copies of what it changes."""
    return os.path.join(clone_folder(root) or state_folder(root), "doctor")
