"""What FABER's own events say of an approval that a run's state does not have."""

from __future__ import annotations

import os

from faber_ledger.files.json_text import JsonText
from faber_ledger.files.text import one_line
from faber_ledger.ledger.disk import FileRefused, folder_around, read_text
from faber_ledger.runs.progress import text_of
from faber_ledger.runs.run import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.run import Run

ANSWERS = ("approval_granted", "approval_denied")
MOST, MAX_BYTES = 20, 64 * 1024  # files that are read, and of each
MAX_SAID, MAX_NAME = 120, 80


def describe_grant(run: Run, phase: str | None) -> str:
    """Return what the newest event says of a phase's approval, and to confirm it; empty if there is none.

    Anybody's commit can add such a file, so it does not count as an approval.
    """
    folder = os.path.join(run.own_directory, EVENTS)
    try:
        names = sorted([name for name in os.listdir(folder) if "approval_" in name and name.endswith(".json")])
    except OSError:
        return ""
    for name in names[: -MOST - 1 : -1]:
        path = os.path.join(folder, name)
        try:
            is_inside = folder_around(path, [run.own_directory]) is not None
            event = JsonText((is_inside and read_text(path, MAX_BYTES)) or "").value
        except (FileRefused, ValueError, RecursionError):
            continue
        if event.get("type") in ANSWERS and event.get("phase") == phase:
            words = text_of(event, "message") or f"{event['type']} by {text_of(event, 'user') or 'somebody'}"
            at = text_of(event, "timestamp")
            said = f"{one_line(words, MAX_SAID)}{f' ({one_line(at, MAX_NAME)})' if at else ''}"
            place = f"{EVENTS}/{one_line(name, MAX_NAME)}"
            return f"state.json has no approval; {place} says: {said}. Confirm it with the user."
    return ""
