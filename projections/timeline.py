"""A run over time, folded from its log: sessions, phases and artifacts in context."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf
from typing import Any, TypeAlias, TypedDict

from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.projections.fold import NOT_GIVEN, Projector, artifacts_in_context, current_session, empty
from faber_ledger.projections.history import ABANDONED, SessionFacts, SessionSummary, summarize_sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

# Seconds since 1970 by the recording machine's clock, and the number of milestones up to it, which orders what happened
# within one second.
Moment: TypeAlias = tuple[float, int]


class Bar(TypedDict):
    """A session in time; `source` says what began it, and `row` and `end_row` are numbers of events."""

    session: SessionSummary
    machine: str
    source: str
    start: Moment
    end: Moment
    is_open: bool
    row: int | None
    end_row: int | None


class Span(TypedDict):
    """A stay of an artifact in context."""

    start: Moment
    end: Moment
    source: str
    size_bytes: int | None
    row: int


class Failure(TypedDict):
    """A load that failed."""

    at: Moment
    error: str
    row: int


class Lane(TypedDict):
    """An artifact: when it was in context, and when it could not be loaded."""

    artifact_id: str
    spans: list[Span]
    failures: list[Failure]


class Stretch(TypedDict):
    """The phases between two snapshots of where the run stood; `row` is the first snapshot's event."""

    phases: list[str]
    start: Moment
    end: Moment
    row: int


class Row(TypedDict):
    """An event of the table, with its number in the log."""

    number: int
    recorded: Recorded


class Timeline(TypedDict):
    """A run up to `last`, a moment after its last event; `events` counts all events, `rows` lists some or all."""

    run_id: str
    workflow_id: str
    work_id: str | None
    first: Moment | None
    last: Moment | None
    bars: list[Bar]
    phases: list[Stretch]
    lanes: list[Lane]
    events: int
    rows: list[Row]


LISTED = 2000  # events that are all listed; of a longer log, the newest 2 * LISTED of the milestones
MILESTONES = frozenset(
    [
        "run_started",
        "run_adopted",
        "session_started",
        "session_ended",
        "artifact_failed",
        "compaction_completed",
        "note_recorded",
        "context_reconstituted",
        "event_redacted",
        "redaction_undone",
    ]
)


def build_timeline(run_id: str, events: Iterable[Recorded], seconds_of: Callable[[object], float | None]) -> Timeline:
    """Fold a run's events, in `(seq, id)` order; `seconds_of` returns the seconds of a time, None for anything else."""
    return _Course(run_id, seconds_of).fold(events)


class _Course:
    """What is known of the run after the last folded event."""

    def __init__(self, run_id: str, seconds_of: Callable[[object], float | None]) -> None:
        self.run_id = run_id
        self.seconds_of = seconds_of
        self.projector = Projector(empty())
        self.number = 0
        self.moment: Moment = (0.0, 0)
        self.started: dict[str, tuple[Moment, int, str]] = {}
        self.ended: dict[str, tuple[Moment, int]] = {}
        self.loads: dict[str, list[tuple[str, Span]]] = {}  # of each session, in their order
        self.failures: list[tuple[str, Failure]] = []
        self.agents = SessionFacts()
        self.snapshots: list[tuple[Moment, str, list[str], int]] = []
        self.every: list[Row] = []
        self.milestones: deque[Row] = deque(maxlen=LISTED * 2)
        self.workflow_id = ""
        self.work_id: str | None = None
        self.first, self.last = (inf, 0), self.moment

    def fold(self, events: Iterable[Recorded]) -> Timeline:
        for recorded in events:
            self._apply(recorded)
        last = (self.last[0], self.last[1] + 1)
        sessions = summarize_sessions(self.projector.blocks, self.agents)
        bars = [bar for one in sessions if (bar := self._bar(one, last))]
        return {
            "run_id": self.run_id,
            "workflow_id": self.workflow_id,
            "work_id": self.work_id,
            "first": self.first if self.number else None,
            "last": last if self.number else None,
            "bars": bars,
            "phases": self._stretches(last),
            "lanes": self._lanes(bars),
            "events": self.number,
            "rows": self.every if self.number <= LISTED else list(self.milestones),
        }

    def _apply(self, recorded: Recorded) -> None:
        event: dict[str, Any] = dict(recorded["event"])
        kind = event["type"]
        self.number += 1
        seconds = self.seconds_of(recorded["at"])
        turn = self.moment[1] + (kind in MILESTONES)
        self.moment = (self.moment[0] if seconds is None else seconds, turn)
        self.first, self.last = min(self.first, self.moment), max(self.last, self.moment)
        self._list(recorded, kind in MILESTONES)
        self.projector.apply(recorded)
        self.agents.note(recorded)
        session_id = event.get("session_id")
        if isinstance(session_id, str):
            self._hear(kind, session_id, event)
            if kind == "artifact_loaded" and is_foldable(recorded) and event.get("given") not in NOT_GIVEN:
                self._load(session_id, event)
        if kind == "run_started":
            self.workflow_id = _text(event.get("workflow_id"))
            self.work_id = _text(event.get("work_id")) or None
        elif kind == "artifact_failed":
            failure: Failure = {"at": self.moment, "error": _text(event.get("error")), "row": self.number}
            self.failures.append((_text(event.get("artifact_id")), failure))
        elif kind == "run_adopted" and (current := current_session(self.projector.blocks)) not in (None, *self.started):
            for load in artifacts_in_context(self.projector.blocks):
                self._load(str(current), load)
        if isinstance(completed := event.get("phases_completed"), list):  # a note says only where it was written
            names = [name for name in completed if isinstance(name, str)]
            self.snapshots.append((self.moment, _text(event.get("phase")), names, self.number))

    def _list(self, recorded: Recorded, is_milestone: bool) -> None:
        row: Row = {"number": self.number, "recorded": recorded}
        if self.number <= LISTED:
            self.every.append(row)
        elif self.every:
            self.every = []
        if is_milestone:
            self.milestones.append(row)

    def _hear(self, kind: str, session_id: str, event: dict[str, Any]) -> None:
        if kind == "session_started":
            self.started.setdefault(session_id, (self.moment, self.number, _text(event.get("source"))))
        is_said = not event.get("inferred") or "delivery" in event
        if kind == "session_ended" and (is_said or session_id not in self.ended):
            self.ended[session_id] = (self.moment, self.number)
        if kind == "answer_lost":
            self.loads.pop(session_id, None)

    def _load(self, session_id: str, load: dict[str, Any]) -> None:
        size = load.get("size_bytes")
        span: Span = {
            "start": self.moment,
            "end": self.moment,
            "source": _text(load.get("source")),
            "size_bytes": size if isinstance(size, int) else None,
            "row": self.number,
        }
        self.loads.setdefault(session_id, []).append((_text(load.get("artifact_id")), span))

    # After the last event

    def _lanes(self, bars: list[Bar]) -> list[Lane]:
        """Return the artifacts: each was in a session's context until that loaded it again, or ended."""
        lanes: dict[str, Lane] = {}
        for bar in bars:
            loads = self.loads.get(bar["session"]["session_id"], [])
            ends: dict[str, Moment] = {}
            for name, span in reversed(loads):
                span["end"] = max(span["start"], ends.get(name, bar["end"]))
                ends[name] = span["start"]
            for name, span in loads:
                _lane(lanes, name)["spans"].append(span)
        for name, failure in self.failures:
            _lane(lanes, name)["failures"].append(failure)
        return list(lanes.values())

    def _stretches(self, last: Moment) -> list[Stretch]:
        """Return the phases between each two snapshots, in time: the one that the first names, and those completed."""
        snapshots = sorted(self.snapshots)
        if self.projector.open:
            snapshots.append((last, "", [], self.number))
        found: list[Stretch] = []
        done: set[str] = set()
        for (start, phase, before, row), (at, _, completed, _) in pairwise(snapshots):
            done.update(before)
            names = list(dict.fromkeys(filter(None, [phase, *[name for name in completed if name not in done]])))
            if found and found[-1]["phases"] == names and found[-1]["end"] == start:
                found[-1]["end"] = at
            elif names:
                found.append({"phases": names, "start": start, "end": at, "row": row})
        return found

    def _bar(self, session: SessionSummary, last: Moment) -> Bar | None:
        """Place a session; None if neither the log nor its entry says when it was."""
        name = session["session_id"]
        start, row, source = self.started.get(name, (self._moment_of(session["started_at"]), None, ""))
        if start is None:
            return None
        is_open = not session["ended_at"]
        end, end_row = self.ended.get(name, (self._moment_of(session["ended_at"]), None))
        if session["end_reason"] == ABANDONED:
            end = self._moment_of(session["last_event_at"])
        end = max(start, last if is_open else end or start)
        return {
            "session": session,
            "machine": _text(session["hostname"]) or "unknown machine",
            "source": source,
            "start": start,
            "end": end,
            "is_open": is_open,
            "row": row,
            "end_row": end_row,
        }

    def _moment_of(self, text: str | None) -> Moment | None:
        seconds = self.seconds_of(text)
        return None if seconds is None else (seconds, 0)


def _lane(lanes: dict[str, Lane], artifact_id: str) -> Lane:
    return lanes.setdefault(artifact_id, {"artifact_id": artifact_id, "spans": [], "failures": []})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
