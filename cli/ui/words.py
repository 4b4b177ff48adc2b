"""Counts, times, changes, values, sessions and tables in words."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from faber_ledger.files.text import clip, escape, shares
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.projections.difference import MISSING, field_text, identity
from faber_ledger.projections.history import ABANDONED, SessionSummary, agent_shown
from faber_ledger.runs.clone import read_used_runs
from faber_ledger.runs.progress import FINISHED, PHASES
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import TreeNote

if TYPE_CHECKING:
    from faber_ledger.projections.difference import Change

OF_TIME = 10  # the first letters of a ULID, which its time makes


def project_labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return what projects are called, by id: their names, with the beginning of the id where several have one name."""
    count = Counter(names.values())
    return {one: name if count[name] == 1 else f"{name} ({one[:OF_TIME]})" for one, name in names.items()}


def events_shown(events: int | None) -> str:
    """Return a number of events in words; None is a log that cannot be read."""
    return "events that cannot be read" if events is None else plural(events, "event")


def events_of_log_are(count: int) -> str:
    """Return the beginning of a sentence about some events of a log, with its verb."""
    return f"{events_shown(count)} of the log {'is' if count == 1 else 'are'}"


# Where ledgers travel in git refs, and git has brought the state first.
SESSIONS_UNKNOWN = "The ledger here lacks sessions that state.json has: `faber-ledger sync` fetches what was sent"


def join_names(names: list[str]) -> str:
    """Return names as a part of a sentence: `a, b and c`."""
    return " and ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def publishing_hint(run: Run, note: TreeNote, state: dict[str, Any] | None) -> str:
    """Return which command publishes a run's events in this work tree; none if that is barred, or git refs carry them.

    If this clone has not taken up an unfinished run, the command is `run resume`, as in the packet.
    """
    if note.barred or carries_refs(run.root):
        return "the log has all events"
    is_ours = run.run_id in read_used_runs(run.root).taken_up or (state or {}).get("status") in FINISHED
    return f"`faber-ledger {'seal' if is_ours else 'run resume'} {run.run_id}` publishes all events"


def place_lines(root: str) -> list[str]:
    """Return the line that says what paths are relative to; none in the project's root."""
    return [] if os.getcwd() == root else [f"  (paths are relative to {root})"]


LONGEST_VALUE = 100


def change_data(change: Change) -> dict[str, Any]:
    """Return a change for `--json`; a missing value has no `before` or no `after`."""
    path, before, after = change
    values = {name: value for name, value in (("before", before), ("after", after)) if value is not MISSING}
    return {"field": field_text(path), "path": list(path), **values}


def change_line(change: Change) -> str:
    """Return a change as one line."""
    path, before, after = change
    return f"{field_text(path)}: {value_words(before)} -> {value_words(after)}"


def value_words(value: Any) -> str:
    """Return a value as JSON of about 100 characters; the members that do not fit are counted.

    A longer list of sessions or loads is shown by their ids.
    """
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST_VALUE:
        return text
    if isinstance(value, dict):
        parts, ends = [json.dumps({name: one}, ensure_ascii=False)[1:-1] for name, one in value.items()], "{}"
    elif isinstance(value, list):
        parts, ends = [identity(one) or json.dumps(one, ensure_ascii=False) for one in value], "[]"
    else:
        return f"{text[:LONGEST_VALUE]}… ({len(text):,} characters)"
    count = sum([size <= LONGEST_VALUE for size in accumulate([len(part) + 2 for part in parts])])
    left = len(parts) - count
    more = [f"… {left} more" if count else plural(left, "entry", "entries")] if left else []
    return f"{ends[0]}{', '.join([*parts[:count], *more])}{ends[1]}"


CLIENT = "claude"  # the agent that is not named where all sessions are its
TITLES = ("session", "machine", "agent", "started", "ran", "ended", "tokens", "phases (✓ completed)")


def session_data(session: SessionSummary) -> dict[str, Any]:
    """Return a session for `--json`; `ran_seconds` is null while it is open, or if its times cannot be read."""
    return {**session, "ran_seconds": ran_seconds(session)}


def ran_seconds(session: SessionSummary) -> float | None:
    """Return how long a session ran, in seconds, by its own clock; None if it is open or its times are unreadable.

    An abandoned session, whose end was inferred, counts until its last event.
    """
    end = session["last_event_at" if session["end_reason"] == ABANDONED else "ended_at"]
    started, ended = seconds_of(session["started_at"]), seconds_of(end)
    return None if started is None or ended is None else ended - started


LEAST_KNOWN = 60  # seconds that an abandoned session ran by its events; its client may have lived for hours


def ran_words(session: SessionSummary) -> str:
    """Return how long a session ran, as lists show it."""
    seconds = ran_seconds(session)
    if session["end_reason"] != ABANDONED:
        return duration(seconds) if session["ended_at"] else "open"
    return "unknown" if seconds is None or seconds < LEAST_KNOWN else f"over {duration(seconds)}"


def session_table(sessions: Iterable[SessionSummary], tokens: Mapping[str, int] | None = None) -> Iterator[str]:
    """Yield a table of sessions, one line each; nothing for no session.

    Agents are a column where there are others, and so are the `tokens` of sessions, if there are any.
    """
    found, tokens = list(sessions), tokens or {}
    ends = Counter([_end_of(session["session_id"]) for session in found])
    rows: Sequence[tuple[str, ...]] = [TITLES, *[_cells(session, ends, tokens) for session in found]]
    rows = rows if tokens else _without(rows, "tokens")
    yield from table(with_agents(rows, [session["agent"] for session in found])) if found else ()


def with_agents(rows: Sequence[tuple[str, ...]], agents: Iterable[str | None]) -> Sequence[tuple[str, ...]]:
    """Return a table's rows, whose first has the titles, without the column of agents if all are the client itself."""
    return rows if any([agent not in (None, CLIENT) for agent in agents]) else _without(rows, "agent")


def _without(rows: Sequence[tuple[str, ...]], title: str) -> Sequence[tuple[str, ...]]:
    at = rows[0].index(title)
    return [(*row[:at], *row[at + 1 :]) for row in rows]


def _cells(session: SessionSummary, ends: Counter[str], tokens: Mapping[str, int]) -> tuple[str, ...]:
    end = _end_of(session["session_id"])
    return (
        end if ends[end] == 1 else session["session_id"],
        str(session["hostname"] or "unknown"),
        agent_shown(session["agent"], session["agent_version"]),
        str(session["started_at"] or "unknown"),
        ran_words(session),
        str(session["end_reason"] or "unknown") if session["ended_at"] else "-",
        tokens_shown(tokens[session["session_id"]]) if session["session_id"] in tokens else "-",
        _phases_of(session) or "-",
    )


def _phases_of(session: SessionSummary) -> str:
    completed = session["newly_completed"]
    phases = sorted([*completed, *session["worked_in"]], key=lambda phase: [*PHASES, phase].index(phase))
    return ", ".join([f"{phase} ✓" if phase in completed else phase for phase in phases])


def _end_of(session_id: str) -> str:
    return session_id.rpartition("-")[2] or session_id


LONGEST_ROW, LONGEST_PIPED, LEAST_CELL = 120, 200, 9


def table(rows: Sequence[Sequence[str]], flexible: Sequence[str] = ()) -> Iterator[str]:
    """Return the rows as lines, each column as wide as its widest cell; all rows have the same number of cells.

    A cell may be any text of a repository: each row is one line. The columns with a title in `flexible` are cut so
    that a row has 120 characters, more where the terminal is wider, and 200 where no terminal is.
    """
    rows = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    wanted = {at: widths[at] for at, title in enumerate(rows[0]) if title in flexible}
    longest = max(LONGEST_ROW, shutil.get_terminal_size((LONGEST_PIPED, 0)).columns)
    room = longest - sum(widths) - 2 * (len(widths) - 1) + sum(wanted.values())
    for at, given in zip(wanted, shares([*wanted.values()], room), strict=True):
        widths[at] = min(widths[at], max(given, LEAST_CELL))
        cut = _keep_end if rows[0][at] == "branch" else clip
        rows = [[*row[:at], cut(row[at], widths[at]), *row[at + 1 :]] for row in rows]
    for row in rows:
        yield "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()


def _keep_end(text: str, room: int) -> str:
    return text if len(text) <= room else f"…{text[len(text) - room + 1 :]}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: `1 event`, `3 events`; `nouns` is a plural that is not formed with s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def tokens_shown(count: int) -> str:
    """Return a number of tokens as people say it: `950`, `12.3k`, `4.5M`."""
    for size, unit in STEPS:
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit
    return str(count)


UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: `2 hours 15 minutes`, `42 seconds`."""
    if seconds is None or seconds < 0:
        return "unknown"
    left = int(seconds)
    words: list[str] = []
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count or (unit == "second" and not words):
            words.append(plural(count, unit))
    return " ".join(words[:2])


def ago(seconds: float | None) -> str:
    """Return how long ago something was, as people say it: `just now`, `1 minute ago`, `3 hours ago`, `325 days ago`.

    A moment that is unknown or has not come yet is "at an unknown time".
    """
    if seconds is None or seconds < 0:
        return "at an unknown time"
    count, unit = _largest_unit(seconds)
    return f"{plural(count, unit)} ago" if count else "just now"


def short_age(seconds: float) -> str:
    """Return an age as tables show it: `now`, `5 m`, `3 h`, `12 d`."""
    count, unit = _largest_unit(seconds)
    return f"{count} {unit[0]}" if count else "now"


def _largest_unit(seconds: float) -> tuple[int, str]:
    return next(((int(seconds // size), unit) for size, unit in UNITS[:-1] if seconds >= size), (0, ""))
