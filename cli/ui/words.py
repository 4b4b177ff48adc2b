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
    """Say in one line what an event says; an event of an unknown shape is shown as its JSON, cut to 200 letters."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event.pop("type")
    try:
        told = _told(kind, event)
    except (KeyError, TypeError, AttributeError):
        told = _as_json({name: value for name, value in event.items() if name != "session_id"})
    told = " ".join(told.split())
    if recorded.get("redacted"):
        told = f"(redacted) {told}"
    return told if len(told) <= LONGEST_LINE else told[: LONGEST_LINE - 1] + "…"


def _as_json(event: dict[str, Any]) -> str:
    try:
        return canonical(event)
    except (ValueError, RecursionError):  # NaN, or nested without end: no ledger writes it
        return "what it says cannot be shown"


def session_shown(recorded: Recorded) -> str:
    """Give the last part of an event's session id, which tells the sessions of a run apart; `-` for none."""
    session_id = recorded["event"].get("session_id")
    return session_id.rpartition("-")[2] if isinstance(session_id, str) and session_id else "-"


def events_shown(events: int | None) -> str:
    """Say a number of events; None is a mirror that cannot be read."""
    return "events that cannot be read" if events is None else plural(events, "event")


def _told(kind: str, event: dict[str, Any]) -> str:
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
        point = ":".join(filter(None, [event["phase"], event["step"]])) or "an unknown place"
        resumed = f"{event['mode']} at {point}" if event["mode"] else "nothing to resume"
        told = [f"{found['severity']} {found['code']}" for found in event["findings"] if found["severity"] != "INFO"]
        return f"context reconstituted ({event['status']}, {resumed}){': ' + ', '.join(told) if told else ''}"
    if kind == "event_redacted":
        what = ", ".join(event["fields"]) if event["fields"] else "the whole payload"
        # A forged one took nothing out, which the event itself does not show.
        return f"redaction of {what} in event {event['event_id']}{': ' + event['reason'] if event['reason'] else ''}"
    raise KeyError(kind)


REASONS = {
    "repeated": "the same delivery came twice",
    "subagent": "it is about a subagent",
    "no_session": "its client has no session on this run",
}


def _where(event: dict[str, Any]) -> str:
    return f", in {event['phase']}" if event["phase"] else ""


LONGEST_VALUE = 100


def change_data(change: Change) -> dict[str, Any]:
    """Give a change as `--json` has it: what was or is missing has no `before` or no `after`."""
    path, before, after = change
    values = {name: value for name, value in (("before", before), ("after", after)) if value is not MISSING}
    return {"field": field_text(path), "path": list(path), **values}


def change_line(change: Change) -> str:
    """Write a change in one line."""
    path, before, after = change
    return f"{field_text(path)}: {value_words(before)} -> {value_words(after)}"


def value_words(value: Any) -> str:
    """Write a value in at most 100 letters, as JSON; a longer list of sessions or loads is told by their ids."""
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > LONGEST_VALUE:
        names = [identity(item) for item in value]
        text = f"[{', '.join([name or '?' for name in names])}]" if any(names) else text
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


TITLES = ("session", "machine", "started", "ran", "ended", "newly completed", "loaded")


def session_data(told: SessionSummary) -> dict[str, Any]:
    """Give a session as `--json` has it; `ran_seconds` is null while it is open, or where its times cannot be read."""
    return {**told, "ran_seconds": ran_seconds(told)}


def ran_seconds(told: SessionSummary) -> float | None:
    """Give how long a session ran, in seconds, as its clocks said; None if it is open or its times are unreadable."""
    started, ended = seconds_of(told["started_at"]), seconds_of(told["ended_at"])
    return None if started is None or ended is None else ended - started


def session_lines(told: SessionSummary) -> Iterator[str]:
    """Say what a session came to."""
    end = (
        f"ended {told['ended_at']} ({told['end_reason'] or 'unknown'}), after {duration(ran_seconds(told))}"
        if told["ended_at"]
        else "open"
    )
    yield f"{told['session_id']} on {told['hostname'] or 'unknown'} ({told['platform'] or 'unknown'})"
    yield f"  started {told['started_at']}, {end}"
    yield f"  newly completed: {', '.join(told['newly_completed']) or 'none'}"
    yield f"  loaded: {', '.join(told['artifacts_loaded']) or 'none'}"


def session_table(sessions: Callable[[], Iterable[SessionSummary]]) -> Iterator[str]:
    """Give a table of sessions, a line each; nothing for none. They are asked for twice, and never all kept."""
    widths = [len(title) for title in TITLES[:-1]]
    ends: Counter[str] = Counter()
    for told in sessions():
        ends[_end_of(told["session_id"])] += 1
    for told in sessions():
        widths = [max(width, len(cell)) for width, cell in zip(widths, _cells(told, ends), strict=False)]
    if ends:
        yield _row(TITLES, widths)
    for told in sessions():
        yield _row(_cells(told, ends), widths)


def _cells(told: SessionSummary, ends: Counter[str]) -> tuple[str, ...]:
    end = _end_of(told["session_id"])
    return (
        end if ends[end] == 1 else told["session_id"],
        str(told["hostname"] or "unknown"),
        str(told["started_at"] or "unknown"),
        duration(ran_seconds(told)) if told["ended_at"] else "open",
        str(told["end_reason"] or "unknown") if told["ended_at"] else "-",
        ", ".join(told["newly_completed"]) or "-",
        ", ".join(told["artifacts_loaded"]) or "-",
    )


def _end_of(session_id: str) -> str:
    return session_id.rpartition("-")[2] or session_id


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, cells[-1]])


def line_of(recorded: Recorded) -> str:
    """Write an event as one line: seq, time, type, the end of its session's id, and what it says."""
    kind = recorded["event"]["type"]
    return f"{recorded['seq']:>5}  {recorded['at']}  {kind:<20}  {session_shown(recorded):<6}  {words_of(recorded)}"
