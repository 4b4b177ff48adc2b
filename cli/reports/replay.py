"""What `replay` shows: events with what each changed, the state at a moment, or what changed between two moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.cli.ui.words import change_data, change_line, plural, session_data, session_table
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.projections.difference import list_changes
from faber_ledger.projections.fold import (
    Projector,
    artifacts_in_context,
    current_session,
    empty,
    entry_of,
    session_history,
)
from faber_ledger.projections.history import summarize_sessions
from faber_ledger.projections.steps import Steps
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.cli.ui.which_event import Moment
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.projections.history import SessionSummary


class EventFilter(NamedTuple):
    """Which events to show, and whether to show the state after each of them; None means no limit."""

    start: Moment | None = None
    end: Moment | None = None
    session: str | None = None
    step: bool = False

    def has(self, recorded: Recorded) -> bool:
        """Return whether an event is at or after the start, and of the session; `PastEvents` knows the end."""
        if self.start is not None and not self.start.is_reached_by(recorded):
            return False
        return self.session is None or self.session in (recorded["event"].get("session_id"), recorded["client"])

    @property
    def is_reversed(self) -> bool:
        """Return whether the start is after the end; False if one is a position and the other a time."""
        start, end = self.start, self.end
        if start is None or end is None or (start.seconds is None) != (end.seconds is None):
            return False
        if start.seconds is not None and end.seconds is not None:
            return start.seconds > end.seconds
        return start.keys[:1] > end.keys[-1:]


class PastEvents:
    """The events of a log that had happened at a moment; None is now."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment = moment
        self.count = 0
        self.last: Recorded | None = None
        self._later = self._overtaken = 0

    def has(self, recorded: Recorded) -> bool:
        """Return whether an event had happened, and count it; call it once for each event, in order."""
        if self.moment is not None and not self.moment.has(recorded):
            self._later += 1
            return False
        self._overtaken += self._later
        self._later = 0
        self.count += 1
        self.last = recorded
        return True

    @property
    def is_over(self) -> bool:
        """Return whether no later event can be in it: after a position none can be, after a time one still may."""
        return self.moment is not None and self.moment.seconds is None and self._later > 0

    def warn_of_clocks(self, warn: Callable[[str], None]) -> None:
        """Warn if an event was left out for its time although a later one in the log's order was not."""
        if self._overtaken and self.moment is not None:
            warn(
                f"the clocks and the log's order disagree around {self.moment.text}: {plural(self._overtaken, 'event')}"
                " that come before others in the log have a later time, and are left out"
            )


# Event by event


class Replay:
    """One reading of a log: yields the chosen events, and keeps the blocks after the last one."""

    def __init__(self, run: Run, chosen: EventFilter, warn: Callable[[str], None]) -> None:
        self.run = run
        self.chosen = chosen
        self.warn = warn
        self.steps = Steps()
        self.past = PastEvents(chosen.end)

    def events(self) -> Iterator[tuple[Recorded, list[Change]]]:
        """Yield each chosen event with the fields that it changed."""
        with progress(self.run, "replaying", is_printing=True) as advance:
            for recorded in track_progress(find_events(partial(read_log, self.run), EventQuery()), advance):
                if self.past.has(recorded):
                    if self.chosen.has(recorded):
                        yield recorded, self.steps.apply(recorded)
                    else:
                        self.steps.pass_over(recorded)
                elif self.past.is_over:
                    break
        self.past.warn_of_clocks(self.warn)

    def sessions(self) -> Iterator[SessionSummary]:
        """Yield the sessions known after the last event, or only the chosen one; ask once `events` is exhausted."""
        wanted, clients = self.chosen.session, set()
        if wanted is not None:
            found = find_events(partial(read_log, self.run), EventQuery(session=wanted, types=("session_started",)))
            clients = {recorded["event"].get("session_id") for recorded in found}
        for session in summarize_sessions(self.steps.blocks):
            if wanted is None or session["session_id"] == wanted or session["session_id"] in clients:
                yield session

    def lines(self) -> Iterator[str]:
        """Yield the events, each with what it changed, and then the sessions, as lines for people."""
        count = 0
        for recorded, changed in self.events():
            count += 1
            yield line_of(recorded)
            for change in changed:
                yield f"         {change_line(change)}"
            if self.chosen.step:
                for line in _state_lines(self.steps.blocks):
                    yield f"       | {line}"
        if not count:
            yield "no event" if self.chosen != EventFilter() else "the log is empty: nothing has happened yet"
        yield from _session_lines(self.sessions)

    def data(self) -> dict[str, Iterator[dict[str, Any]]]:
        """Return the same as two lists, `events` and `sessions`; iterate over them in this order."""
        return {"events": self._events_data(), "sessions": self._sessions_data()}

    def _events_data(self) -> Iterator[dict[str, Any]]:
        for recorded, changed in self.events():
            state = {"blocks": self.steps.blocks} if self.chosen.step else {}
            yield {**recorded, "changes": [change_data(change) for change in changed], **state}

    def _sessions_data(self) -> Iterator[dict[str, Any]]:
        yield from map(session_data, self.sessions())  # in a generator, so that the events are read before


# At a moment


def state_at(run: Run, moment: Moment, warn: Callable[[str], None]) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the state at a moment, as data and as lines for people."""
    past, projector, position = PastEvents(moment), Projector(empty()), _PhaseTracker()
    with read_log(run) as log, progress(run, "replaying") as advance:
        for recorded in track_progress(log.stream(), advance):
            if past.has(recorded):
                projector.apply(recorded)
                position.follow(recorded)
            elif past.is_over:
                break
    past.warn_of_clocks(warn)
    data = {
        "run_id": run.run_id,
        "at": _moment_data(moment, past),
        "phase": position.phase,
        "step": position.step,
        "blocks": projector.blocks,
        "sessions": [session_data(session) for session in summarize_sessions(projector.blocks)],
    }
    return data, _lines_at(past, position, projector.blocks)


class _PhaseTracker:
    """The phase and step of the run, as the events so far named them."""

    phase: str | None = None
    step: str | None = None

    def follow(self, recorded: Recorded) -> None:
        """Take phase and step from an event that names them."""
        event: dict[str, Any] = recorded["event"]  # type: ignore[assignment]  # of any type
        if "phase" in event:
            self.phase, self.step = (
                value if isinstance(value, str) else None for value in (event["phase"], event.get("step"))
            )


def _lines_at(past: PastEvents, position: _PhaseTracker, blocks: Blocks) -> Iterator[str]:
    moment = past.moment
    time = f"{utc_text(moment.seconds)}: " if moment is not None and moment.seconds is not None else ""
    if past.last is None:
        yield f"{time}before the first event: nothing had happened yet"
        return
    yield f"{time}after {plural(past.count, 'event')}, the last of them:"
    yield line_of(past.last)
    yield ""
    yield f"phase:    {position.phase or 'unknown'}{f', step {position.step}' if position.step else ''}"
    yield from _state_lines(blocks)
    yield from _session_lines(lambda: summarize_sessions(blocks))


def _session_lines(sessions: Callable[[], Iterator[SessionSummary]]) -> Iterator[str]:
    """Yield a table of sessions after an empty line; nothing if there are none."""
    for number, line in enumerate(session_table(sessions)):
        if number == 0:
            yield ""
        yield line


def _state_lines(blocks: Blocks) -> Iterator[str]:
    """Yield what the blocks say, in a few lines."""
    current = current_session(blocks)
    entry = entry_of(blocks, current) if current else None
    environment = entry.get("environment") if entry else None
    host = environment.get("hostname") if isinstance(environment, dict) else None
    since = f" on {host or 'unknown'}, since {entry.get('started_at') or 'unknown'}" if entry else ""
    yield f"session:  {f'{current}{since}' if current else 'none is open'}"
    metadata = blocks.get("context_metadata")
    count = metadata.get("reload_count") if isinstance(metadata, dict) else 0
    reloads = count if isinstance(count, int) else 0  # an older tool may have written anything
    yield f"history:  {plural(len(session_history(blocks)), 'session')}, {plural(reloads, 'reload')}"
    loads = artifacts_in_context(blocks)
    yield f"context:  {'' if loads else 'nothing'}".rstrip()
    for load in loads:
        yield f"  {load.get('artifact_id')}, loaded {load.get('loaded_at')} from {load.get('source')}"


# Between two moments


def changes_between(
    run: Run, first: Moment, second: Moment, warn: Callable[[str], None]
) -> tuple[dict[str, Any], Iterator[str]]:
    """Return what changed from one moment to another, as data and as lines for people."""
    sides = [(PastEvents(moment), Projector(empty())) for moment in (first, second)]
    with read_log(run) as log, progress(run, "replaying") as advance:
        for recorded in track_progress(log.stream(), advance):
            for past, projector in sides:
                if not past.is_over and past.has(recorded):
                    projector.apply(recorded)
            if all([past.is_over for past, _ in sides]):
                break
    (one, before), (other, after) = sides
    one.warn_of_clocks(warn)
    other.warn_of_clocks(warn)
    changed = list_changes(before.blocks, after.blocks)
    data = {
        "run_id": run.run_id,
        "from": _moment_data(first, one),
        "to": _moment_data(second, other),
        "changes": [change_data(change) for change in changed],
    }
    return data, _lines_between(one, other, changed)


def _lines_between(one: PastEvents, other: PastEvents, changed: list[Change]) -> Iterator[str]:
    for sign, past in (("-", one), ("+", other)):
        yield f"{sign} {line_of(past.last).strip() if past.last else 'before the first event'}"
    if not changed:
        yield "nothing changed in state.json"
    for change in changed:
        yield change_line(change)


def _moment_data(moment: Moment, past: PastEvents) -> dict[str, Any]:
    last = past.last and {name: past.last[name] for name in ("seq", "id", "at")}
    time = utc_text(moment.seconds) if moment.seconds is not None else None
    return {"moment": moment.text, "time": time, "events": past.count, "last_event": last}
