"""Which event, session, artifact or moment the user means."""

from __future__ import annotations

import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.command_errors import NotFound
from faber_ledger.ledger.queries import MAX_MATCHES, Key, Match, find_matches, is_client, keys_where, last_key
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

ANYTHING = ("event", "session", "artifact")


def find_thing(run: Run, text: str, kinds: tuple[str, ...] = ANYTHING) -> Match:
    """Return the one thing that a text names in a run's log; raises NotFound, which lists several candidates."""
    found = [one for one in find_matches(partial(read_log, run), text) if one.kind in kinds]
    if len(found) == 1:
        return found[0]
    if found:
        more = ["  and others"] if len(found) > MAX_MATCHES else []
        raise NotFound(
            f"{text} may be several things in {run.run_id}:",
            hint=f"give one of these ids{', or more of the id' if more else ''}",
            lines=[*_list_matches(found[:MAX_MATCHES]), *more],
        )
    name = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
    raise NotFound(
        f"there is no {name} {text} in {run.run_id}",
        hint=f"run `faber-ledger log {run.run_id}` to see its events, or name its run with --work-id",
    )


def find_session(run: Run, text: str | None) -> str | None:
    """Return a session's id, or the client's id that several may share; None for None. Raises as `find_thing`."""
    if text is None or is_client(partial(read_log, run), text):
        return text
    return find_thing(run, text, ("session",)).id


def _list_matches(found: list[Match]) -> list[str]:
    return [f"  {one.kind} {one.id}{f' ({one.words})' if one.words else ''}" for one in found]


MOMENT = "SEQ|EVENT|TIME"
AFTER_ALL = "~"  # no event's id is after it


class Moment(NamedTuple):
    """A moment as the user gave it: a time in seconds since 1970, or else the key of the last event in it."""

    text: str
    seconds: float | None = None
    key: Key = (0, "")

    def has(self, recorded: Recorded) -> bool:
        """Return whether an event had happened at this moment."""
        if self.seconds is not None:
            at = seconds_of(recorded["at"])
            return at is not None and at <= self.seconds
        return (recorded["seq"], recorded["id"]) <= self.key


def parse_moment(run: Run, text: str) -> Moment:
    """Parse a moment: a seq, an event's id or its beginning, or a time with its zone.

    Several events have one seq where clones worked apart: all are in it. Before the first event is seq 0. Raises
    NotFound, and click's UsageError for a time without a zone.
    """
    if not text.strip():
        raise click.UsageError("the moment is empty: give a seq, an event's id or a time with its zone")
    if "-" in text or ":" in text:
        return Moment(text, seconds=parse_time(text))
    open_log = partial(read_log, run)
    if not (text.isdecimal() and text.isascii() and len(text) <= 16):
        return Moment(text, key=keys_where(open_log, "id", find_thing(run, text, ("event",)).id)[0])
    last, seq = last_key(open_log), int(text)
    if seq > (last[0] if last else 0):
        end = f"its last event is {last[0]} {last[1]}" if last else "its log is empty"
        raise NotFound(f"{run.run_id} has no event with the seq {seq}: {end}", hint="0 is before the first event")
    return Moment(text, key=(seq, AFTER_ALL))


def parse_time(text: str) -> float:
    """Parse a time into seconds since 1970; raises click's UsageError, which says what to write, if it has no zone."""
    seconds = seconds_of(text)
    if seconds is not None:
        return seconds
    try:
        written = datetime.datetime.fromisoformat(text).isoformat(timespec="seconds")
    except ValueError:
        raise click.UsageError(
            f"{text!r:.80} is not a time with a zone, such as 2026-01-05T14:30:22Z or 2026-01-05T15:30:22+01:00"
        ) from None
    raise click.UsageError(f"{text} has no time zone: write {written}Z if it is UTC, or for example {written}+01:00")


class Time(click.ParamType[float]):
    """A time on the command line: ISO 8601 with its zone, in seconds since 1970."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the time; fails with a usage error."""
        try:
            return value if isinstance(value, float) else parse_time(str(value))
        except click.UsageError as error:
            self.fail(error.message, param, ctx)
