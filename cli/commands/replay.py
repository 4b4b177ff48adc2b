"""`faber-ledger replay`: show a run's sessions, its events with what each changed, or how it was at a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.reports.run_list import describe_unknown
from faber_ledger.cli.reports.usage import lacks_last_end, usage_data, usage_line
from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.cli.ui.which_event import MOMENT, Moment, find_session, parse_moment
from faber_ledger.cli.ui.which_run import run_argument, run_with_ledger
from faber_ledger.cli.ui.words import change_data, change_line, plural, session_data, session_table
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.projections import fold
from faber_ledger.projections.difference import apply_event
from faber_ledger.projections.history import SessionFacts, SessionSummary, summarize_sessions
from faber_ledger.projections.usage import Usage
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.fold import Blocks


@click.command()
@run_argument
@click.option("--events", is_flag=True, help="Also show each event with what it changed.")
@click.option("--at", metavar=MOMENT, help="Only the state at a moment.")
@click.option("--session", metavar="ID", help="One session: its id, its beginning or last part, or its client's id.")
@no_pager_option
@json_option
def replay(run: str | None, events: bool, at: str | None, session: str | None, as_json: bool) -> None:
    """Show the sessions of RUN (default: the active run): when and where each ran, and what it completed.

    A moment is a seq (0: before the first event), an event's id or its beginning, or a time with its zone.

    \b
    Example: faber-ledger replay --at 2026-01-05T14:30:22Z
    Exit codes: 0 done; 2 wrong usage; 10 no such run, ledger, event or session, or several with that
    name; 12 newer format; 20 the ledger is damaged.
    """
    if at is not None and (events or session is not None):
        raise click.UsageError("--at cannot be combined with --events and --session")
    chosen = run_with_ledger(run)
    if at is not None:
        data, lines = state_at(chosen, parse_moment(chosen, at))
        show(data, lines, as_json=as_json)
        return
    found = Replay(chosen, find_session(chosen, session))
    if as_json:
        show(found.data(), [], as_json=True)
    else:
        show_long(lambda: found.lines(has_events=events))


# Session by session, or event by event


NO_SESSION = "no session yet: --events shows what happened"


class Replay:
    """One reading of a log: yields its events, or those of a `session`, and keeps the blocks after the last one."""

    def __init__(self, run: Run, session: str | None) -> None:
        self.run = run
        self.session = session
        self.projector = fold.Projector(fold.empty())
        self.facts, self.usage = SessionFacts(), Usage()

    def events(self) -> Iterator[tuple[Recorded, list[Change]]]:
        """Yield each chosen event with the fields that it changed."""
        with progress(self.run, "replaying", has_place=not sys.stdout.isatty()) as advance:
            for recorded in track_progress(find_events(partial(read_log, self.run), EventQuery()), advance):
                self.facts.note(recorded)
                self.usage.note(recorded)
                if self.session in (None, recorded["event"].get("session_id"), recorded["client"]):
                    yield recorded, apply_event(self.projector, recorded)
                else:
                    self.projector.apply(recorded)

    def sessions(self) -> Iterator[SessionSummary]:
        """Yield the sessions known after the last event, or only the chosen one; ask once `events` is exhausted."""
        wanted, clients = self.session, set()
        if wanted is not None:
            found = find_events(partial(read_log, self.run), EventQuery(session=wanted, types=("session_started",)))
            clients = {recorded["event"].get("session_id") for recorded in found}
        for session in summarize_sessions(self.projector.blocks, self.facts):
            if wanted is None or session["session_id"] == wanted or session["session_id"] in clients:
                yield session

    def lines(self, *, has_events: bool) -> Iterator[str]:
        """Yield the sessions, with `has_events` after the events, each with what it changed, as lines for people."""
        count = 0
        for recorded, changed in self.events():
            count += 1
            if has_events:
                yield line_of(recorded)
                yield from [f"         {change_line(change)}" for change in changed]
        if not count:
            yield "no event" if self.session is not None else "the log is empty: nothing has happened yet"
        lines = list(session_table(self.sessions(), _tokens_of(self.usage)))
        lines = lines or ([] if has_events or not count else [NO_SESSION])
        if self.session is None:
            state: dict[str, Any] = {}
            with suppress(LedgerError):  # without a state only the log is known
                state = read_state(self.run).value
            with read_log(self.run) as log:
                lacks_end = lacks_last_end(log, known_writer(self.run.root), state)
            tokens = usage_line(self.usage, self.sessions(), lacks_end=lacks_end)
            unknown = describe_unknown(self.run, self.projector.blocks, fold.blocks_of(state)) if state else None
            sums = [*([f"tokens: {tokens}"] if tokens else []), *([unknown] if unknown else [])]
            lines += ["", *sums] if lines and sums else sums
        if has_events and lines:
            yield ""
        yield from lines

    def data(self) -> dict[str, list[dict[str, Any]]]:
        """Return the same as two lists, `events` and `sessions`."""
        events = [{**recorded, "changes": [*map(change_data, changed)]} for recorded, changed in self.events()]
        return {"events": events, "sessions": _sessions_data(self.sessions(), self.usage)}


def _sessions_data(sessions: Iterable[SessionSummary], usage: Usage) -> list[dict[str, Any]]:
    """Return sessions for `--json`, each with what its responses cost."""
    used = usage.by("session_id")
    return [
        {**session_data(session), "usage": usage_data(used.get(session["session_id"], Usage()))} for session in sessions
    ]


def _tokens_of(usage: Usage) -> dict[str, int]:
    return {session_id: one.used.tokens for session_id, one in usage.by("session_id").items()}


# At a moment


def state_at(run: Run, moment: Moment) -> tuple[dict[str, Any], Iterable[str]]:
    """Return the state at a moment, as data and as lines for people."""
    projector, facts, usage = fold.Projector(fold.empty()), SessionFacts(), Usage()
    count, last, phase, step = 0, None, None, None
    with read_log(run) as log, progress(run, "replaying") as advance:
        for recorded in filter(moment.has, track_progress(log.stream(), advance)):
            projector.apply(recorded)
            facts.note(recorded)
            usage.note(recorded)
            count += 1
            if last is None or moment.seconds is None or recorded["at"] >= last["at"]:
                last = recorded  # of a time's events the latest, which may not be the log's last
            phase, step = _place_after(recorded, (phase, step))
        session = fold.current_session(projector.blocks)
        own = projector if session is None else fold.Projector(fold.empty())
        # What came last, phase and context, may be another session's, on another machine.
        for recorded in filter(moment.has, log.stream()) if session is not None else ():
            if recorded["event"].get("session_id") in (None, session):
                own.apply(recorded)
                phase, step = _place_after(recorded, (phase, step))
    phase, step = [value if isinstance(value, str) else None for value in (phase, step)]
    time = utc_text(moment.seconds) if moment.seconds is not None else None
    data = {
        "run_id": run.run_id,
        "at": {
            "moment": moment.text,
            "time": time,
            "events": count,
            "last_event": last and {name: last[name] for name in ("seq", "id", "at")},
        },
        "phase": phase,
        "step": step,
        "blocks": projector.blocks,
        "sessions": _sessions_data(summarize_sessions(projector.blocks, facts), usage),
    }
    head = f"{time}: " if time is not None else ""
    if last is None:
        return data, [f"{head}before the first event: nothing had happened yet"]
    unnumbered = line_of(last).lstrip().partition("  ")[2]  # two clones may give one number
    lines = [f"{head}after {plural(count, 'event')}, the last of them:", unnumbered, ""]
    lines.append(f"phase:    {phase or 'unknown'}{f', step {step}' if step else ''}")
    sessions = [*session_table(summarize_sessions(projector.blocks, facts), _tokens_of(usage))]
    lines.append(f"session:  {session or 'none is open'}")
    return data, [*lines, *_context_lines(own.blocks), *(["", *sessions] if sessions else [])]


def _place_after(recorded: Recorded, before: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the phase and step that an event names, else those before."""
    event: dict[str, Any] = dict(recorded["event"])
    return (event["phase"], event.get("step")) if "phase" in event else before


def _context_lines(blocks: Blocks) -> Iterator[str]:
    loads = fold.artifacts_in_context(blocks)
    yield "context:" if loads else "context:  nothing"
    for load in loads:
        yield f"  {load.get('artifact_id')}, loaded {load.get('loaded_at')} from {load.get('source')}"
