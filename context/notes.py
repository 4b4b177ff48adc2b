"""What somebody wrote down for the next session."""

from __future__ import annotations

from faber_ledger.ledger.errors import NoteTooLong
from faber_ledger.ledger.shapes import is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from faber_ledger.ledger.events import NoteRecorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import Snapshot

    class Note(TypedDict):
        """A note as it was recorded; `at` is ISO 8601 in UTC, `event_id` what `show` takes."""

        seq: int
        event_id: str
        at: str
        kind: str
        text: str
        phase: str | None
        step: str | None


LONGEST = 8_000  # letters
NEWEST = 5
LOOKED_AT = 100


def note_recorded(
    text: str, kind: Literal["note", "summary"], session_id: str | None, progress: Snapshot
) -> NoteRecorded:
    """Make a note the fact that is recorded; raises NoteTooLong."""
    if len(text) > LONGEST:
        raise NoteTooLong(
            f"the note has {len(text):,} letters, and at most {LONGEST:,} are recorded",
            hint="shorten it, or put the long form into a file and name the file in the note",
        )
    note: NoteRecorded = {
        "type": "note_recorded",
        "kind": kind,
        "text": text,
        "phase": progress["phase"],
        "step": progress["step"],
    }
    if session_id is not None:
        note["session_id"] = session_id
    return note


def notes_of(log: Log, count: int = NEWEST) -> tuple[list[Note], int]:
    """Give a run's newest notes, newest first, and how many others of the newest hundred are left out.

    The newest summary is among them, however many notes came after it.
    """
    notes: list[Note] = []
    for recorded in log.newest_notes(LOOKED_AT):
        event = recorded["event"]
        if event["type"] == "note_recorded" and is_foldable(recorded):
            notes.append(
                {
                    "seq": recorded["seq"],
                    "event_id": recorded["id"],
                    "at": recorded["at"],
                    "kind": event["kind"],
                    "text": event["text"],
                    "phase": event.get("phase"),
                    "step": event.get("step"),
                }
            )
    kept = notes[:count]
    if not any([note["kind"] == "summary" for note in kept]):
        kept[count - 1 :] = [note for note in notes[count - 1 :] if note["kind"] == "summary"][:1] or kept[count - 1 :]
    return kept, len(notes) - len(kept)
