"""The older copies of a run's files: backups, and what a killed writer left. A redaction removes them."""

from __future__ import annotations

import os

from faber_ledger.context.mirror_path import mirror_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.context.project import Run

# `faber-ledger` names its copies by these; `state.backup.json` is FABER's own name (AGENT, RELOAD).
ENDINGS = (".backup", ".tmp", ".recovered", ".recovered-journal", ".tmp-journal", ".migrating", ".migrating-journal")
NAMES = ("state.backup.json",)


def old_copies(run: Run) -> list[str]:
    """List the older copies of a run's files, in its folder and beside its mirror."""
    mirror = mirror_path(run)
    folders = [run.directory, *([os.path.dirname(mirror)] if mirror else [])]
    return [path for folder in folders for path in _copies_in(folder)]


def remove_old_copies(run: Run) -> list[str]:
    """Remove the older copies of a run's files, and give which; the caller holds the run's lock."""
    removed = []
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
        ours = entry.name.startswith(("state.", "ledger.")) and entry.name.endswith(ENDINGS)
        if (ours or entry.name in NAMES) and not entry.is_dir(follow_symlinks=False):
            yield entry.path
