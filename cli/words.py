"""An event in words, for people: one line each, whatever the event holds."""

from __future__ import annotations

from typing import Any

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.events import Recorded

LONGEST = 200


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
    return told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"


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
    return "events that cannot be read" if events is None else f"{events} event{'' if events == 1 else 's'}"


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
        point = ":".join(filter(None, [event["phase"], event["step"]]))
        resumed = f"{event['mode']} at {point}" if event["mode"] else "nothing to resume"
        told = [f"{found['severity']} {found['code']}" for found in event["findings"] if found["severity"] != "INFO"]
        return f"context reconstituted ({event['status']}, {resumed}){': ' + ', '.join(told) if told else ''}"
    if kind == "event_redacted":
        what = ", ".join(event["fields"]) if event["fields"] else "the whole payload"
        return f"took {what} out of event {event['event_id']}{': ' + event['reason'] if event['reason'] else ''}"
    raise KeyError(kind)


REASONS = {
    "repeated": "the same delivery came twice",
    "subagent": "it is about a subagent",
    "no_session": "its client has no session on this run",
}


def _where(event: dict[str, Any]) -> str:
    return f", in {event['phase']}" if event["phase"] else ""
