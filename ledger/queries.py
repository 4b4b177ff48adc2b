"""Queries on one run's log, over its own read-only connection and decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from faber_ledger.ledger.clock import event_id, now, seconds_of
from faber_ledger.ledger.encoding import READ, decode_row
from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


HOSTNAME = "json_extract(payload, '$.environment.hostname')"
PHASE = "coalesce(json_extract(payload, '$.phase'), json_extract(payload, '$.in_phase'))"
PAGE = 500
STARTED = "type = 'session_started'"  # a bound value would not match the partial index
KNOWN_STARTS = f"{STARTED} AND payload IS NOT NULL"  # not redacted
NEWEST_STARTS = f"SELECT writer, {HOSTNAME} AS machine, max(seq) FROM event WHERE {KNOWN_STARTS} GROUP BY writer"
CLONES_OF = f"SELECT writer FROM ({NEWEST_STARTS}) WHERE machine IS ?"  # as `Log.machine_of` names each clone's machine
AHEAD_SECONDS = 300.0  # that a clock may be ahead
AFTER_ALL_IDS = "8"
LATEST_ID = 2**48 / 1000 - 1  # seconds since 1970 that an event's id can hold

Key: TypeAlias = tuple[int, str]
OpenLog: TypeAlias = Callable[[], Log]  # opens the log that is asked, for reading


class EventQuery(NamedTuple):
    """Which events to find; None, or no types, means any, but for those `without`.

    `session` is a session's id, its last six letters, or its client's session id; `machine` a host name or a writer,
    and `here` this clone's writer where that is its own machine. `since` and `until` are in seconds since 1970,
    including the second of `until`: times are shown in seconds. `phase` is one that an event names.
    """

    session: str | None = None
    types: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    machine: str | None = None
    here: str | None = None
    since: float | None = None
    until: float | None = None
    phase: str | None = None


def find_events(
    open_log: OpenLog, wanted: EventQuery, *, limit: int | None = None, newest_first: bool = False
) -> Iterator[Recorded]:
    """Yield the wanted events of a log, in `(seq, id)` order or against it; raises as `open_log` does.

    With a limit, the newest `limit` of them. The log is read page by page, so that a slow reader, such as a person with
    a pager, does not stop hooks from writing.
    """
    where, values = _conditions(wanted)
    with open_log() as log:
        if newest_first:
            rows: Iterator[Any] = islice(_rows(log, f"{READ} WHERE {where}", values, newest_first=True), limit)
        else:
            start = _newest_key(log, where, values, limit) if limit else None
            rows = _rows(log, f"{READ} WHERE {where}", values, start=start)
        yield from map(decode_row, rows)


def _rows(
    log: Log, question: str, values: tuple[object, ...], *, newest_first: bool = False, start: Key | None = None
) -> Iterator[Any]:
    """Yield the rows of a question, which begin with seq and id, page by page, from `start` on."""
    sign, way = ("<", " DESC") if newest_first else (">", "")
    bound, key = (f" AND (seq, id) {sign}= (?, ?)", start) if start else ("", ())
    while True:
        page = f"{question}{bound} ORDER BY seq{way}, id{way} LIMIT {PAGE}"
        rows = log.connection.execute(page, (*values, *key)).fetchall()
        yield from rows
        if len(rows) < PAGE:
            return
        bound, key = f" AND (seq, id) {sign} (?, ?)", rows[-1][:2]


def _newest_key(log: Log, where: str, values: tuple[object, ...], count: int) -> Key | None:
    """Return the key of the first of the newest `count` rows; None if there are fewer."""
    question = f"SELECT seq, id FROM event WHERE {where} ORDER BY seq DESC, id DESC LIMIT 1 OFFSET ?"
    row: Key | None = log.connection.execute(question, (*values, count - 1)).fetchone()
    return row


def keys_where(open_log: OpenLog, column: str, value: object) -> list[Key]:
    """Return the keys of the events with a value in a column, in order: several of one seq, if clones worked apart."""
    with open_log() as log:
        return log.connection.execute(f"SELECT seq, id FROM event WHERE {column} = ? ORDER BY id", (value,)).fetchall()


def last_key(open_log: OpenLog) -> Key | None:
    """Return the key of the last event; None for an empty log."""
    with open_log() as log:
        return _newest_key(log, "1", (), 1)


def escape_pattern(text: str) -> str:
    """Return a pattern that matches a text alone, in upper or lower case, with `LIKE … ESCAPE '/'`."""
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


def _conditions(wanted: EventQuery) -> tuple[str, tuple[object, ...]]:
    """Return the condition for the wanted events, and its values."""
    found: list[tuple[str, tuple[object, ...]]] = []
    if wanted.session is not None:
        ending = f"%-{escape_pattern(wanted.session)}"
        named = "(session_id = ? OR session_id LIKE ? ESCAPE '/' OR client = ?)"
        found.append((named, (wanted.session, ending, wanted.session)))
    if wanted.types:
        found.append((f"type IN ({', '.join('?' * len(wanted.types))})", wanted.types))
    if wanted.without:
        found.append((f"type NOT IN ({', '.join('?' * len(wanted.without))})", wanted.without))
    if wanted.machine is not None:
        there = f"SELECT session_id FROM event WHERE {STARTED} AND {HOSTNAME} IS ?"
        alone = f"session_id IS NULL AND (writer IN ({CLONES_OF}) OR writer IS ?)"
        found.append((f"(writer = ? OR session_id IN ({there}) OR {alone})", (*(wanted.machine,) * 3, wanted.here)))
    if wanted.phase is not None:
        found.append((f"{PHASE} = ?", (wanted.phase,)))
    if wanted.since is not None:
        found.append(("id >= ?", (_first_id(wanted.since),)))
    if wanted.until is not None:
        found.append(("id < ?", (_first_id(math.floor(wanted.until) + 1),)))
    return " AND ".join([text for text, _ in found]) or "1", tuple([value for _, values in found for value in values])


def _first_id(seconds: float) -> str:
    """Return the smallest event id of a moment: its milliseconds, and no randomness."""
    return event_id(min(max(seconds, 0), LATEST_ID), bytes(10))


EVENTS = "SELECT seq, id, type, at FROM event"
SESSIONS = "SELECT DISTINCT session_id FROM event WHERE session_id IS NOT NULL"
ARTIFACT_ID = "json_extract(payload, '$.artifact_id')"
ARTIFACTS = (
    f"SELECT DISTINCT {ARTIFACT_ID} FROM event WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped')"
)
MAX_MATCHES = 6
LIMIT = f"LIMIT {MAX_MATCHES + 1}"


class Match(NamedTuple):
    """Something that a word may mean: its kind (event, session or artifact), its full id, and a description."""

    kind: str
    id: str
    words: str = ""


def find_matches(open_log: OpenLog, text: str) -> list[Match]:
    """Return what `text` may mean in a log; only exact ids and positions if there are any.

    The text is an event's seq or id, a session's id, its last part or its client's id, or an artifact's id; all but a
    seq may be abbreviated to a prefix. Returns at most 7 of each kind; raises as `open_log`.
    """
    with open_log() as log:
        exact = _find(log.connection, text, whole=True)
        return exact or (_find(log.connection, text, whole=False) if text else [])


def is_client(open_log: OpenLog, text: str) -> bool:
    """Return whether a text is a client's own session id in a log; raises as `open_log`."""
    with open_log() as log:
        found = log.connection.execute("SELECT 1 FROM event WHERE client = ? LIMIT 1", (text,))
        return found.fetchone() is not None


def _texts(connection: Connection, question: str, *values: object) -> list[str]:
    """Return the first column of a question's rows where it is text."""
    return [value for (value,) in connection.execute(question, values) if isinstance(value, str)]


def _find(connection: Connection, text: str, *, whole: bool) -> list[Match]:
    upper, pattern = text.upper(), escape_pattern(text)
    if whole:
        is_seq = text.isdecimal() and len(text) <= 16
        events = _events(connection, f"WHERE {'seq' if is_seq else 'id'} = ? {LIMIT}", int(text) if is_seq else upper)
        wanted = f"{SESSIONS} AND (session_id = ? OR session_id LIKE ? ESCAPE '/' OR client = ?) {LIMIT}"
        sessions = _texts(connection, wanted, text, f"%-{pattern}", text)
        artifacts = _texts(connection, f"{ARTIFACTS} AND {ARTIFACT_ID} = ? {LIMIT}", text)
    else:
        events = _events(connection, f"WHERE id >= ? AND id < ? {LIMIT}", upper, f"{upper}a")
        wanted = f"{SESSIONS} AND (session_id LIKE ?1 ESCAPE '/' OR client LIKE ?1 ESCAPE '/') {LIMIT}"
        sessions = _texts(connection, wanted, f"{pattern}%")
        artifacts = _texts(connection, f"{ARTIFACTS} AND {ARTIFACT_ID} LIKE ? ESCAPE '/' {LIMIT}", f"{pattern}%")
    return [*events, *[Match("session", name) for name in sessions], *[Match("artifact", name) for name in artifacts]]


def _events(connection: Connection, which: str, *values: object) -> list[Match]:
    rows = connection.execute(f"{EVENTS} {which}", values)
    return [Match("event", name, f"{seq}, {kind} at {at}") for seq, name, kind, at in rows]


class Summary(NamedTuple):
    """A run's log at a glance; the last event's time and type are None for an empty log.

    `agent` is the newest session's, None if it is unknown.
    """

    events: int
    sessions: int
    last_at: str | None
    last_type: str | None
    agent: str | None


def summarize(log: Log) -> Summary:
    """Return the number of a log's events and sessions, and its last event by time."""
    events = log.count_events()
    (sessions,) = log.connection.execute("SELECT count(*) FROM event WHERE type = 'session_started'").fetchone()
    newest = f"{READ} WHERE {STARTED} ORDER BY seq DESC, id DESC LIMIT 1"
    agents = [dict(decode_row(row)["event"]).get("agent") for row in log.connection.execute(newest)]
    agent = next((name for name in agents if isinstance(name, str)), None)
    last = _last_event(log.connection)
    return Summary(events, sessions, last and last["at"], last and last["event"]["type"], agent)


def _last_event(connection: Connection) -> Recorded | None:
    """Return the last event by time; an event from a clock that was ahead counts only if there is no other."""
    for end in (event_id(min(now() + AHEAD_SECONDS, LATEST_ID), bytes(10)), AFTER_ALL_IDS):
        found = connection.execute(f"{READ} WHERE id < ? ORDER BY id DESC LIMIT 1", (end,)).fetchone()
        if found is not None:
            newest = decode_row(found)
            # Of the events of its last second the log's order tells which is the last. A forged `at` may be later.
            second = min(event_id(int(seconds_of(newest["at"]) or 0), bytes(10)), newest["id"])
            last = f"{READ} WHERE id >= ? AND id < ? ORDER BY seq DESC, id DESC LIMIT 1"
            return decode_row(connection.execute(last, (second, end)).fetchone())
    return None
