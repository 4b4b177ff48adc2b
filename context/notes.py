"""Notes and summaries of earlier sessions, as the next session reads them."""

from __future__ import annotations

import os
from itertools import islice

from faber_ledger.ledger.event_types import is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from faber_ledger.context.packet import Remembered
    from faber_ledger.ledger.events import NoteRecorded, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Note(TypedDict):
        """A note as it was recorded; `at` is ISO 8601 in UTC, `event_id` can be given to `show`."""

        seq: int
        event_id: str
        at: str
        kind: str
        text: str
        phase: str | None
        step: str | None


MAX_LETTERS = 8_000  # of a note
NEWEST_NOTES = 5
NOTES_READ = 100
COMPACTIONS_READ = 64  # a session's start must not read more the longer a run gets


def note_recorded(
    text: str, kind: Literal["note", "summary"], session_id: str | None, progress: Snapshot
) -> NoteRecorded:
    """Return the event that records a note; raises NoteTooLong."""
    if len(text) > MAX_LETTERS:
        from faber_ledger.ledger.command_errors import NoteTooLong  # hooks record no notes

        raise NoteTooLong(
            f"the note has {len(text):,} letters; the limit is {MAX_LETTERS:,}",
            hint="shorten it, or put the long text into a file and name the file in the note",
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


def notes_of(log: Log, count: int = NEWEST_NOTES) -> tuple[list[Note], int]:
    """Return a run's newest notes, newest first, and how many others of the newest hundred are left out.

    The newest summary is always included, however many notes came after it.
    """
    notes: list[Note] = []
    for recorded in log.newest_notes(NOTES_READ):
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


def newest_notes(log: Log) -> list[Remembered]:
    """Return the newest notes of a run, newest first, and a last entry that counts the others."""
    notes, others = notes_of(log)
    remembered: list[Remembered] = [
        {
            "text": note["text"],
            "phase": note["phase"],
            "step": note["step"],
            "kind": note["kind"],
            "event_id": note["event_id"],
        }
        for note in notes
    ]
    if others:
        more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
        remembered.append({"text": f"… and {others} older: {more}", "phase": None, "step": None})
    return remembered


def summary_for(log: Log, client: str | None, source: str, keeper: Run | None = None) -> Remembered | None:
    """Return the newest summary that another client recorded before this client's first session on the run, or None.

    So a conversation gets what it has never seen, and always the same. Only the newest 64 compactions of others before
    that session are read. `source` is that of the session about to start: None is returned for a fork, which has seen
    what it was forked from, and for a client without an id. `keeper` is the run if its summaries stay in this clone:
    they are then read from beside its mirror.
    """
    if client is None:
        return None
    first = log.first_start_of(client)
    if first is not None and first["event"]["type"] == "session_started":
        source = first["event"]["source"]
    if source == "fork":
        return None
    kept: dict[str, str] | None = None
    for recorded in islice(log.compactions(not_by=client, before=first), COMPACTIONS_READ):
        values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
        if values.get("agent_id", "") is not None:  # a subagent's, or redacted
            continue
        summary = _remembered(recorded, values.get("summary"))
        if summary is None and keeper is not None:
            if kept is None:
                from faber_ledger.runs.kept_summaries import read_summary, summary_paths

                kept = summary_paths(keeper)
            path = kept.get(recorded["id"])
            summary = _remembered(recorded, read_summary(path)) if path else None
            if summary is not None and path:
                summary["path"] = os.path.relpath(path, keeper.root).replace(os.sep, "/")
        if summary is not None:
            return summary
    return None


def _remembered(recorded: Recorded, text: object) -> Remembered | None:
    """Return a text with the phase and step that its event names; None if it is not a text."""
    values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
    phase, step = values.get("phase"), values.get("step")
    if not (isinstance(text, str) and text.strip()):
        return None
    return {
        "text": text,
        "phase": phase if isinstance(phase, str) else None,
        "step": step if isinstance(step, str) else None,
        "event_id": recorded["id"],
    }
