"""Events, values and sessions in words, one line each."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.texts import duration
from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.events import Recorded
from faber_ledger.projections.difference import MISSING, field_text, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.history import SessionSummary


LONGEST_LINE = 200


def words_of(recorded: Recorded) -> str:
    """Return an event's content as one line of at most 200 characters; an event of an unknown shape as JSON."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event.pop("type")
    try:
        text = _event_text(kind, event)
    except (KeyError, TypeError, AttributeError):
        text = _as_json({name: value for name, value in event.items() if name != "session_id"})
    text = " ".join(text.split())
    if recorded.get("redacted"):
        text = f"(redacted) {text}"
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def _as_json(event: dict[str, Any]) -> str:
    try:
        return canonical(event)
    except (ValueError, RecursionError):  # NaN, or nested too deeply: this program never writes it
        return "its content cannot be shown"


def session_shown(recorded: Recorded) -> str:
    """Return the last part of an event's session id, by which the sessions of a run differ; `-` for none."""
    session_id = recorded["event"].get("session_id")
    return session_id.rpartition("-")[2] if isinstance(session_id, str) and session_id else "-"


def events_shown(events: int | None) -> str:
    """Return a number of events in words; None is a mirror that cannot be read."""
    return "events that cannot be read" if events is None else plural(events, "event")


def _event_text(kind: str, event: dict[str, Any]) -> str:
    if kind == "run_started":
        work = f", work item {event['work_id']}" if event["work_id"] else ""
        return f"run {event['run_id']} started with {event['workflow_id']}{work}"
    if kind == "run_adopted":
        return f"run {event['run_id']} adopted with the sessions that its state.json had"
    if kind == "session_started":
        return f"session started ({event['source']}) on {event['environment']['hostname']}{_where(event)}"
    if kind == "session_ended":
        inferred = ", inferred from the next start" if event["inferred"] else ""
        said = f" (the client said: {event['client_reason']})" if event["client_reason"] else ""
        return f"session ended: {event['reason']}{said}{inferred}{_where(event)}"
    if kind == "artifact_loaded":
        return f"loaded {event['artifact_id']} ({event['given']}, {event['size_bytes']} bytes) from {event['source']}"
    if kind == "artifact_failed":
        needed = "required" if event["required"] else "optional"
        return f"could not load {event['artifact_id']} ({needed}) from {event['source']}: {event['error']}"
    if kind == "artifact_skipped":
        return f"skipped {event['artifact_id']}, loaded at {event['loaded_at']}"
    if kind == "context_reloaded":
        counts = f"{event['loaded']} loaded, {event['failed']} failed, {event['skipped']} skipped"
        return f"context reloaded ({event['trigger']}): {counts}"
    if kind == "compaction_completed":
        whose = f" of the subagent {event['agent_id']}" if event["agent_id"] else ""
        return f"compaction ({event['trigger'] or 'unknown'}) completed{whose}{_where(event)}"
    if kind == "delivery_ignored":
        return f"{event['delivery']['hook']} changed nothing: {REASONS.get(event['reason'], event['reason'])}"
    if kind == "note_recorded":
        return f"{event['kind']}{_where(event)}: {event['text']}"
    if kind == "context_reconstituted":
        point = ":".join(filter(None, [event["phase"], event["step"]])) or "an unknown point"
        resumed = f"{event['mode']} at {point}" if event["mode"] else "nothing to resume"
        problems = [
            f"{found['severity']} {found['code']}" for found in event["findings"] if found["severity"] != "INFO"
        ]
        return f"context reconstituted ({event['status']}, {resumed}){': ' + ', '.join(problems) if problems else ''}"
    if kind == "event_redacted":
        what = ", ".join(event["fields"]) if event["fields"] else "the whole payload"
        # A forged one took nothing out, which the event itself does not show.
        return f"redaction of {what} in event {event['event_id']}{': ' + event['reason'] if event['reason'] else ''}"
    raise KeyError(kind)


REASONS = {
    "repeated": "the same delivery arrived twice",
    "subagent": "it is about a subagent",
    "no_session": "its client has no session on this run",
}


def _where(event: dict[str, Any]) -> str:
    return f", in {event['phase']}" if event["phase"] else ""


LONGEST_VALUE = 100


def change_data(change: Change) -> dict[str, Any]:
    """Return a change for `--json`; a missing value has no `before` or no `after`."""
    path, before, after = change
    values = {name: value for name, value in (("before", before), ("after", after)) if value is not MISSING}
    return {"field": field_text(path), "path": list(path), **values}


def change_line(change: Change) -> str:
    """Return a change as one line."""
    path, before, after = change
    return f"{field_text(path)}: {value_words(before)} -> {value_words(after)}"


def value_words(value: Any) -> str:
    """Return a value as JSON of at most 100 characters; a longer list of sessions or loads is shown by their ids."""
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > LONGEST_VALUE:
        names = [identity(item) for item in value]
        text = f"[{', '.join([name or '?' for name in names])}]" if any(names) else text
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


TITLES = ("session", "machine", "started", "ran", "ended", "newly completed", "loaded")


def session_data(session: SessionSummary) -> dict[str, Any]:
    """Return a session for `--json`; `ran_seconds` is null while it is open, or if its times cannot be read."""
    return {**session, "ran_seconds": ran_seconds(session)}


def ran_seconds(session: SessionSummary) -> float | None:
    """Return how long a session ran, in seconds, by its own clock; None if it is open or its times are unreadable."""
    started, ended = seconds_of(session["started_at"]), seconds_of(session["ended_at"])
    return None if started is None or ended is None else ended - started


def session_lines(session: SessionSummary) -> Iterator[str]:
    """Return a session's machine, times, newly completed phases and loads as lines."""
    end = (
        f"ended {session['ended_at']} ({session['end_reason'] or 'unknown'}), after {duration(ran_seconds(session))}"
        if session["ended_at"]
        else "open"
    )
    yield f"{session['session_id']} on {session['hostname'] or 'unknown'} ({session['platform'] or 'unknown'})"
    yield f"  started {session['started_at']}, {end}"
    yield f"  newly completed: {', '.join(session['newly_completed']) or 'none'}"
    yield f"  loaded: {', '.join(session['artifacts_loaded']) or 'none'}"


def session_table(sessions: Callable[[], Iterable[SessionSummary]]) -> Iterator[str]:
    """Return a table of sessions, one line each; nothing for none. `sessions` is called three times, never kept."""
    widths = [len(title) for title in TITLES[:-1]]
    ends: Counter[str] = Counter()
    for session in sessions():
        ends[_end_of(session["session_id"])] += 1
    for session in sessions():
        widths = [max(width, len(cell)) for width, cell in zip(widths, _cells(session, ends), strict=False)]
    if ends:
        yield _row(TITLES, widths)
    for session in sessions():
        yield _row(_cells(session, ends), widths)


def _cells(session: SessionSummary, ends: Counter[str]) -> tuple[str, ...]:
    end = _end_of(session["session_id"])
    return (
        end if ends[end] == 1 else session["session_id"],
        str(session["hostname"] or "unknown"),
        str(session["started_at"] or "unknown"),
        duration(ran_seconds(session)) if session["ended_at"] else "open",
        str(session["end_reason"] or "unknown") if session["ended_at"] else "-",
        ", ".join(session["newly_completed"]) or "-",
        ", ".join(session["artifacts_loaded"]) or "-",
    )


def _end_of(session_id: str) -> str:
    return session_id.rpartition("-")[2] or session_id


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, cells[-1]])


def line_of(recorded: Recorded) -> str:
    """Return an event as one line: seq, time, type, the end of its session's id, and its content."""
    kind = recorded["event"]["type"]
    return f"{recorded['seq']:>5}  {recorded['at']}  {kind:<20}  {session_shown(recorded):<6}  {words_of(recorded)}"
