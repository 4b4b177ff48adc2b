"""What `replay` tells: a run's events with what each changed, its state at a moment, and what changed between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.ui.output import show_streamed, warn
from faber_ledger.cli.ui.progress import counted, progress
from faber_ledger.cli.ui.words import change_data, change_line, line_of, session_data, session_table
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import Wanted, events
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.difference import changes
from faber_ledger.projections.fold import Projector
from faber_ledger.projections.history import told_sessions
from faber_ledger.projections.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.ui.which_event import Moment
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.history import ToldSession
    from faber_ledger.runs.run import Run


class Wish(NamedTuple):
    """Which events are told, and whether the state after each is; what is None does not matter."""

    start: Moment | None = None
    end: Moment | None = None
    session: str | None = None
    step: bool = False

    def has(self, recorded: Recorded) -> bool:
        """Tell whether an event is told."""
        if self.start is not None and not self.start.is_reached_by(recorded):
            return False
        return self.session is None or self.session in (recorded["event"].get("session_id"), recorded["client"])


class Past:
    """The part of a log that had happened at a moment; None is now."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment = moment
        self.count = 0
        self.last: Recorded | None = None
        self._later = self._overtaken = 0

    def has(self, recorded: Recorded) -> bool:
        """Tell whether an event had happened, and count it."""
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
        """Tell whether nothing that follows can have happened: a position's past ends, a time's may go on."""
        return self.moment is not None and self.moment.seconds is None and self._later > 0

    def warn(self) -> None:
        """Say so where the clocks and the log's order are not of one mind."""
        if self._overtaken and self.moment is not None:
            warn(
                f"the clocks and the log's order disagree around {self.moment.text}: {_events(self._overtaken)} that"
                " stand before others have a later time, and are left out"
            )


def check_order(wish: Wish) -> None:
    """Refuse a beginning that is after the end, where both are positions or both are times; raises UsageError."""
    start, end = wish.start, wish.end
    if start is None or end is None or (start.seconds is None) != (end.seconds is None):
        return
    if start.seconds is not None and end.seconds is not None:
        is_turned = start.seconds > end.seconds
    else:
        is_turned = start.keys[:1] > end.keys[-1:]
    if is_turned:
        raise click.UsageError(f"--from {start.text} is after --to {end.text}: no event is between them")


# Event by event


class _Telling:
    """One reading of a log: gives the events that are told, and holds the blocks after the last one."""

    def __init__(self, run: Run, wish: Wish) -> None:
        self.run = run
        self.wish = wish
        self.steps = Steps()
        self.past = Past(wish.end)

    def events(self) -> Iterator[tuple[Recorded, list[Change]]]:
        """Give each event that is told, with the fields that it changed."""
        with progress(self.run, "replaying", is_told=True) as advance:
            for recorded in counted(events(self.run.ledger_path, Wanted()), advance):
                if self.past.has(recorded):
                    if self.wish.has(recorded):
                        yield recorded, self.steps.apply(recorded)
                    else:
                        self.steps.pass_over(recorded)
                elif self.past.is_over:
                    break
        self.past.warn()

    def sessions(self) -> Iterator[ToldSession]:
        """Give the sessions that were there at the end of what is told; with `session` that one alone."""
        wanted, clients = self.wish.session, set()
        if wanted is not None:
            found = events(self.run.ledger_path, Wanted(session=wanted, type="session_started"))
            clients = {recorded["event"].get("session_id") for recorded in found}
        for told in told_sessions(self.steps.blocks):
            if wanted is None or told["session_id"] == wanted or told["session_id"] in clients:
                yield told


def lines(run: Run, wish: Wish) -> Iterator[str]:
    """Tell the events, each with what it changed, and the sessions."""
    telling = _Telling(run, wish)
    count = 0
    for recorded, changed in telling.events():
        count += 1
        yield line_of(recorded)
        for change in changed:
            yield f"         {change_line(change)}"
        if wish.step:
            for line in _state_lines(telling.steps.blocks):
                yield f"       | {line}"
    if not count:
        yield "no event" if wish != Wish() else "the log is empty: nothing has happened yet"
    for number, line in enumerate(session_table(telling.sessions)):
        if number == 0:
            yield ""
        yield line


def show_as_json(run: Run, wish: Wish) -> None:
    """Print the same as one JSON object, event by event."""
    telling = _Telling(run, wish)

    def told() -> Iterator[dict[str, Any]]:
        for recorded, changed in telling.events():
            state = {"blocks": telling.steps.blocks} if wish.step else {}
            yield {**recorded, "changes": [change_data(change) for change in changed], **state}

    show_streamed({"events": told(), "sessions": map(session_data, _late(telling))})


def _late(telling: _Telling) -> Iterator[ToldSession]:
    yield from telling.sessions()  # asked for once the events are told, not before


# At a moment


def state_at(run: Run, moment: Moment) -> tuple[dict[str, Any], Iterator[str]]:
    """Give the state at a moment, as data and in words."""
    past, projector, where = Past(moment), Projector(shape.empty()), _Where()
    with Log.read(run.ledger_path) as log, progress(run, "replaying") as advance:
        for recorded in counted(log.stream(), advance):
            if past.has(recorded):
                projector.apply(recorded)
                where.see(recorded)
            elif past.is_over:
                break
    past.warn()
    data = {
        "run_id": run.run_id,
        "at": _moment_data(moment, past),
        "phase": where.phase,
        "step": where.step,
        "blocks": projector.blocks,
        "sessions": [session_data(told) for told in told_sessions(projector.blocks)],
    }
    return data, _lines_at(past, where, projector.blocks)


class _Where:
    """The phase and step that the run was in, as its events named them."""

    phase: str | None = None
    step: str | None = None

    def see(self, recorded: Recorded) -> None:
        event: dict[str, Any] = recorded["event"]  # type: ignore[assignment]  # any event's phase is asked for
        if "phase" in event:
            self.phase, self.step = (
                value if isinstance(value, str) else None for value in (event["phase"], event.get("step"))
            )


def _lines_at(past: Past, where: _Where, blocks: Blocks) -> Iterator[str]:
    moment = past.moment
    time = f"{utc_text(moment.seconds)}: " if moment is not None and moment.seconds is not None else ""
    if past.last is None:
        yield f"{time}before the first event: nothing had happened yet"
        return
    yield f"{time}after {_events(past.count)}, the last of them:"
    yield line_of(past.last)
    yield ""
    yield f"phase:    {where.phase or 'unknown'}{f', step {where.step}' if where.step else ''}"
    yield from _state_lines(blocks)
    for number, line in enumerate(session_table(lambda: told_sessions(blocks))):
        if number == 0:
            yield ""
        yield line


def _state_lines(blocks: Blocks) -> Iterator[str]:
    """Tell the blocks in a few lines."""
    current = shape.current_session(blocks)
    entry = shape.entry_of(blocks, current) if current else None
    environment = entry.get("environment") if entry else None
    host = environment.get("hostname") if isinstance(environment, dict) else None
    since = f" on {host or 'unknown'}, since {entry.get('started_at') or 'unknown'}" if entry else ""
    yield f"session:  {f'{current}{since}' if current else 'none is open'}"
    metadata = blocks.get("context_metadata")
    count = metadata.get("reload_count", 0) if isinstance(metadata, dict) else 0
    yield f"history:  {_counted(len(shape.session_history(blocks)), 'session')}, {_counted(count, 'reload')}"
    loads = shape.artifacts_in_context(blocks)
    yield f"context:  {'' if loads else 'nothing'}".rstrip()
    for load in loads:
        yield f"  {load.get('artifact_id')}, loaded {load.get('loaded_at')} from {load.get('source')}"


# Between two moments


def between(run: Run, first: Moment, second: Moment) -> tuple[dict[str, Any], Iterator[str]]:
    """Give what changed from one moment to another, as data and in words."""
    sides = [(Past(moment), Projector(shape.empty())) for moment in (first, second)]
    with Log.read(run.ledger_path) as log, progress(run, "replaying") as advance:
        for recorded in counted(log.stream(), advance):
            for past, projector in sides:
                if not past.is_over and past.has(recorded):
                    projector.apply(recorded)
            if all([past.is_over for past, _ in sides]):
                break
    (one, before), (other, after) = sides
    one.warn()
    other.warn()
    changed = changes(before.blocks, after.blocks)
    data = {
        "run_id": run.run_id,
        "from": _moment_data(first, one),
        "to": _moment_data(second, other),
        "changes": [change_data(change) for change in changed],
    }
    return data, _lines_between(one, other, changed)


def _lines_between(one: Past, other: Past, changed: list[Change]) -> Iterator[str]:
    for sign, past in (("-", one), ("+", other)):
        yield f"{sign} {line_of(past.last).strip() if past.last else 'before the first event'}"
    if not changed:
        yield "nothing changed in state.json"
    for change in changed:
        yield change_line(change)


def _moment_data(moment: Moment, past: Past) -> dict[str, Any]:
    last = past.last and {name: past.last[name] for name in ("seq", "id", "at")}
    time = utc_text(moment.seconds) if moment.seconds is not None else None
    return {"moment": moment.text, "time": time, "events": past.count, "last_event": last}


def _events(count: int) -> str:
    return _counted(count, "event")


def _counted(count: object, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
