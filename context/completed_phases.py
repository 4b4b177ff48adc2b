"""Compare what a run's state calls completed with the events of FABER's own tools (its `events/` or `events.jsonl`).

FABER's protocol has a `phase_complete` event for every phase that becomes completed. A phase without one may have been
made up. The comparison warns, and decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from faber_ledger.context.reconstitution.faber_files import read_events
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.runs.progress import PHASES, phase_state, phase_statuses, phases_completed, text_of

if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


class Comparison(TypedDict):
    """The result: without `events` nothing was compared.

    `unconfirmed` are the completed phases that no event says to be completed, `open_phases` those of a completed run
    that are pending or in progress.
    """

    events: int
    unreadable: int
    unconfirmed: list[str]
    open_phases: list[str]


START, DONE = "phase_start", ("phase_complete", "phase_skip")
FAILED = ("failed", "failure", "cancelled")  # statuses of an event that says the contrary
OPEN = ("pending", "in_progress", "pending_input")


def compare_completion(run: Run, state: dict[str, Any]) -> Comparison:
    """Compare a run's state with the events of FABER's tools."""
    found = read_events(run)
    events = found["events"]
    result: Comparison = {
        "events": len(events),
        "unreadable": len(found["unreadable"]),
        "unconfirmed": [],
        "open_phases": [],
    }
    if not events:
        return result
    confirmed = _confirmed_phases(events)
    enabled = [name for name in phase_statuses(state) if phase_state(state, name).get("enabled") is not False]
    completed = [name for name in phases_completed(state) if name in enabled and name not in confirmed]
    is_whole = not found["has_older"] and events[0].get("type") == "workflow_start"
    result["unconfirmed"] = [name for name in completed if is_whole or not _is_older(state, name, events)]
    if state.get("status") == "completed":
        result["open_phases"] = [name for name in enabled if phase_statuses(state)[name] in OPEN]
    return result


def _confirmed_phases(events: list[dict[str, Any]]) -> set[str]:
    """Return the phases whose last start or end among the events is an end that did not fail."""
    confirmed = set()
    for event in events:
        phase, kind = _text_in(event, "phase"), event.get("type")
        if phase is not None and kind in (*DONE, START):
            if kind == START or _text_in(event, "status") in FAILED:
                confirmed.discard(phase)
            else:
                confirmed.add(phase)
    return confirmed


def _is_older(state: dict[str, Any], phase: str, events: list[dict[str, Any]]) -> bool:
    """Return whether a phase was completed before the first event: by the times, else by the order of phases."""
    completed = seconds_of(phase_state(state, phase).get("completed_at"))
    begun = seconds_of(events[0].get("timestamp"))
    if completed is not None and begun is not None:
        return completed < begun
    first = next((name for event in events if (name := _text_in(event, "phase")) in PHASES), None)
    return first is not None and phase in PHASES[: PHASES.index(first)]


def _text_in(event: dict[str, Any], name: str) -> str | None:
    """Return a text of an event, or of its metadata, where FABER's protocol has it."""
    return text_of(event, name) or text_of(event.get("metadata"), name)
