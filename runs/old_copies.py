"""Old copies of a run's files: backups, those of `doctor`, and what killed writers left. A redaction removes them."""

from __future__ import annotations

import os

from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING
from faber_ledger.ledger.whole_file import OURS
from faber_ledger.runs.clone import doctor_folders, mirror_path
from faber_ledger.runs.kept_summaries import remove_redacted_summaries
from faber_ledger.runs.run import COPY_ENDINGS, STATE_BACKUP, UNFINISHED_ENDINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run


# The beginnings and endings of our copies' names; `state.backup.json` is FABER's own name (AGENT, RELOAD).
# `state.json.tmp` belongs to another tool, which may be about to rename it.
COPIES = (
    ("ledger.", (*COPY_ENDINGS, *[ending + JOURNAL_ENDING for ending in UNFINISHED_ENDINGS])),
    ("state.", (BACKUP_ENDING, f"{BACKUP_ENDING}.tmp")),
    (".state.json.", (OURS,)),
)


def old_copies(run: Run) -> list[str]:
    """Return the old copies of a run's files: in its folder, beside its mirror, and where `doctor` keeps its own."""
    mirror = mirror_path(run)
    folders = [run.directory, *([os.path.dirname(mirror)] if mirror else [])]
    found = [path for folder in folders for path in _copies_in(folder)]
    return found + [path for path in doctor_copies(run.root) if _is_of(path, run)]


def doctor_copies(root: str) -> list[str]:
    """Return the copies that `doctor --fix` made of files before it changed them, in a run or elsewhere."""
    found = []
    for top in doctor_folders(root):
        for folder, _, names in sorted(os.walk(top)):
            found += [os.path.join(folder, name) for name in sorted(names)]
    return found


def _is_of(path: str, run: Run) -> bool:
    """Return whether a copy of `doctor` is of this run's files; it has the path that the file had in the project."""
    folder = os.path.dirname(path).replace(os.sep, "/")
    return folder.endswith((f"/runs/{run.run_id}", f"/spool/{run.run_id}"))


def remove_old_copies(run: Run, log: Log) -> list[str]:
    """Remove the old copies of a run's files and the kept summaries that its log has redacted; return their paths.

    The caller holds the run's lock.
    """
    removed = remove_redacted_summaries(run, log)
    for path in old_copies(run):
        os.unlink(path)
        removed.append(path)
    return removed


def _copies_in(folder: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        ours = any([entry.name.startswith(begins) and entry.name.endswith(ends) for begins, ends in COPIES])
        if (ours or entry.name == STATE_BACKUP) and not entry.is_dir(follow_symlinks=False):
            yield entry.path
