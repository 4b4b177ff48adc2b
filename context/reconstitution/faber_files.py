"""The JSON files that FABER's own tools leave in a run's folder: events and session summaries."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypedDict

from faber_ledger.context.reconstitution.journal import Journal, list_in_line, text_or_na
from faber_ledger.context.reconstitution.work import Start
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.disk import FileRefused, folder_around, read_text, size_of
from faber_ledger.runs.progress import error_message
from faber_ledger.runs.run import CONSOLIDATED, EVENTS, SUMMARIES, Run


class Compacted(TypedDict):
    """The summary that a compaction came to; `at` is ISO 8601 in UTC, `event_id` can be given to `show`."""

    event_id: str
    at: str
    text: str
    phase: str | None
    step: str | None


class LedgerFacts(TypedDict):
    """What a ledger has: how many events, the ids of the sessions that have ended, where sessions began, the branch."""

    events: int
    ended: list[str]
    starts: list[Start]
    branch: str | None


MAX_BYTES = 1024 * 1024
DIGITS = re.compile(r"([0-9]+)")
MAX_CONSOLIDATED = 16 * 1024 * 1024
NEWEST_EVENTS = 20
MAX_EVENTS = 2000  # that are read to be compared; of more, the newest
MAX_EVENT_BYTES = 16 * 1024 * 1024
KEY_TYPES = ("phase_complete", "step_error", "decision_point", "approval_granted")
DECISION_TYPES = ("decision_point", "approval_granted", "approval_denied")
MAX_SUMMARIES = 200
FOR_BUILD = ("accomplished", "decisions", "files_changed", "remaining_phases")


def json_files(run: Run, folder: str) -> list[str] | None:
    """Return a folder's JSON files as paths below the run's folder, or None if there is no such folder.

    Numbers in names are ordered by value, `1000-…` after `999-…`; files without a leading number come first, since the
    numbered ones are newer. Raises FileRefused if the folder cannot be listed, or is a link out of the run's folder.
    """
    place = _place(run, folder)
    if place is None:
        return None
    try:
        names = os.listdir(place)
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    kept = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    return [f"{folder}/{name}" for name in sorted(kept, key=_natural_order)]


def json_object(run: Run, path: str) -> dict[str, Any] | None:
    """Return the JSON object in the file at a path inside the run's folder; None if there is no file.

    Raises FileRefused if the file may not be read, and ValueError for malformed content.
    """
    place = _place(run, path)
    if place is None:
        return None
    text = read_text(place, MAX_BYTES)
    if text is None:
        raise FileRefused("a link to nothing")
    return JsonText(text).value


def _place(run: Run, path: str) -> str | None:
    """Return a path inside the run's folder; None if nothing is there. Raises FileRefused if a link leads out."""
    place = os.path.join(run.own_directory, path)
    if not os.path.lexists(place):
        return None
    if folder_around(place, [run.own_directory]) is None:
        raise FileRefused("a link that leads out of the run's folder")
    return place


def check_strings(found: dict[str, Any], names: tuple[str, ...]) -> None:
    """Raise ValueError unless each of the named members is a string, null or missing."""
    for name in names:
        if not isinstance(found.get(name), (str, type(None))):
            raise ValueError(f"its {name} is not a string")


def _natural_order(name: str) -> tuple[bool, list[tuple[int, str]]]:
    parts = DIGITS.split(name)
    key = [(int(part), "") if count % 2 else (0, part) for count, part in enumerate(parts)]
    return parts[0] == "" and len(parts) > 1, key


def load_events(run: Run, journal: Journal, known: LedgerFacts) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the newest twenty events and the decisions before them, oldest first; warn of what is unreadable.

    Those of the ledger count, too.
    """
    found, unreadable = read_events(run)
    for path, reason in unreadable:
        facts = {"Path": path, "Error": reason}
        journal.warn("events_read_error", "Events read error", facts, "Recent events may be missing")
    events, older = found[-NEWEST_EVENTS:], found[:-NEWEST_EVENTS]
    count = len(events) + known["events"]
    if not count and not unreadable:
        is_missing = not os.path.lexists(os.path.join(run.own_directory, EVENTS))
        journal.info("events_missing" if is_missing else "events_empty", "ℹ No events found (new run)")
        return [], []
    journal.log(f"✓ Loaded {count} recent events")
    for event in events:
        if event["type"] in KEY_TYPES:
            journal.log(f"  {event_line(event)}")
    return events, [event for event in older if event["type"] in DECISION_TYPES]


def read_events(run: Run) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return the events of FABER's tools, of the folder and of the consolidated file, each once, oldest first.

    Also return the places of those that cannot be read, each with the reason.
    """
    sources: list[tuple[str, Callable[[], dict[str, Any] | None]]] = []
    events: dict[object, dict[str, Any]] = {}
    unreadable: list[tuple[str, str]] = []
    for place, list_sources in SOURCES[:2]:
        try:
            sources += list_sources(run)
        except FileRefused as error:
            unreadable.append((place, str(error)))
    left = MAX_EVENT_BYTES
    for path, read in sources[: -MAX_EVENTS - 1 : -1]:
        if left <= 0:
            break
        try:
            left -= size_of(os.path.join(run.own_directory, path)) or 0  # a line's file is small enough as a whole
            event = _checked_event(read())
        except (FileRefused, ValueError) as error:
            unreadable.append((path, str(error)))
            continue
        if event is not None:
            name = (str(event["event_id"]), event.get("timestamp"), event["type"]) if event.get("event_id") else path
            events.setdefault(name, event)
    return list(events.values())[::-1], unreadable


def read_documents(run: Run, warn: Callable[[str], None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events and session summaries of FABER's tools, each with its path; warn of what cannot be read."""

    def attempt(path: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (FileRefused, ValueError) as error:
            warn(f"{path} of {run.run_id} is left out: {error}")

    for place, list_sources in SOURCES:
        for path, read in (attempt(place, partial(list_sources, run)) or [])[-MAX_EVENTS:]:
            yield path, attempt(path, read) or {}


def _files_in(folder: str, run: Run) -> list[tuple[str, Callable[[], dict[str, Any] | None]]]:
    """Return the files of a folder, each with its path and what parses it; raises FileRefused."""
    return [(path, partial(json_object, run, path)) for path in json_files(run, folder) or []]


def event_line(event: dict[str, Any]) -> str:
    """Return an event as one line: `[timestamp] type: message`."""
    at, kind, words = map(text_or_na, (event.get("timestamp"), event.get("type"), words_of_event(event)))
    return f"[{at}] {kind}: {words}"


def words_of_event(event: dict[str, Any]) -> object:
    """Return an event's message; without one, its error's, then its phase and step; None if it has none of these."""
    message = event.get("message") or error_message(event.get("error"))
    return message or ":".join([str(part) for part in (event.get("phase"), event.get("step")) if part]) or None


def _consolidated_lines(run: Run) -> list[tuple[str, Callable[[], dict[str, Any] | None]]]:
    """Return the lines of the file that FABER's tools make of a finished run's events, in place of the folder.

    Each has its place, and what parses it. Raises FileRefused.
    """
    place = _place(run, CONSOLIDATED)
    lines = ((place and read_text(place, MAX_CONSOLIDATED)) or "").splitlines()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return [(f"{CONSOLIDATED}, line {number}", partial(_object_in, line)) for number, line in numbered]


# Where FABER's tools leave documents, each with what lists them; events first.
SOURCES = (
    (CONSOLIDATED, _consolidated_lines),
    (EVENTS, partial(_files_in, EVENTS)),
    (SUMMARIES, partial(_files_in, SUMMARIES)),
)


def _object_in(text: str) -> dict[str, Any]:
    return JsonText(text).value


def _checked_event(event: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an event whose type, time and message are text; raises ValueError for another."""
    if event is not None and not isinstance(event.get("type"), str):
        raise ValueError("its type is not a string")
    check_strings(event or {}, ("timestamp", "message"))
    return event


def load_session_history(run: Run, journal: Journal, known: LedgerFacts) -> dict[str, Any] | None:
    """Return a run's session summaries, or None; a file that cannot be read is skipped with a warning."""
    try:
        files = json_files(run, SUMMARIES)
    except FileRefused as error:
        _warn_of_summary("summary_read_error", "Session summary read error", SUMMARIES, str(error), journal)
        return None
    if not files and not known["ended"]:
        missing = "No session summaries found (first session for this run)"
        empty = "Session summaries directory exists but is empty (first session)"
        journal.info("summaries_missing", f"ℹ {missing if files is None else empty}")
        return None
    found = [_read_summary(run, path, journal) for path in (files or [])[-MAX_SUMMARIES:]]
    summaries = _in_order([summary for summary in found if summary])
    if summaries or known["ended"]:
        journal.log("✓ Loaded session context from previous sessions")
        journal.log(f"  Total sessions: {count_sessions(summaries, known)}")
    if not summaries:
        return None
    latest = summaries[-1]
    said = latest["summary"]
    journal.log("  Last session:")
    journal.log(f"    - Phase completed: {text_or_na(latest.get('phase_completed'))}")
    journal.log(f"    - Timestamp: {text_or_na(latest.get('timestamp'))}")
    journal.log(f"    - Accomplished: {len(said['accomplished'])} items")
    journal.log(f"    - Files changed: {len(said['files_changed'])}")
    journal.log(f"    - Remaining phases: {list_in_line(said['remaining_phases'])}".rstrip())
    return {
        "total_sessions": len(summaries),
        "latest": latest,
        "all_summaries": [
            {name: one.get(name) for name in ("session_id", "phase_completed", "timestamp")}
            | {name: one["summary"][name] for name in ("accomplished", "decisions")}
            for one in summaries
        ],
    }


def count_sessions(summaries: list[dict[str, Any]], known: LedgerFacts) -> int:
    """Return how many sessions came before, by FABER's summaries and the ledger together."""
    return len(known["ended"]) + len([one for one in summaries if one.get("session_id") not in known["ended"]])


def session_summary(session_history: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what the build skill needs from the latest summary; None if there is none."""
    if session_history is None:
        return None
    latest = session_history["latest"]
    said = latest["summary"]
    return {
        "phase_completed": latest.get("phase_completed"),
        **{name: said[name] for name in FOR_BUILD},
        "context_notes": said.get("context_notes"),
    }


def build_input(
    summary: dict[str, Any] | None, current_phase: str | None, compacted: list[Compacted]
) -> dict[str, Any]:
    """Return the build skill's input: its next phase and the latest summary (RECON, Passing Session Context).

    If no summary names a phase, it is the state's current one. Where FABER has left no summary, what compactions came
    to is there as `ledger_summaries`.
    """
    remaining = summary["remaining_phases"] if summary else []
    given = {"current_phase": remaining[0] if remaining else current_phase, "session_summary": summary}
    return {**given, "ledger_summaries": compacted} if compacted and summary is None else given


def _read_summary(run: Run, path: str, journal: Journal) -> dict[str, Any] | None:
    """Return a summary with all its lists; None, with a warning, if it cannot be read."""
    try:
        found = json_object(run, path)
        if found is None:
            raise FileRefused("No such file or directory")
        said = _checked_summary(found)
    except FileRefused as error:
        _warn_of_summary("summary_read_error", "Session summary read error", path, str(error), journal)
        return None
    except ValueError as error:
        _warn_of_summary("summary_parse_error", "Session summary parse error - file skipped", path, str(error), journal)
        return None
    return {**found, "summary": {**said, **{name: said.get(name) or [] for name in FOR_BUILD}}}


def _checked_summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the summary in a file, with its parts checked; raises ValueError."""
    check_strings(found, ("session_id", "phase_completed", "timestamp"))
    said = found.get("summary")
    if not isinstance(said, dict):
        raise ValueError("it has no summary object")
    check_strings(said, ("context_notes",))
    for name in FOR_BUILD:
        parts = said.get(name)
        if not isinstance(parts, (list, type(None))):
            raise ValueError(f"its {name} is not a list")
        if not all([isinstance(part, str) for part in parts or []]):
            raise ValueError(f"its {name} is not a list of strings")
    return said


def _in_order(summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return summaries by timestamp if every one has a readable one, else in the order of their names."""
    moments = [seconds_of(summary.get("timestamp")) for summary in summaries]
    if None in moments:
        return summaries
    return [summary for _, summary in sorted(zip(moments, summaries, strict=True), key=lambda one: one[0] or 0.0)]


def _warn_of_summary(code: str, what: str, path: str, reason: str, journal: Journal) -> None:
    journal.warn(code, what, {"Path": path, "Error": reason}, "Continuity may be degraded")
