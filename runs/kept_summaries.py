"""Compaction summaries while the setting `summaries` is false: files beside the run's log, in this clone only.

Each is named after the event that records its compaction, so a start finds it as if it were in the event.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, read_text
from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import make_private_folder
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.run import SUMMARY, Run

MAX_KEPT = 16  # of a run: a resumed conversation gets the one again that it got first
MAX_BYTES = 24_000  # bytes: what is recorded of a summary has at most 6,000 characters


def keep_summary(run: Run, event_id: str, text: str) -> None:
    """Write a summary, as private as all files of ours, and remove the run's oldest ones; raises OSError.

    Without git nothing is written: a later `git add` would add it.
    """
    folder = run.private_folder
    if work_tree_of(run.root) is None:
        return
    make_private_folder(run, folder)
    disk.put(os.path.join(folder, SUMMARY + event_id), text.encode(), mode=disk.OWN)
    for path in list(summary_paths(run).values())[:-MAX_KEPT]:
        disk.remove(path)


def summary_paths(run: Run) -> dict[str, str]:
    """Return the path of each kept summary by its event's id, oldest first."""
    folder = run.private_folder
    try:
        names = sorted([entry.name for entry in os.scandir(folder) if not entry.is_dir(follow_symlinks=False)])
    except OSError:
        return {}
    return {name[len(SUMMARY) :]: os.path.join(folder, name) for name in names if name.startswith(SUMMARY)}


def read_summary(path: str) -> str | None:
    """Return the text of a kept file; None if it cannot be read."""
    try:
        return read_text(path, MAX_BYTES)
    except FileRefused:
        return None


def remove_redacted_summaries(run: Run, log: Log) -> list[str]:
    """Remove the summaries of events that the log has redacted, and all others of the same text; return their paths.

    If a compaction was delivered twice while it waited in the inbox, only one of its two files has an event.
    """
    kept = summary_paths(run)
    query = "SELECT 1 FROM event WHERE id = ? AND payload IS NULL"
    # A killed process may have left a part of a summary as `ID.tmp`, or with its process id in the name.
    gone = {path for name, path in kept.items() if log.connection.execute(query, (name.partition(".")[0],)).fetchone()}
    texts = {read_summary(path) for path in gone} - {None}
    removed = [path for path in kept.values() if path in gone or (texts and read_summary(path) in texts)]
    for path in removed:
        os.unlink(path)
    return removed
