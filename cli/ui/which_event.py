"""Which event, session, artifact or moment a person means."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from faber_ledger.cli.ui.output import warn
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import NotFound
from faber_ledger.runs.progress import PHASES

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.lookup import Match
    from faber_ledger.ledger.queries import Key
    from faber_ledger.runs.run import Run


ANYTHING = ("event", "session", "artifact")


def thing_meant(run: Run, text: str, kinds: tuple[str, ...] = ANYTHING) -> Match:
    """Give the one thing that a text means in a run's log; raises NotFound, naming what is near or what it may be."""
    from faber_ledger.ledger.lookup import MAX_MATCHES, find_matches, find_similar

    found = [one for one in find_matches(run.ledger_path, text) if one.kind in kinds]
    if len(found) == 1:
        return found[0]
    if found:
        more = "\n  and others" if len(found) > MAX_MATCHES else ""
        raise NotFound(
            f"{text} may be several things in {run.run_id}:\n{_listed(found[:MAX_MATCHES])}{more}",
            hint="give more of the id, or the whole of it",
        )
    close = [one for one in find_similar(run.ledger_path, text) if one.kind in kinds]
    told = f"; near it are:\n{_listed(close)}" if close else ""
    name = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
    raise NotFound(
        f"there is no {name} {text} in {run.run_id}{told}",
        hint=f"run `faber-ledger log {run.run_id}` to see its events",
    )


def session_meant(run: Run, text: str | None) -> str | None:
    """Give a session's id, or the client's id that several may share; None for None. Raises as `thing_meant`."""
    from faber_ledger.ledger.lookup import is_client

    if text is None or is_client(run.ledger_path, text):
        return text
    return thing_meant(run, text, ("session",)).id


def machine_meant(run: Run, text: str | None) -> str | None:
    """Give a machine that the log knows; raises NotFound with those that it knows."""
    from faber_ledger.ledger.lookup import is_writer, list_machines

    if text is None or is_writer(run.ledger_path, text):
        return text
    return _known(run, "machine", text, list_machines(run.ledger_path))


def phase_meant(run: Run, text: str | None) -> str | None:
    """Give FABER's phase, or one that the log knows; raises NotFound with those that it knows."""
    from faber_ledger.ledger.lookup import list_phases

    return text if text is None or text in PHASES else _known(run, "phase", text, list_phases(run.ledger_path))


def _known(run: Run, kind: str, text: str, names: list[str]) -> str:
    if text in names:
        return text
    told = f": it knows {', '.join(names)}" if names else ""
    raise NotFound(
        f"no event of {run.run_id} has the {kind} {text}{told}",
        hint=f"run `faber-ledger log {run.run_id}` to see its events",
    )


def _listed(found: list[Match]) -> str:
    return "\n".join([f"  {one.kind} {one.id}{f' ({one.words})' if one.words else ''}" for one in found])


MOMENT = "SEQ|EVENT|TIME"


class Moment(NamedTuple):
    """A moment, as it was given: a time in seconds since 1970, else the keys of the events that it names.

    A seq that clones have shared names several; seq 0 names none, and nothing had happened then.
    """

    text: str
    seconds: float | None = None
    keys: tuple[Key, ...] = ()

    def has(self, recorded: Recorded) -> bool:
        """Tell whether an event had happened at this moment."""
        if self.seconds is not None:
            return _had_come(recorded, self.seconds)
        return bool(self.keys) and (recorded["seq"], recorded["id"]) <= self.keys[-1]

    def is_reached_by(self, recorded: Recorded) -> bool:
        """Tell whether an event stands at this moment or after it."""
        if self.seconds is not None:
            seconds = seconds_of(recorded["at"])
            return seconds is None or seconds >= self.seconds
        return not self.keys or (recorded["seq"], recorded["id"]) >= self.keys[0]


def moment_of(run: Run, text: str) -> Moment:
    """Read a moment: a seq, an event's id or its beginning, or a time with its zone.

    Raises NotFound, with what is near, and click's UsageError for a time without a zone.
    """
    if not text.strip():
        raise click.UsageError("a moment is a seq, an event's id or a time with its zone, and an empty one was given")
    if "-" in text or ":" in text:
        return Moment(text, seconds=time_of(text))
    if text.isdecimal() and text.isascii() and len(text) <= 16:
        return Moment(text, keys=_keys_of(run, int(text)))
    from faber_ledger.ledger.queries import key_of

    key = key_of(run.ledger_path, thing_meant(run, text, ("event",)).id)
    return Moment(text, keys=(key,))


def time_of(text: str) -> float:
    """Read a time as seconds since 1970; raises click's UsageError, saying what to write, if it has no zone."""
    seconds = seconds_of(text)
    if seconds is not None:
        return seconds
    try:
        written = datetime.datetime.fromisoformat(text).isoformat(timespec="seconds")
    except ValueError:
        raise click.UsageError(
            f"{text!r:.80} is no time with a zone, as 2026-01-05T14:30:22Z and 2026-01-05T15:30:22+01:00 are"
        ) from None
    raise click.UsageError(
        f"{text} is no time with a zone: write {written}Z if it is UTC, else {written}+01:00 or such"
    )


class Time(click.ParamType[float]):
    """A time on the command line: ISO 8601 with its zone, in seconds since 1970."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the time; fails with a usage error."""
        try:
            return value if isinstance(value, float) else time_of(str(value))
        except click.UsageError as error:
            self.fail(error.message, param, ctx)


def _keys_of(run: Run, seq: int) -> tuple[Key, ...]:
    """Give the events of a seq, in order; warns if clones share it, and raises NotFound if there is none."""
    from faber_ledger.ledger.queries import keys_at, last_key

    if seq == 0:
        return ()
    keys = keys_at(run.ledger_path, seq)
    if not keys:
        last = last_key(run.ledger_path)
        told = f"its last event is {last[0]} {last[1]}" if last else "its log is empty"
        raise NotFound(f"{run.run_id} has no event with the seq {seq}: {told}", hint="0 is before the first event")
    if len(keys) > 1:
        names = ", ".join([name for _, name in keys])
        warn(f"seq {seq} is shared by {len(keys)} events of clones that worked apart, and all are meant: {names}")
    return tuple(keys)


def _had_come(recorded: Recorded, seconds: float) -> bool:
    at = seconds_of(recorded["at"])
    return at is not None and at <= seconds
