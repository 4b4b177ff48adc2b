"""What `replay` shows: events with what each changed, the state at a moment, or what changed between two moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.cli.ui.which_event import Moment
from faber_ledger.cli.ui.words import change_data, change_line, plural, session_data, session_table
from faber_ledger.ledger.checked import read_verified
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


class PastEvents:
    """The events of a log that had happened at a moment (None is now), with the phase and step that they named last."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment = moment
        self.count = 0
        self.last: Recorded | None = None
        self.phase: str | None = None
        self.step: str | None = None
        self._later = False

    def has(self, recorded: Recorded) -> bool:
        """Return whether an event had happened, and count it; call it once for each event, in order."""
        if self.moment is not None and not self.moment.has(recorded):
            self._later = True
            return False
        self.count += 1
        self.last = recorded
        event: dict[str, Any] = dict(recorded["event"])
        if "phase" in event:
            named = (event["phase"], event.get("step"))
            self.phase, self.step = [value if isinstance(value, str) else None for value in named]
        return True

    @property
    def is_over(self) -> bool:
        """Return whether no later event can be in it: after a position none can be, after a time one still may."""
        return self.moment is not None and self.moment.seconds is None and self._later


# Event by event


class Replay:
    """One reading of a log: yields the chosen events, and keeps the blocks after the last one."""

    def __init__(self, run: Run, chosen: EventFilter) -> None:
        self.run = run
        self.chosen = chosen
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


def state_at(run: Run, moment: Moment) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the state at a moment, as data and as lines for people."""
    ((past, projector),) = _fold_until(run, moment)
    data = {
        "run_id": run.run_id,
        "at": _moment_data(moment, past),
        "phase": past.phase,
        "step": past.step,
        "blocks": projector.blocks,
        "sessions": [session_data(session) for session in summarize_sessions(projector.blocks)],
    }
    return data, _lines_at(past, projector.blocks)


def _fold_until(run: Run, *moments: Moment) -> list[tuple[PastEvents, Projector]]:
    """Fold the events up to each of the moments, in one reading of the log."""
    sides = [(PastEvents(moment), Projector(empty())) for moment in moments]
    with read_log(run) as log, progress(run, "replaying") as advance:
        for recorded in track_progress(log.stream(), advance):
            for past, projector in sides:
                if not past.is_over and past.has(recorded):
                    projector.apply(recorded)
            if all([past.is_over for past, _ in sides]):
                break
    return sides


def _lines_at(past: PastEvents, blocks: Blocks) -> Iterator[str]:
    moment = past.moment
    time = f"{utc_text(moment.seconds)}: " if moment is not None and moment.seconds is not None else ""
    if past.last is None:
        yield f"{time}before the first event: nothing had happened yet"
        return
    yield f"{time}after {plural(past.count, 'event')}, the last of them:"
    yield line_of(past.last)
    yield ""
    yield f"phase:    {past.phase or 'unknown'}{f', step {past.step}' if past.step else ''}"
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


def changes_between(run: Run, first: Moment, second: Moment) -> tuple[dict[str, Any], Iterator[str]]:
    """Return what changed from one moment to another, as data and as lines for people."""
    (one, before), (other, after) = _fold_until(run, first, second)
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


class Strict:
    """One reading of a log: counts events that fit their model, do not fit, have an unknown shape, or are redacted."""

    def __init__(self, run: Run, chosen: EventFilter) -> None:
        self.run = run
        self.chosen = chosen
        self.fitting = self.misfits = self.unknown = self.redacted = 0

    def lines(self) -> Iterator[str]:
        """Yield each event that does not fit its model, and then the counts."""
        for recorded, problems in self._check_events():
            yield line_of(recorded)
            for problem in problems:
                yield f"         {problem}"
        counts = f"{self.fitting} fit their model, {self.misfits} do not, {self.unknown} have a shape unknown here"
        yield counts + (f", {self.redacted} are redacted and cannot be checked" if self.redacted else "")
        if self.misfits:
            yield f"hint: run `faber-ledger verify {self.run.run_id}`: it says whether they were changed afterwards"

    def data(self) -> dict[str, Any]:
        """Return the same as data."""
        named = [{**recorded, "problems": problems} for recorded, problems in self._check_events()]
        return {"fitting": self.fitting, "unknown": self.unknown, "redacted": self.redacted, "misfits": named}

    def _check_events(self) -> Iterator[tuple[Recorded, list[str]]]:
        past = PastEvents(self.chosen.end)
        with read_log(self.run) as log, progress(self.run, "checking") as advance:
            for recorded in track_progress(read_verified(log), advance):
                if not past.has(recorded):
                    if past.is_over:
                        return
                elif self.chosen.has(recorded):
                    yield from self._check(recorded)

    def _check(self, recorded: Recorded) -> Iterator[tuple[Recorded, list[str]]]:
        from faber_ledger.schemas.events import problems_in  # loads pydantic

        problems = problems_in(recorded)
        if problems:
            self.misfits += 1
            yield recorded, problems
        elif problems is not None:
            self.fitting += 1
        elif "redacted" in recorded:
            self.redacted += 1
        else:
            self.unknown += 1
