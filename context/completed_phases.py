"""Compare what a run's state calls completed with the events of FABER's own tools (its `events/` or `events.jsonl`).

FABER's protocol has a `phase_complete` event for every phase that becomes completed. A phase without one, or several
that became completed at once, may have been made up. The comparison warns, and decides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from faber_ledger.context.reconstitution.faber_files import read_events
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import READ, decode_row
from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.progress import PHASES, phase_state, phase_statuses, phases_completed
from faber_ledger.runs.run import EVENTS, Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


class Around(TypedDict):
    """The events around a change of the state: FABER's, and the ledger's that tell what was completed then.

    `last_without` is the last event of the ledger at which it was not completed yet, `first_with` the first at
    which it was; None where the ledger has none.
    """

    before: dict[str, Any] | None
    after: dict[str, Any] | None
    last_without: Recorded | None
    first_with: Recorded | None


class CompletionWarning(TypedDict):
    """What the events do not confirm; `steps` are only named by `pending_steps`."""

    code: Literal["no_event", "one_write", "pending_steps"]
    phases: list[str]
    steps: list[str]
    around: Around


class Comparison(TypedDict):
    """The result: without events nothing was compared.

    `not_compared` are the phases that were completed before the first event, or before the first that was read.
    `is_partial` where git ignores the events and other clones worked on the run: theirs are not here.
    """

    events: int
    unreadable: int
    is_partial: bool
    not_compared: list[str]
    warnings: list[CompletionWarning]


START, DONE = "phase_start", ("phase_complete", "phase_skip")
FAILED = ("failed", "failure", "cancelled")  # statuses of an event that says the contrary
OPEN = ("pending", "in_progress", "pending_input")
SNAPSHOTS = f"{READ} WHERE type IN ('session_started', 'session_ended') ORDER BY seq, id"
AT_ONCE = 60  # seconds between the events of phases that the state has as completed at the same moment
MAX_STEPS = 10_000  # of a state that are looked at


def compare_completion(run: Run, state: dict[str, Any], log: Log | None) -> Comparison:
    """Compare a run's state with the events of FABER's tools, and with the log's where it has one."""
    found = read_events(run)
    events = found["events"]
    result: Comparison = {
        "events": len(events),
        "unreadable": found["unreadable"],
        "is_partial": False,
        "not_compared": [],
        "warnings": [],
    }
    if not events:
        return result
    history = _History(state, events, log)
    completed = [name for name in phases_completed(state) if phase_state(state, name).get("enabled") is not False]
    unconfirmed = [name for name in completed if name not in history.confirmed]
    has_older = found["has_older"]
    result["not_compared"] = [name for name in unconfirmed if history.is_older(name, has_older=has_older)]
    unconfirmed = [name for name in unconfirmed if name not in result["not_compared"]]
    result["warnings"] = [
        *history.without_event(unconfirmed),
        *history.in_one_write(completed, unconfirmed),
        *history.pending(),
    ]
    result["is_partial"] = bool(result["warnings"]) and log is not None and _lacks_events_of_others(run, log)
    return result


def _lacks_events_of_others(run: Run, log: Log) -> bool:
    if not log.has_other_writer(known_writer(run.root) or ""):
        return False
    folder = os.path.relpath(os.path.join(run.own_directory, EVENTS), run.root)
    return bool(GitQuery(["check-ignore", "--", folder], run.root).answer())


class _History:
    """What the events and the log say about the phases of a state."""

    def __init__(self, state: dict[str, Any], events: list[dict[str, Any]], log: Log | None) -> None:
        self.state = state
        self.events = events
        self.names = list(phase_statuses(state))
        self.confirmed: dict[str, dict[str, Any]] = {}
        self.opened: set[str] = set()  # phases that were not completed yet when FABER's tools recorded an event of them
        for event in events:
            phase, kind = _phase_of(event), _type_of(event)
            if phase is not None and kind in (*DONE, START):
                if kind == START or failed_status(event):
                    self.confirmed.pop(phase, None)
                    self.opened.add(phase)
                else:
                    self.confirmed[phase] = event
        self.snapshots = list(_snapshots(log)) if log is not None else []

    def is_older(self, phase: str, *, has_older: bool) -> bool:
        """Return whether a phase was completed before the first event; `has_older` if there are more, not read.

        The log decides, else the time in the state, which can be made up; if neither tells, the phases before the first
        event's are older. Nothing is older than the event that begins a run, or an event at which the phase was open.
        """
        if phase in self.opened:
            return False
        begun = next((moment for event in self.events if (moment := _moment_of(event)) is not None), None)
        completed = self._completed_at(phase)
        if has_older and completed is not None and begun is not None:
            return completed < begun
        around = self._in_log(phase)
        first, last = _recorded_at(around[1]), _recorded_at(around[0])
        if begun is not None and first is not None and first < begun:
            return True
        is_whole = not has_older and _type_of(self.events[0]) == "workflow_start"
        if is_whole or (begun is not None and last is not None and last >= begun):
            return False
        if completed is not None and begun is not None:
            return completed < begun
        of_first = next((name for event in self.events if (name := _phase_of(event)) is not None), None)
        return of_first is not None and self._place(phase) < self._place(of_first)

    def without_event(self, phases: list[str]) -> Iterator[CompletionWarning]:
        """Yield the phases that no event says to be completed, those with the same events around them together."""
        for _, group in groupby(phases, lambda name: _identity(self._around(name))):
            names = list(group)
            yield {"code": "no_event", "phases": names, "steps": [], "around": self._around(names[0])}

    def in_one_write(self, completed: list[str], unconfirmed: list[str]) -> Iterator[CompletionWarning]:
        """Yield phases that became completed together.

        That is: the state has the same moment for them and their events, if they have any, do not; or they have no
        event, no moments of their own, and the log saw none of them completed and then all.
        """
        reported: set[str] = set()
        for moment in dict.fromkeys(map(self._completed_at, completed)):
            names = [name for name in completed if self._completed_at(name) == moment]
            if moment is None or len(names) < 2 or not self._disagree(names, unconfirmed):
                continue
            reported.update(names)
            yield {"code": "one_write", "phases": names, "steps": [], "around": self._around(names[0])}
        left = [name for name in unconfirmed if name not in reported and self._completed_at(name) is None]
        for _, group in groupby(left, self._key_in_log):
            names = list(group)
            if len(names) > 1 and self._in_log(names[0])[0] is not None:
                yield {"code": "one_write", "phases": names, "steps": [], "around": self._around(names[0])}

    def pending(self) -> Iterator[CompletionWarning]:
        """Yield the phases and steps that are open in the state of a completed run."""
        if self.state.get("status") != "completed":
            return
        statuses = phase_statuses(self.state)
        phases = [
            name for name in statuses if statuses[name] in OPEN and phase_state(self.state, name).get("enabled", True)
        ]
        steps = list(_open_steps(self.state))
        if phases or steps:
            around: Around = {"before": self.events[-1], "after": None, "last_without": None, "first_with": None}
            yield {"code": "pending_steps", "phases": phases, "steps": steps, "around": around}

    def _disagree(self, names: list[str], unconfirmed: list[str]) -> bool:
        """Return whether phases that the state completed at one moment are not so by their events."""
        if any([name in unconfirmed for name in names]):
            return True
        moments = [_moment_of(self.confirmed[name]) for name in names if name in self.confirmed]
        known = [moment for moment in moments if moment is not None]
        return bool(known) and max(known) - min(known) > AT_ONCE

    def _around(self, phase: str) -> Around:
        before, after = self._in_events(phase)
        last_without, first_with = self._in_log(phase)
        return {"before": before, "after": after, "last_without": last_without, "first_with": first_with}

    def _in_events(self, phase: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """Return FABER's events before and after a phase was completed: by time, else after its own or earlier ones."""
        completed, place, last = self._completed_at(phase), self._place(phase), -1
        for number, event in enumerate(self.events):
            moment, of = _moment_of(event), _phase_of(event)
            if completed is not None and moment is not None:
                last = number if moment <= completed else last
            elif of is not None and self._place(of) <= place:
                last = number
        return (
            self.events[last] if last >= 0 else None,
            self.events[last + 1] if last + 1 < len(self.events) else None,
        )

    def _in_log(self, phase: str) -> tuple[Recorded | None, Recorded | None]:
        """Return the log's last event without, and its first with, a phase among the completed ones."""
        without: Recorded | None = None
        for recorded, names in self.snapshots:
            if phase in names:
                return without, recorded
            without = recorded
        return without, None

    def _key_in_log(self, phase: str) -> tuple[str, ...]:
        return tuple([recorded["id"] if recorded else "" for recorded in self._in_log(phase)])

    def _completed_at(self, phase: str) -> float | None:
        return seconds_of(phase_state(self.state, phase).get("completed_at"))

    def _place(self, phase: str) -> int:
        return self.names.index(phase) if phase in self.names else len(PHASES)


def _identity(around: Around) -> tuple[int, int, int, int]:
    return (id(around["before"]), id(around["after"]), id(around["last_without"]), id(around["first_with"]))


def _snapshots(log: Log) -> Iterator[tuple[Recorded, list[str]]]:
    """Yield the log's events that tell which phases were completed; an inferred or redacted one does not."""
    for row in log.connection.execute(SNAPSHOTS):
        recorded = decode_row(row)
        event: dict[str, Any] = {**recorded["event"]}
        names = event.get("phases_completed")
        if isinstance(names, list) and not event.get("inferred") and not recorded.get("redacted"):
            yield recorded, [name for name in names if isinstance(name, str)]


def _recorded_at(recorded: Recorded | None) -> float | None:
    return seconds_of(recorded["at"]) if recorded is not None else None


def _type_of(event: dict[str, Any]) -> str:
    return str(event.get("type"))


def _phase_of(event: dict[str, Any]) -> str | None:
    return _text_in(event, "phase")


def failed_status(event: dict[str, Any]) -> str | None:
    """Return the status of an event that says that something failed; None of any other."""
    status = _text_in(event, "status")
    return status if status in FAILED else None


def _text_in(event: dict[str, Any], name: str) -> str | None:
    """Return a text of an event, or of its metadata, where FABER's protocol has it."""
    metadata = event.get("metadata")
    for holder in (event, metadata):
        value = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(value, str):
            return value
    return None


def _moment_of(event: dict[str, Any]) -> float | None:
    return seconds_of(event.get("timestamp"))


def _open_steps(state: dict[str, Any]) -> Iterator[str]:
    """Yield the open steps of the phases that are not open themselves, and of the state's own list.

    A step that is listed several times is as its last entry says.
    """
    found: dict[str, object] = {}
    for phase, status in phase_statuses(state).items():
        if status not in OPEN:
            for name, step in _steps_in(phase_state(state, phase).get("steps")):
                found[f"{phase}:{name.removeprefix(f'{phase}:')}"] = step.get("status")
    for name, step in _steps_in(state.get("steps")):
        phase_name = step.get("phase")
        found[f"{phase_name}:{name}" if isinstance(phase_name, str) and ":" not in name else name] = step.get("status")
    yield from (name for name, status in found.items() if status in OPEN)


def _steps_in(steps: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the steps of a list, or of an object keyed by step, with their names."""
    if isinstance(steps, dict):
        listed = [(name, step) for name, step in list(steps.items())[:MAX_STEPS] if isinstance(step, dict)]
    elif isinstance(steps, list):
        listed = [
            (step.get("step_id") or step.get("id") or step.get("name"), step)
            for step in steps[:MAX_STEPS]
            if isinstance(step, dict)
        ]
    else:
        listed = []
    yield from ((name, step) for name, step in listed if isinstance(name, str))
