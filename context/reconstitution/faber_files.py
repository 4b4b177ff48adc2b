"""The JSON files that FABER's own tools leave in a run's folder: events and session summaries."""

from __future__ import annotations

import os
import re

from faber_ledger.context.reconstitution.journal import text_or_na
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.untrusted import FileRefused, folder_around, read_text
from faber_ledger.ledger.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.reconstitution.journal import Journal
    from faber_ledger.runs.run import Run


MAX_BYTES = 1024 * 1024
DIGITS = re.compile(r"([0-9]+)")


def json_files(run: Run, folder: str) -> list[str] | None:
    """List a folder's JSON files as paths below the run's, numbers in names by value; None if there is no folder.

    After `999-…` comes `1000-…`; files without a leading number come first, as the numbered ones are newer. Raises
    FileRefused if the folder cannot be listed, or is a link that leads out of the run's folder.
    """
    place = os.path.join(run.directory, folder)
    if not os.path.lexists(place):
        return None
    if folder_around(place, [run.directory]) is None:
        raise FileRefused("a link that leads out of the run's folder")
    try:
        names = os.listdir(place)
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    kept = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    return [f"{folder}/{name}" for name in sorted(kept, key=_natural)]


def json_object(run: Run, path: str) -> dict[str, Any] | None:
    """Read a JSON object in the run's folder; None if there is no file.

    Raises FileRefused if it is not read, for what it is or where a link leads, and ValueError for malformed content.
    """
    place = os.path.join(run.directory, path)
    if not os.path.lexists(place):
        return None
    if folder_around(place, [run.directory]) is None:
        raise FileRefused("a link that leads out of the run's folder")
    text = read_text(place, MAX_BYTES)
    if text is None:
        raise FileRefused("a link to nothing")
    return JsonText(text).value


def check_texts(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """Check that members are texts where they are there; raises ValueError."""
    for name in names:
        if not isinstance(found.get(name), (str, type(None))):
            raise ValueError(f"its {name} is no text")


def _natural(name: str) -> tuple[bool, list[tuple[int, str]]]:
    parts = DIGITS.split(name)
    key = [(int(part), "") if count % 2 else (0, part) for count, part in enumerate(parts)]
    return parts[0] == "" and len(parts) > 1, key


EVENTS = "events"
NEWEST = 20
KEY_TYPES = ("phase_complete", "step_error", "decision_point", "approval_granted")


def load_events(run: Run, journal: Journal) -> list[dict[str, Any]]:
    """Read the newest twenty events, oldest first. One that cannot be read is skipped with a warning."""
    try:
        files = json_files(run, EVENTS)
    except FileRefused as error:
        _warn_of_event(EVENTS, str(error), journal)
        return []
    if not files:
        journal.info("events_missing" if files is None else "events_empty", "ℹ No events found (new run)")
        return []
    events = [event for path in files[-NEWEST:] if (event := _read_event(run, path, journal)) is not None]
    journal.log(f"✓ Loaded {len(events)} recent events")
    for event in events:
        if event.get("type") in KEY_TYPES:
            journal.log(f"  {event_line(event)}")
    return events


def event_line(event: dict[str, Any]) -> str:
    """Tell an event in one line: `[timestamp] type: message`."""
    return f"[{text_or_na(event.get('timestamp'))}] {text_or_na(event.get('type'))}: {text_or_na(event.get('message'))}"


def _read_event(run: Run, path: str, journal: Journal) -> dict[str, Any] | None:
    try:
        event = json_object(run, path)
        if event is not None and not isinstance(event.get("type"), str):
            raise ValueError("its type is no text")
        check_texts(event or {}, ("timestamp", "message"))
    except (FileRefused, ValueError) as error:
        _warn_of_event(path, str(error), journal)
        return None
    if event is None:
        _warn_of_event(path, "No such file or directory", journal)
    return event


def _warn_of_event(path: str, reason: str, journal: Journal) -> None:
    journal.warn(
        "events_read_error", "Events read error", {"Path": path, "Error": reason}, "Recent events may be missing"
    )


SUMMARIES = "session-summaries"
MOST_READ = 200
FOR_BUILD = ("accomplished", "decisions", "files_changed", "remaining_phases")
NOTE = "Continuity may be degraded"


def load_session_history(run: Run, journal: Journal) -> dict[str, Any] | None:
    """Read a run's session summaries; None if there are none. A file that cannot be read is skipped with a warning."""
    try:
        files = json_files(run, SUMMARIES)
    except FileRefused as error:
        _warn_of_summary("summary_read_error", "Session summary read error", SUMMARIES, str(error), journal)
        return None
    if files is None:
        journal.info("summaries_missing", "ℹ No session summaries found (first session for this run)")
        return None
    if not files:
        journal.info("summaries_missing", "ℹ Session summaries directory exists but is empty (first session)")
        return None
    summaries = _in_order([summary for path in files[-MOST_READ:] if (summary := _read_summary(run, path, journal))])
    if not summaries:
        return None
    latest = summaries[-1]
    said = latest["summary"]
    journal.log("✓ Loaded session context from previous sessions")
    journal.log(f"  Total sessions: {len(summaries)}")
    journal.log("  Last session:")
    journal.log(f"    - Phase completed: {text_or_na(latest.get('phase_completed'))}")
    journal.log(f"    - Timestamp: {text_or_na(latest.get('timestamp'))}")
    journal.log(f"    - Accomplished: {len(said['accomplished'])} items")
    journal.log(f"    - Files changed: {len(said['files_changed'])}")
    remaining = ", ".join([text_or_na(phase) for phase in said["remaining_phases"]])
    journal.log(f"    - Remaining phases: {remaining}".rstrip())
    return {
        "total_sessions": len(summaries),
        "latest": latest,
        "all_summaries": [
            {
                "session_id": summary.get("session_id"),
                "phase_completed": summary.get("phase_completed"),
                "timestamp": summary.get("timestamp"),
                "accomplished": summary["summary"]["accomplished"],
                "decisions": summary["summary"]["decisions"],
            }
            for summary in summaries
        ],
    }


def session_summary(session_history: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give what the build skill needs of the latest summary; None if there is none."""
    if session_history is None:
        return None
    latest = session_history["latest"]
    said = latest["summary"]
    return {
        "phase_completed": latest.get("phase_completed"),
        **{name: said[name] for name in FOR_BUILD},
        "context_notes": said.get("context_notes"),
    }


def build_input(summary: dict[str, Any] | None, current_phase: str | None) -> dict[str, Any]:
    """Give the build skill's input: its next phase and the latest summary (RECON, Passing Session Context).

    Where no summary names a phase, it is the one that the state is in.
    """
    remaining = summary["remaining_phases"] if summary else []
    return {"current_phase": remaining[0] if remaining else current_phase, "session_summary": summary}


def _read_summary(run: Run, path: str, journal: Journal) -> dict[str, Any] | None:
    """Read a summary and make its lists whole; None, with a warning, if it cannot be read as one."""
    try:
        found = json_object(run, path)
        if found is None:
            raise FileRefused("No such file or directory")
        said = _said(found)
    except FileRefused as error:
        _warn_of_summary("summary_read_error", "Session summary read error", path, str(error), journal)
        return None
    except ValueError as error:
        _warn_of_summary("summary_parse_error", "Session summary parse error - file skipped", path, str(error), journal)
        return None
    return {**found, "summary": {**said, **{name: said.get(name) or [] for name in FOR_BUILD}}}


def _said(found: dict[str, Any]) -> dict[str, Any]:
    """Give the summary in a file, its parts checked; raises ValueError."""
    check_texts(found, ("session_id", "phase_completed", "timestamp"))
    said = found.get("summary")
    if not isinstance(said, dict):
        raise ValueError("it has no summary object")
    check_texts(said, ("context_notes",))
    for name in FOR_BUILD:
        parts = said.get(name)
        if not isinstance(parts, (list, type(None))):
            raise ValueError(f"its {name} is no list")
        if not all([isinstance(part, str) for part in parts or []]):
            raise ValueError(f"its {name} is no list of texts")
    return said


def _in_order(summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort by timestamp if every summary has a readable one; else they stay in the order of their names."""
    moments = [seconds_of(summary.get("timestamp")) for summary in summaries]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(summaries):
        return summaries
    return [summaries[place] for _, place in sorted(zip(known, range(len(known)), strict=True))]


def _warn_of_summary(code: str, what: str, path: str, reason: str, journal: Journal) -> None:
    journal.warn(code, what, {"Path": path, "Error": reason}, NOTE)
