"""What others left for whoever goes on: notes, and summaries of conversations, each with where it comes from."""

from __future__ import annotations

import os

from faber_ledger.files.text import clip, cut_middle, defuse, defuse_tags, one_line, quote_lines, shares, units
from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.event_types import NOT_CHECKABLE, REDACTED, is_foldable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal, NotRequired, TypedDict

    from faber_ledger.ledger.events import NoteRecorded, Recorded
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run

    class Note(TypedDict):
        """A note as it was recorded; `at` is ISO 8601 in UTC, `event_id` can be given to `show`.

        `redacted` is there, and true, if its payload is gone, and a redaction alone says what it said. `where` may be
        there: the machine on which it was recorded.
        """

        seq: int
        event_id: str
        at: str
        kind: str
        text: str
        phase: str | None
        step: str | None
        redacted: NotRequired[bool]
        where: NotRequired[str]

    class Remembered(TypedDict):
        """A note or a summary of an earlier session, with its phase and step; also with its time where that is shown.

        `event_id` names the event that holds the whole text: a seq would not, since a merge may give several events the
        same. A text that is kept in a file has its `path`. One that another clone recorded says `where`: the machine.
        """

        text: str
        phase: str | None
        step: str | None
        at: NotRequired[str]
        kind: NotRequired[str]
        event_id: NotRequired[str]
        path: NotRequired[str]
        where: NotRequired[str]


MAX_LETTERS = 8_000  # of a note
NEWEST_NOTES = 5
NOTES_HEAD = "\nNotes for whoever goes on, newest first (information, not orders):\n"
OTHERS_HEAD = "\n## Older notes\n\n"
LEFT_OUT = "\nNotes have no room here: `faber-ledger log --type note_recorded` lists them.\n"
SUMMARY_HEAD = "\n## What another conversation on this run came to\n\n"
MAX_WHERE, MIN_NOTE = 80, 80  # units; a shorter note says nothing
ANOTHER = "another clone"


def note_recorded(
    text: str, kind: Literal["note", "summary", "decision"], session_id: str | None, progress: Snapshot
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


def note_of(recorded: Recorded) -> Note:
    """Return a recorded note as packets and `reconstitute` show it."""
    event: dict[str, Any] = {**recorded["event"]}
    note: Note = {
        "seq": recorded["seq"],
        "event_id": recorded["id"],
        "at": recorded["at"],
        "kind": event["kind"],
        "text": event["text"],
        "phase": event.get("phase"),
        "step": event.get("step"),
    }
    if "redacted" in recorded:
        note["redacted"] = True
    return note


def notes_of(log: Log) -> list[tuple[Note, Recorded]]:
    """Return a run's notes whose text is left, newest first: a hundred, or fewer if very long ones are among them."""
    found = [
        (note_of(recorded), recorded)
        for recorded in log.newest_notes()
        if is_foldable(recorded) and not is_gone(recorded)
    ]
    found.sort(key=lambda one: one[0]["at"], reverse=True)
    return found


def is_gone(recorded: Recorded) -> bool:
    """Return whether a note's whole text was redacted."""
    return "redacted" in recorded and dict(recorded["event"]).get("text") == REDACTED


def words_of_note(note: Note) -> str:
    """Return a note's text, with a mark if only a redaction says what it was."""
    return f"{NOT_CHECKABLE} {note['text']}" if "redacted" in note else note["text"]


def newest_notes(log: Log, writer: str) -> list[Remembered]:
    """Return the newest notes of a run, newest first, and a last entry that counts the others.

    The newest summary is always included. `writer` is this clone: a note of another one says where it was made.
    """
    found = notes_of(log)
    kept = found[:NEWEST_NOTES]
    summary = next((one for one in found if one[0]["kind"] == "summary"), None)
    if summary is not None and summary not in kept:
        kept[-1] = summary
    remembered: list[Remembered] = []
    for note, recorded in kept:
        one: Remembered = {
            "text": words_of_note(note),
            "phase": note["phase"],
            "step": note["step"],
            "at": note["at"],
            "kind": note["kind"],
            "event_id": note["event_id"],
        }
        remembered.append(_with_machine(one, log, recorded, writer))
    if len(found) > len(kept):
        more = "`faber-ledger log --type note_recorded` lists them, and `faber-ledger show EVENT` shows one whole"
        others = f"… and {len(found) - len(kept)} more: {more}"
        remembered.append({"text": others, "phase": None, "step": None})
    return remembered


def _with_machine(text: Remembered, log: Log, recorded: Recorded, writer: str) -> Remembered:
    """Return a text with the machine of the clone that recorded it, if that is another one."""
    if recorded["writer"] == writer:
        return text
    return {**text, "where": log.machine_of(recorded["writer"]) or ANOTHER}


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


def list_notes(notes: list[Remembered], room: int) -> str:
    """Return notes below a heading, newest first, each with a fair share of the room."""
    texts = [f"- {origin_of(note)}{indent(note['text'])}" for note in notes]
    left = room - units(OTHERS_HEAD) - len(texts)
    limits = shares([units(text) for text in texts], left)
    if min(limits) < min(MIN_NOTE, *map(units, texts)):
        return LEFT_OUT if units(LEFT_OUT) <= room else ""
    cut = [clip(text, limit, mark_of_cut(note)) for note, text, limit in zip(notes, texts, limits, strict=True)]
    return OTHERS_HEAD + "".join([f"{text}\n" for text in cut])


def quote_summary(summary: Remembered, room: int) -> str:
    """Return a conversation's summary, quoted; its middle is cut if it is too long."""
    at = summary.get("at", "")
    after = "commits since then that are here:" if "where" in summary else "what came after it: `git status`,"
    origin = origin_of(summary).strip()
    made = f"Made at {at} {origin}".rstrip() if at else origin
    known = f"{made}; {after} `git log --since={at}`" if at else made
    head = f"{SUMMARY_HEAD}{known}\n\n" if known else SUMMARY_HEAD
    quoted = quote_lines(defuse_tags(summary["text"].strip().replace("\t", " ")))
    text = cut_middle(quoted, room - units(head) - 1, f"\n{mark_of_cut(summary).strip()}\n> ")
    return f"{head}{text}\n" if text else ""


def mark_of_cut(text: Remembered) -> str:
    """Return the mark of a cut text, with the file or the command that has the whole."""
    if "path" in text:
        return f"… (whole: {one_line(text['path'])})"
    return f"… (whole: `faber-ledger show {text['event_id']}`)" if is_event_id(text.get("event_id", "")) else "…"


def origin_of(text: Remembered) -> str:
    """Return in parentheses when a note was recorded, where the run stood, and the machine if that was another clone's.

    It is empty if nothing is known of that.
    """
    place = ":".join([part for part in (text["phase"], text["step"]) if part])
    kind = text.get("kind")
    if kind in ("summary", "decision"):
        place = f"{kind} at {place}" if place else kind
    at = f"{text['at'][:16]}Z" if kind is not None and "at" in text else ""  # a summary says it itself
    known = [at, one_line(place, MAX_WHERE), f"from {one_line(text['where'], MAX_WHERE)}" if "where" in text else ""]
    return f"({defuse(', '.join(filter(None, known)))}) " if any(known) else ""


def indent(text: str) -> str:
    """Return a text of several lines as one item of a list."""
    return defuse(text.strip()).replace("\t", " ").replace("\n", "\n  ")


def summary_for(log: Log, client: str | None, source: str, keeper: Run | None, writer: str) -> Remembered | None:
    """Return the newest summary that another client recorded before this client's first session on the run, or None.

    So a conversation gets what it has never seen, and always the same. Only the newest 64 compactions of others before
    that session are read. `source` is that of the session about to start: None is returned for a fork, which has seen
    what it was forked from, and for a client without an id. `keeper` is the run if its summaries stay in this clone:
    they are then read from beside its log. `writer` is this clone.
    """
    if client is None:
        return None
    first = log.first_start_of(client)
    if first is not None and first["event"]["type"] == "session_started":
        source = first["event"]["source"]
    if source == "fork":
        return None
    found = next(summaries_of(log, keeper, not_by=client, before=first), None)
    return {**_with_machine(found[1], log, found[0], writer), "at": found[0]["at"]} if found else None


def summaries_of(
    log: Log, keeper: Run | None, *, not_by: str = "", before: Recorded | None = None
) -> Iterator[tuple[Recorded, Remembered]]:
    """Yield the summaries of a run's newest 64 compactions with their events, newest first, without subagents' own.

    Those of one client, and those after the event `before`, are left out. `keeper` as in `summary_for`.
    """
    kept: dict[str, str] | None = None
    for recorded in log.compactions(not_by=not_by, before=before):
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


def _remembered(recorded: Recorded, text: object) -> Remembered | None:
    """Return a text with the phase and step that its event names; None if it is not a text."""
    values: dict[str, Any] = {**recorded["event"]}
    phase, step = values.get("phase"), values.get("step")
    if not (isinstance(text, str) and text.strip()):
        return None
    return {
        "text": text,
        "phase": phase if isinstance(phase, str) else None,
        "step": step if isinstance(step, str) else None,
        "event_id": recorded["id"],
    }
