"""A run over time, folded from its log: sessions, phases, artifacts in context and compactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypedDict

from faber_ledger.projections.fold import Projector, artifacts_in_context, current_session, empty
from faber_ledger.projections.history import ABANDONED, Agents, Compactions, SessionSummary, summarize_sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

# Seconds since 1970 by the recording machine's clock, and the number of milestones up to it, which orders what happened
# within one second.
Moment: TypeAlias = tuple[float, int]


class Bar(TypedDict):
    """A session in time; `row` and `end_row` are numbers of events."""

    session: SessionSummary
    machine: str
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


class Compaction(TypedDict):
    """A compaction: it emptied the context."""

    at: Moment
    where: str
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
    compactions: list[Compaction]
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
        self.started: dict[str, tuple[Moment, int]] = {}
        self.ended: dict[str, tuple[Moment, int]] = {}
        self.present: dict[str, tuple[object, Span]] = {}
        self.lanes: dict[str, Lane] = {}
        self.is_compacting = False
        self.compactions = Compactions()
        self.agents = Agents()
        self.stretches: list[Stretch] = []
        self.snapshot: tuple[Moment, str, int] | None = None
        self.completed: set[str] = set()
        self.every: list[Row] = []
        self.milestones: deque[Row] = deque(maxlen=LISTED * 2)
        self.workflow_id = ""
        self.work_id: str | None = None
        self.first: Moment | None = None
        self.compacted: list[Compaction] = []

    def fold(self, events: Iterable[Recorded]) -> Timeline:
        for recorded in events:
            self._apply(recorded)
        last: Moment | None = None
        bars: list[Bar] = []
        if self.number:
            last = (self.moment[0], self.moment[1] + 1)
            for _, span in self.present.values():
                span["end"] = last
            sessions = summarize_sessions(self.projector.blocks, self.agents)
            bars = [bar for one in sessions if (bar := self._bar(one, last))]
            if self.projector.open:
                self._stretch(last, None, [], self.number)
        return {
            "run_id": self.run_id,
            "workflow_id": self.workflow_id,
            "work_id": self.work_id,
            "first": self.first,
            "last": last,
            "bars": bars,
            "phases": self.stretches,
            "lanes": list(self.lanes.values()),
            "compactions": self.compacted,
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
        if self.first is None:
            self.first = self.moment
        self._list(recorded, kind in MILESTONES)
        self.projector.apply(recorded)
        self.agents.note(recorded)
        session_id = event.get("session_id")
        if isinstance(session_id, str):
            self._hear(kind, session_id, event)
        if kind == "run_started":
            self.workflow_id = _text(event.get("workflow_id"))
            self.work_id = _text(event.get("work_id")) or None
        elif self.compactions.is_new(event):
            where = ", ".join(filter(None, [_text(event.get("phase")), _text(event.get("step"))]))
            self.compacted.append({"at": self.moment, "where": where, "row": self.number})
        elif kind == "artifact_failed":
            lane = self._lane(_text(event.get("artifact_id")))
            lane["failures"].append({"at": self.moment, "error": _text(event.get("error")), "row": self.number})
        if isinstance(completed := event.get("phases_completed"), list):  # a note says only where it was written
            names = [name for name in completed if isinstance(name, str)]
            self._stretch(self.moment, _text(event.get("phase")), names, self.number)
        if kind in ("session_started", "session_ended", "artifact_loaded", "answer_lost", "run_adopted"):
            heard_at = self.agents.last_event_at.get(str(session_id)) if event.get("reason") == ABANDONED else None
            self._see_context(self._moment_of(heard_at) or self.moment)

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
            self.started.setdefault(session_id, (self.moment, self.number))
        if kind == "session_ended":
            if session_id not in self.ended or not event.get("inferred") or "delivery" in event:
                self.ended[session_id] = (self.moment, self.number)
            self.is_compacting = event.get("reason") == "compaction"

    # The context

    def _see_context(self, at: Moment) -> None:
        """Open and close spans for what has entered the context of an open session, and has left it at a moment."""
        blocks = self.projector.blocks
        is_watched = self.is_compacting or bool(self.projector.open) or current_session(blocks) is not None
        loads = artifacts_in_context(blocks) if is_watched else []
        found = {_text(load.get("artifact_id")): load for load in loads}
        for name, (load, span) in list(self.present.items()):
            if found.get(name) is not load:
                span["end"] = max(span["start"], at)
                del self.present[name]
        for name, load in found.items():
            if name not in self.present:
                size = load.get("size_bytes")
                span = {
                    "start": self.moment,
                    "end": self.moment,
                    "source": _text(load.get("source")),
                    "size_bytes": size if isinstance(size, int) else None,
                    "row": self.number,
                }
                self._lane(name)["spans"].append(span)
                self.present[name] = (load, span)

    def _lane(self, artifact_id: str) -> Lane:
        return self.lanes.setdefault(artifact_id, {"artifact_id": artifact_id, "spans": [], "failures": []})

    # The phases

    def _stretch(self, at: Moment, phase: str | None, completed: list[str], row: int) -> None:
        """Add the phases since the last snapshot: the one that it names, and those completed since."""
        if self.snapshot is not None:
            start, before, since = self.snapshot
            done = [name for name in completed if name not in self.completed]
            names = list(dict.fromkeys(filter(None, [before, *done])))
            last = self.stretches[-1] if self.stretches else None
            if last is not None and last["phases"] == names and last["end"] == start:
                last["end"] = at
            elif names:
                self.stretches.append({"phases": names, "start": start, "end": at, "row": since})
        self.completed.update(completed)
        if phase is not None:
            self.snapshot = (at, phase, row)

    # The sessions

    def _bar(self, session: SessionSummary, last: Moment) -> Bar | None:
        """Place a session; None if neither the log nor its entry says when it was."""
        name = session["session_id"]
        start, row = self.started.get(name, (self._moment_of(session["started_at"]), None))
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
            "start": start,
            "end": end,
            "is_open": is_open,
            "row": row,
            "end_row": end_row,
        }

    def _moment_of(self, text: str | None) -> Moment | None:
        seconds = self.seconds_of(text)
        return None if seconds is None else (seconds, 0)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
