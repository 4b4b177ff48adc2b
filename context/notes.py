"""Notes and summaries of earlier sessions, as the next session reads them."""

from __future__ import annotations

import os
from itertools import islice

from faber_ledger.files.text import clip, one_line, units
from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.event_types import NOT_CHECKABLE, REDACTED, is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, NotRequired, TypedDict

    from faber_ledger.ledger.events import NoteRecorded, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Note(TypedDict):
        """A note as it was recorded; `at` is ISO 8601 in UTC, `event_id` can be given to `show`.

        `redacted` is there, and true, if its payload is gone, and a redaction alone says what it said.
        """

        seq: int
        event_id: str
        at: str
        kind: str
        text: str
        phase: str | None
        step: str | None
        redacted: NotRequired[bool]

    class Remembered(TypedDict):
        """A note or a summary of an earlier session, with its phase and step.

        `event_id` names the event that holds the whole text: a seq would not, since a merge may give several events the
        same. A text that is kept in a file has its `path`.
        """

        text: str
        phase: str | None
        step: str | None
        kind: NotRequired[str]
        event_id: NotRequired[str]
        path: NotRequired[str]


MAX_LETTERS = 8_000  # of a note
NEWEST_NOTES = 5
NOTES_READ = 100
NOTES_HEAD = "\nNotes for whoever goes on, newest first:\n"
MAX_PLACE, MIN_NOTE = 80, 80
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


def notes_of(log: Log) -> tuple[list[Note], int]:
    """Return a run's newest notes, newest first, and how many others were read.

    The newest hundred are read, or fewer if very long ones are among them. Notes whose whole text was redacted come
    last: they must not take the places of notes that say something. The newest summary is always included.
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
            if "redacted" in recorded:
                notes[-1]["redacted"] = True
    notes.sort(key=_is_empty)
    kept = notes[:NEWEST_NOTES]
    summaries = [note for note in notes if note["kind"] == "summary"]
    if summaries and summaries[0] not in kept:
        kept[-1] = summaries[0]
    return kept, len(notes) - len(kept)


def _is_empty(note: Note) -> bool:
    return "redacted" in note and note["text"] == REDACTED


def words_of_note(note: Note) -> str:
    """Return a note's text, with a mark if only a redaction says what it was."""
    return f"{NOT_CHECKABLE} {note['text']}" if "redacted" in note else note["text"]


def newest_notes(log: Log) -> list[Remembered]:
    """Return the newest notes of a run, newest first, and a last entry that counts the others."""
    notes, others = notes_of(log)
    remembered: list[Remembered] = [
        {
            "text": words_of_note(note),
            "phase": note["phase"],
            "step": note["step"],
            "kind": note["kind"],
            "event_id": note["event_id"],
        }
        for note in notes
    ]
    if others:
        more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
        remembered.append({"text": f"… and {others} more: {more}", "phase": None, "step": None})
    return remembered


def render_notes(notes: list[Remembered], room: int) -> tuple[str, list[Remembered]]:
    """Return the newest notes in at most `room` units, and those that have no room there.

    The newest is cut if it has no room as a whole: then the others begin with the rest of it.
    """
    text = ""
    for at, note in enumerate(notes):
        head = f"{text or NOTES_HEAD}- {origin_of(note)}"
        body = indent(note["text"])
        if units(f"{head}{body}\n") <= room:
            text = f"{head}{body}\n"
            continue
        mark = mark_of_cut(note)
        cut = clip(body, room - units(head) - 1, mark) if not at else ""
        if len(cut) - len(mark) < MIN_NOTE:
            return text, notes[at:]
        rest: Remembered = {**note, "text": f"…{body[len(cut) - len(mark) :]}"}
        return f"{head}{cut}\n", [rest, *notes[1:]]
    return text, []


def mark_of_cut(text: Remembered) -> str:
    """Return the mark of a cut text, with the file or the command that has the whole."""
    if "path" in text:
        return f"… (whole: {one_line(text['path'])})"
    return f"… (whole: `faber-ledger show {text['event_id']}`)" if is_event_id(text.get("event_id", "")) else "…"


def origin_of(text: Remembered) -> str:
    """Return where a run stood when a text was recorded, in parentheses; empty if that is not known."""
    place = ":".join([part for part in (text["phase"], text["step"]) if part])
    if text.get("kind") == "summary":
        place = f"summary at {place}" if place else "summary"
    return f"({one_line(place, MAX_PLACE)}) " if place else ""


def indent(text: str) -> str:
    """Return a text of several lines as one item of a list."""
    return text.strip().replace("\t", " ").replace("\n", "\n  ")


def summary_for(log: Log, client: str | None, source: str, keeper: Run | None) -> Remembered | None:
    """Return the newest summary that another client recorded before this client's first session on the run, or None.

    So a conversation gets what it has never seen, and always the same. Only the newest 64 compactions of others before
    that session are read. `source` is that of the session about to start: None is returned for a fork, which has seen
    what it was forked from, and for a client without an id. `keeper` is the run if its summaries stay in this clone:
    they are then read from beside its log.
    """
    if client is None:
        return None
    first = log.first_start_of(client)
    if first is not None and first["event"]["type"] == "session_started":
        source = first["event"]["source"]
    if source == "fork":
        return None
    found = summaries_of(log, keeper, not_by=client, before=first)
    return next((summary for _, summary in found), None)


def summaries_of(
    log: Log, keeper: Run | None, *, not_by: str = "", before: Recorded | None = None
) -> Iterator[tuple[Recorded, Remembered]]:
    """Yield the summaries of a run's newest 64 compactions with their events, newest first, without subagents' own.

    Those of one client, and those after the event `before`, are left out. `keeper` as in `summary_for`.
    """
    kept: dict[str, str] | None = None
    for recorded in islice(log.compactions(not_by=not_by, before=before), COMPACTIONS_READ):
        values: dict[str, object] = recorded["event"]  # type: ignore[assignment]  # a TypedDict is a dict
        if "redacted" in recorded or values.get("agent_id", "") is not None:  # or a subagent's
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
            yield recorded, summary


def describe_break(log: Log, client: str | None) -> str | None:
    """Return a sentence if the last session before this client's first one had no end by then; None otherwise.

    So a conversation is told the same at each of its starts.
    """
    first = log.first_start_of(client) if client is not None else None
    start = log.last_start(before=first) if client is not None else None
    if start is None or start["client"] == client:
        return None
    ended = log.end_after(start, before=first)
    if ended is not None and dict(ended["event"]).get("reason") != "abandoned":
        return None
    return (
        "The session before this conversation broke off, or is still open: "
        "look first (`git status`, `git log`) whether its step is half done."
    )


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
