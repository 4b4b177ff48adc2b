"""Queries on one run's log through SQLAlchemy Core, over the log's own read-only connection and decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, create_engine, func, literal_column, or_, select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from ulid import ULID

from faber_ledger.ledger.events import Recorded
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import decode_row
from faber_ledger.ledger.tables import EVENT

READ = select(*list(EVENT.c)[:8], EVENT.c.payload)  # the columns that `decode_row` takes
HOSTNAME = func.json_extract(EVENT.c.payload, "$.environment.hostname")
PHASE = func.json_extract(EVENT.c.payload, "$.phase")
PHASE_TYPE = func.json_type(EVENT.c.payload, "$.phase")
PAGE = 500
STARTED = EVENT.c.type == literal_column("'session_started'")  # a bound value would not match the partial index

Key: TypeAlias = tuple[int, str]
OpenLog: TypeAlias = Callable[[], Log]  # opens the log that is asked, for reading


class EventQuery(NamedTuple):
    """Which events to find; None, or no types, means any.

    `session` is a session's id, its last six letters, or its client's session id; `machine` a host name or a writer.
    `since` and `until` are in seconds since 1970, including the second of `until`: times are shown in seconds.
    The phase of an event is the one that it names; else the last one that its session named before it; else the last
    one that any event named.
    """

    session: str | None = None
    types: tuple[str, ...] = ()
    machine: str | None = None
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
    with connection_to(open_log) as connection:
        question = READ.where(*_conditions(wanted))
        if wanted.phase is not None:
            yield from map(decode_row, _in_phase(connection, question, wanted.phase, limit, newest_first))
        elif newest_first:
            yield from map(decode_row, islice(_rows(connection, question, newest_first=True), limit))
        else:
            yield from map(decode_row, _rows(connection, question, first=_newest_key(connection, question, limit)))


def _rows(
    connection: Connection,
    question: Select[Any],
    *,
    newest_first: bool = False,
    first: Key | None = None,
    last: Key | None = None,
) -> Iterator[Any]:
    """Yield rows that begin with seq and id, page by page; both keys are included."""
    place = tuple_(EVENT.c.seq, EVENT.c.id)
    order = (EVENT.c.seq.desc(), EVENT.c.id.desc()) if newest_first else (EVENT.c.seq, EVENT.c.id)
    page = question.order_by(*order).limit(PAGE)
    if first is not None:
        page = page.where(place >= first)
    if last is not None:
        page = page.where(place <= last)
    key: Key | None = None
    while True:
        beyond = page if key is None else page.where(place < key if newest_first else place > key)
        rows = connection.execute(beyond).fetchall()
        yield from map(tuple, rows)
        if len(rows) < PAGE:
            return
        key = (rows[-1][0], rows[-1][1])


def _newest_key(connection: Connection, question: Select[Any], count: int | None) -> Key | None:
    """Return the key of the first of the newest `count` rows; None if there are no more than that."""
    if count is None:
        return None
    keys = question.with_only_columns(EVENT.c.seq, EVENT.c.id).order_by(EVENT.c.seq.desc(), EVENT.c.id.desc())
    row = connection.execute(keys.limit(1).offset(count - 1)).first()
    return (row[0], row[1]) if row else None


def _in_phase(
    connection: Connection, question: Select[Any], phase: str, limit: int | None, newest_first: bool
) -> Iterator[Any]:
    """Yield the rows of one phase, keeping one byte of memory per event."""
    flags, last = bytearray(), None
    for row, there in _with_phases(connection, question):
        flags.append(there == phase)
        last = (row[0], row[1])
    if last is None:
        return
    left_out = max(0, sum(flags) - limit) if limit is not None else 0
    rows = _rows(connection, question, newest_first=newest_first, last=last)
    found = (row for row, is_there in zip(rows, reversed(flags) if newest_first else flags, strict=False) if is_there)
    yield from islice(found, limit) if newest_first else islice(found, left_out, None)


def _with_phases(connection: Connection, question: Select[Any]) -> Iterator[tuple[Any, str | None]]:
    """Yield rows, oldest first, each with the phase that it is in."""
    named = select(EVENT.c.seq, EVENT.c.id, EVENT.c.session_id, PHASE).where(PHASE_TYPE.in_(("text", "null")))
    snapshots = _rows(connection, named)
    snapshot = next(snapshots, None)
    by_session: dict[str | None, str | None] = {}
    known: str | None = None
    keys = question.with_only_columns(EVENT.c.seq, EVENT.c.id, EVENT.c.session_id)
    for row in _rows(connection, keys):
        while snapshot is not None and snapshot[:2] <= row[:2]:
            known = by_session[snapshot[2]] = snapshot[3]
            snapshot = next(snapshots, None)
        yield row, by_session.get(row[2], known) if row[2] is not None else known


def keys_at(open_log: OpenLog, seq: int) -> list[Key]:
    """Return the keys of the events that have a seq, in order: several, if clones have worked apart."""
    with connection_to(open_log) as connection:
        question = select(EVENT.c.seq, EVENT.c.id).where(EVENT.c.seq == seq).order_by(EVENT.c.id)
        return [(row[0], row[1]) for row in connection.execute(question)]


def key_of(open_log: OpenLog, name: str) -> Key:
    """Return the key of an existing event by its id."""
    with connection_to(open_log) as connection:
        row = connection.execute(select(EVENT.c.seq, EVENT.c.id).where(EVENT.c.id == name)).one()
        return (row[0], row[1])


def last_key(open_log: OpenLog) -> Key | None:
    """Return the key of the last event; None for an empty log."""
    with connection_to(open_log) as connection:
        return _newest_key(connection, READ, 1)


@contextmanager
def connection_to(open_log: OpenLog) -> Iterator[Connection]:
    """Open a log for SQLAlchemy as `open_log` opens it, checked and never written; raises as it does."""
    engine = create_engine("sqlite://", creator=lambda: open_log().connection, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise error.orig or error from None  # SQLite's own error, which every command handles
    finally:
        engine.dispose()


def _conditions(wanted: EventQuery) -> Iterator[ColumnElement[bool]]:
    if wanted.session is not None:
        yield or_(
            EVENT.c.session_id == wanted.session,
            EVENT.c.session_id.endswith("-" + wanted.session, autoescape=True),
            EVENT.c.client == wanted.session,
        )
    if wanted.types:
        yield EVENT.c.type.in_(wanted.types)
    if wanted.machine is not None:
        there = select(EVENT.c.session_id).where(STARTED, HOSTNAME.is_not_distinct_from(wanted.machine))
        yield or_(EVENT.c.writer == wanted.machine, EVENT.c.session_id.in_(there.scalar_subquery()))
    if wanted.since is not None:
        yield EVENT.c.id >= _first_id(wanted.since)
    if wanted.until is not None:
        yield EVENT.c.id < _first_id(math.floor(wanted.until) + 1)


def _first_id(seconds: float) -> str:
    """Return the smallest ULID of a moment: its milliseconds, and no randomness."""
    milliseconds = min(max(int(seconds * 1000), 0), 2**48 - 1)
    return str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))
