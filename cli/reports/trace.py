"""A run as one trace: spans with their ids, times and events, before any library for tracing sees them.

The run is the root; its phases and its sessions are the root's children. Times are nanoseconds since 1970. Ids come
from the ids of events, so that each export of a run has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from faber_ledger.ledger.clock import CROCKFORD, is_event_id, seconds_of
from faber_ledger.ledger.encoding import sha256
from faber_ledger.ledger.event_types import REDACTED
from faber_ledger.projections.history import ABANDONED, is_heard
from faber_ledger.projections.timeline import MILESTONES, Bar, Moment, Timeline, build_timeline
from faber_ledger.projections.usage import Usage
from faber_ledger.runs.progress import FINISHED, phase_statuses, text_of

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

Attributes: TypeAlias = dict[str, Any]  # texts, numbers, and lists of texts

MICROSECOND = 1_000
MILLISECOND = 1_000_000
LATEST = 2**63 - 1  # as a time and as a number, of what OTLP can hold
FAILED = "failed"
# The types of event that become a span's events: their fields, and those that are texts.
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "artifact_loaded": (("artifact_id", "trigger", "source", "size_bytes", "given"), ()),
    "artifact_failed": (("artifact_id", "trigger", "source", "required", "error"), ()),
    "compaction": (("phase", "step"), ()),
    "compaction_summary": ((), ("summary",)),
    "note_recorded": (("kind", "phase", "step"), ("text",)),
    "event_redacted": (("event_id",), ("reason",)),
    "redaction_undone": (("event_id",), ("reason",)),
}


class SpanEvent(NamedTuple):
    """What happened at one moment of a span."""

    name: str
    at: int
    attributes: Attributes


class Span(NamedTuple):
    """A stretch of time; ids are hexadecimal. An open one has not ended: `end` is its last event."""

    name: str
    span_id: str
    parent_id: str | None
    machine: str | None
    start: int
    end: int
    attributes: Attributes
    events: list[SpanEvent]
    is_open: bool
    is_failed: bool = False


class Trace(NamedTuple):
    """The spans of a run, the run's own last, and the attributes of each machine's resource."""

    trace_id: str
    spans: list[Span]
    machines: dict[str | None, Attributes]


def build_trace(run_id: str, events: Iterable[Recorded], state: dict[str, Any], *, with_texts: bool) -> Trace:
    """Return the trace of a run's events, in `(seq, id)` order, and its state; without events it has no spans."""
    noted = _Noted(with_texts=with_texts)
    timeline = build_timeline(run_id, noted.watch(events), seconds_of)
    if not noted.rows:
        return Trace("", [], {})
    noted.at[timeline["last"] or (0.0, 0)] = noted.latest
    spans = _Spans(timeline, noted, state)
    sessions = [spans.session(bar) for bar in timeline["bars"]]
    return Trace(_digest(16, noted.rows[0][0]), spans.with_run([*spans.phases(), *sessions]), noted.resources)


class _Noted:
    """What spans need of the events, besides what the timeline says."""

    def __init__(self, *, with_texts: bool) -> None:
        self.with_texts = with_texts
        self.rows: list[tuple[str, str]] = []  # each event's id and writer
        self.at: dict[Moment, int] = {}
        self.latest = 0
        self.heard: dict[str | None, int] = {}
        self.phase: object = None
        self.clients: dict[str | None, str] = {}
        self.machines: dict[str | None, str] = {}  # of sessions, and of writers
        self.resources: dict[str | None, Attributes] = {}
        self.usage = Usage()
        self.events: dict[str | None, list[SpanEvent]] = {}
        self._moment: Moment = (0.0, 0)

    def watch(self, events: Iterable[Recorded]) -> Iterator[Recorded]:
        """Note the events that pass."""
        for recorded in events:
            self._note(recorded)
            yield recorded

    def _note(self, recorded: Recorded) -> None:
        event: dict[str, Any] = dict(recorded["event"])
        kind, seconds = event["type"], seconds_of(recorded["at"])
        session = text_of(event, "session_id")
        self._moment = (self._moment[0] if seconds is None else seconds, self._moment[1] + (kind in MILESTONES))
        at = _nanoseconds(recorded["id"], self._moment[0])
        self.at.setdefault(self._moment, at)
        self.rows.append((recorded["id"], recorded["writer"]))
        if is_heard(recorded["event"]):
            self.heard[session] = at
        if recorded["client"]:
            self.clients.setdefault(session, recorded["client"])
        if isinstance(event.get("phases_completed"), list) and at >= self.latest:
            self.phase = event.get("phase")
        self.latest = max(self.latest, at)
        if kind == "session_ended" and event.get("reason") == "compaction":
            self._add("compaction", recorded, session, at)
        if self.with_texts and kind == "compaction_completed" and event.get("summary"):
            self._add("compaction_summary", recorded, session, at)
        if kind in FIELDS:
            self._add(kind, recorded, session, at)
        self.usage.note(recorded)
        if not recorded.get("redacted"):
            self._note_place(event, session, recorded["writer"])

    def _add(self, name: str, recorded: Recorded, session: str | None, at: int) -> None:
        fields, texts = FIELDS[name]
        event: dict[str, Any] = dict(recorded["event"])
        found = {field: event.get(field) for field in (*fields, *(texts if self.with_texts else ()))}
        attributes = {f"faber_ledger.{field}": value for field, value in found.items() if _is_plain(value)}
        is_redacted = recorded.get("redacted")
        one = SpanEvent(name, at, {"faber_ledger.redacted": True} if is_redacted else attributes)
        self.events.setdefault(session, []).append(one)

    def _note_place(self, event: dict[str, Any], session: str | None, writer: str) -> None:
        """Note the machine of a session, and what was checked out there last."""
        environment = event.get("environment")
        if event["type"] == "session_started" and (name := _known(text_of(environment, "hostname"))):
            self.machines[session] = self.machines[writer] = name
        machine = self.machines.get(session)
        resource = self.resources.setdefault(machine, {} if machine is None else {"host.name": machine})
        if commit := _known(text_of(environment, "git_commit")):
            resource["vcs.ref.head.revision"] = commit
        if event["type"] == "checkout_recorded" and (branch := text_of(event, "branch")):
            resource["vcs.ref.head.name"] = branch


class _Stay(NamedTuple):
    """A stay in a phase; `place` counts the phases that began with it, in their order."""

    name: str
    start: Moment
    end: Moment
    row: int
    place: int


class _Spans:
    """Makes the spans of a run."""

    def __init__(self, timeline: Timeline, noted: _Noted, state: dict[str, Any]) -> None:
        self.timeline = timeline
        self.noted = noted
        self.state = state
        self.usage = noted.usage.by("session_id")
        self.root_id = self._id("run")
        self.status = text_of(state, "status")
        has_open = any([bar["is_open"] for bar in timeline["bars"]])
        self.is_over = self.status in (*FINISHED, FAILED) and not has_open

    def session(self, bar: Bar) -> Span:
        """Return a session's span."""
        one = bar["session"]
        name = one["session_id"]
        machine, start = self.noted.machines.get(name), self._time(bar["start"])
        is_unended = bar["is_open"] or one["end_reason"] == ABANDONED  # nothing said when it ended
        is_open = bar["is_open"] or (is_unended and not self.is_over)  # it may go on
        end = self.noted.heard.get(name, start) if is_unended else self._time(bar["end"])
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": one["agent"],
            "gen_ai.agent.version": one["agent_version"],
            "gen_ai.conversation.id": self.noted.clients.get(name),
            "faber_ledger.session_id": name,
            "faber_ledger.machine": machine,  # as the resource says, which not every viewer shows
            "faber_ledger.phases_completed": one["newly_completed"] or None,
            **self._usage(name),
        }
        span_id = self._id("session", self.noted.rows[bar["row"] - 1][0] if bar["row"] else name)
        return Span(
            _joined("invoke_agent", one["agent"]),
            span_id,
            self.root_id,
            machine,
            start,
            max(start, end),
            _without_null(attributes, status="open" if bar["is_open"] else one["end_reason"], is_open=is_open),
            self.noted.events.pop(name, []),
            is_open,
        )

    def _usage(self, session: str) -> Attributes:
        """Return the tokens of a session; those that come from a cache are input, too."""
        usage = self.usage.get(session)
        if usage is None:
            return {}
        used, models = usage.used, [*usage.by("model")]
        return {
            "gen_ai.request.model": models[0] if len(models) == 1 else None,
            "faber_ledger.models": models if len(models) > 1 else None,
            "gen_ai.usage.input_tokens": used.input_tokens + used.cached_tokens,
            "gen_ai.usage.cache_read.input_tokens": used.cached_tokens,
            "gen_ai.usage.output_tokens": used.output_tokens,
        }

    def phases(self) -> list[Span]:
        """Return a span for each stay in a phase; a phase to which the run came back has several."""
        stays: list[_Stay] = []
        before: dict[str, int] = {}
        for stretch in self.timeline["phases"]:
            now: dict[str, int] = {}
            for place, name in enumerate(stretch["phases"]):
                now[name] = before.get(name, len(stays))
                if name in before:
                    stays[now[name]] = stays[now[name]]._replace(end=stretch["end"])
                else:
                    stays.append(_Stay(name, stretch["start"], stretch["end"], stretch["row"], place))
            before = now
        phase = text_of(self.state, "current_phase")
        if phase and self.status != "completed" and phase not in {stay.name for stay in stays}:  # no event tells of it
            latest = self.timeline["last"] or (0.0, 0)
            start = max([stay.end for stay in stays], default=self.timeline["first"] or latest)
            before, self.noted.phase = {phase: len(stays)}, phase
            stays.append(_Stay(phase, start, latest, 1, 0))
        last = {stay.name: number for number, stay in enumerate(stays)}
        current = before.get(str(self.noted.phase))
        return [self._phase(stay, number == last[stay.name], number == current) for number, stay in enumerate(stays)]

    def _phase(self, stay: _Stay, is_last: bool, is_current: bool) -> Span:
        """Return a phase's span; the state knows the status of the last stay alone."""
        event_id, writer = self.noted.rows[stay.row - 1]
        start = self._time(stay.start) + stay.place * MICROSECOND  # viewers order what began together by its start
        is_open = is_current and not self.is_over
        status = phase_statuses(self.state).get(stay.name) if is_last else None
        return Span(
            f"phase {stay.name}",
            self._id("phase", event_id, stay.name),
            self.root_id,
            self.noted.machines.get(writer),
            start,
            max(start, self._time(stay.end)),
            _without_null({"faber_ledger.phase": stay.name}, status=status, is_open=is_open),
            [],
            is_open,
            status == FAILED,
        )

    def with_run(self, children: list[Span]) -> list[Span]:
        """Return the children and the run's span, which has the events outside of sessions."""
        own = sorted([one for found in self.noted.events.values() for one in found], key=lambda one: one.at)
        workflow = self.timeline["workflow_id"] or text_of(self.state, "workflow_id")  # of an adopted run
        first = self.noted.at.get(self.timeline["first"] or (0.0, 0), self.noted.latest)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.agent.name": workflow,
            "error.type": "_OTHER" if self.status == FAILED else None,  # the conventions' word for no known type
            "faber_ledger.run_id": self.timeline["run_id"],
            "faber_ledger.work_id": self.timeline["work_id"] or text_of(self.state, "work_id"),
        }
        run = Span(
            _joined("invoke_workflow", workflow),
            self.root_id,
            None,
            next((one.machine for one in children if one.machine), None),
            min([first, *[one.start for one in children]]),
            max([self.noted.latest, *[one.end for one in children]]),
            _without_null(attributes, status=self.status, is_open=not self.is_over),
            own,
            not self.is_over,
            self.status == FAILED,
        )
        return [*children, run]

    def _time(self, moment: Moment) -> int:
        return self.noted.at.get(moment, _bounded(moment[0]))

    def _id(self, *words: str) -> str:
        return _digest(8, self.noted.rows[0][0], *words)


def _digest(size: int, *words: str) -> str:
    return sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()[: size * 2]


def _nanoseconds(event_id: str, seconds: float) -> int:
    """Return an event's time: that of its id, which has milliseconds, if it is of the same second."""
    if not is_event_id(event_id):
        return _bounded(seconds)
    milliseconds = 0
    for letter in event_id[:10]:
        milliseconds = milliseconds * len(CROCKFORD) + CROCKFORD.index(letter)
    return _bounded(milliseconds / 1000 if milliseconds // 1000 == int(seconds) else seconds)


def _bounded(seconds: float) -> int:
    return min(max(round(seconds * 1000) * MILLISECOND, 0), LATEST)


def _known(text: str | None) -> str | None:
    return None if text == REDACTED else text


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) <= LATEST)


def _joined(operation: str, name: str | None) -> str:
    return f"{operation} {name}" if name else operation


def _without_null(attributes: Attributes, *, status: str | None, is_open: bool) -> Attributes:
    """Return the attributes that are known, with a span's status, and whether it is open."""
    known = {**attributes, "faber_ledger.status": status, "faber_ledger.open": is_open or None}
    return {name: value for name, value in known.items() if value is not None}
