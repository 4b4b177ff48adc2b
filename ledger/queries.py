"""Questions asked of one run's log, through SQLAlchemy Core: over the log's own read-only open and its own decoder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, create_engine, func, literal_column, or_, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from ulid import ULID

from faber_ledger.ledger.events import Recorded
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.tables import EVENT

READ = select(*list(EVENT.c)[:8], EVENT.c.payload)  # the columns that `decoded` takes
STARTED = EVENT.c.type == literal_column("'session_started'")  # a bound value would not match the partial index


class Wanted(NamedTuple):
    """Which events are asked for; what is None does not matter.

    `session` is a session's id, its last six letters, or its client's session id; `machine` a host name or a writer.
    `since` and `until` are in seconds since 1970, and the whole second of `until` counts: times are shown in seconds.
    """

    session: str | None = None
    type: str | None = None
    machine: str | None = None
    since: float | None = None
    until: float | None = None


class Summary(NamedTuple):
    """A run's log at a glance; the last event's time and type are None for an empty log."""

    events: int
    sessions: int
    last_at: str | None
    last_type: str | None


def events(path: str, wanted: Wanted, *, limit: int | None = None, newest_first: bool = False) -> Iterator[Recorded]:
    """Give the wanted events of the log at `path`, in `(seq, id)` order or against it; raises as `Log.read`."""
    order = (EVENT.c.seq.desc(), EVENT.c.id.desc()) if newest_first else (EVENT.c.seq, EVENT.c.id)
    question = READ.where(*_conditions(wanted)).order_by(*order).limit(limit)
    with connection_to(path) as connection:
        log = Log(connection.connection.driver_connection, path)  # type: ignore[arg-type]  # it is SQLite's own
        for row in connection.execution_options(yield_per=500).execute(question):
            yield log.decoded(tuple(row))


def summary(path: str) -> Summary:
    """Count a log's events and sessions and give its last event; raises as `Log.read`."""
    counts = select(
        select(func.count()).select_from(EVENT).scalar_subquery(),
        select(func.count()).select_from(EVENT).where(STARTED).scalar_subquery(),
    )
    last = select(EVENT.c.at, EVENT.c.type).order_by(EVENT.c.seq.desc(), EVENT.c.id.desc()).limit(1)
    with connection_to(path) as connection:
        counted = connection.execute(counts).one()
        newest = connection.execute(last).first()
    return Summary(*counted, *(newest or (None, None)))


@contextmanager
def connection_to(path: str) -> Iterator[Connection]:
    """Open the log at `path` for SQLAlchemy as `Log.read` opens it: checked, and never written; raises as it does."""
    engine = create_engine("sqlite://", creator=lambda: Log.read(path).connection, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise error.orig or error from None  # SQLite's own error, which every command already knows
    finally:
        engine.dispose()


def _conditions(wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    if wanted.session is not None:
        yield or_(
            EVENT.c.session_id == wanted.session,
            EVENT.c.session_id.endswith("-" + wanted.session, autoescape=True),
            EVENT.c.client == wanted.session,
        )
    if wanted.type is not None:
        yield EVENT.c.type == wanted.type
    if wanted.machine is not None:
        hostname = func.json_extract(EVENT.c.payload, "$.environment.hostname")
        there = select(EVENT.c.session_id).where(STARTED, hostname == wanted.machine)
        yield or_(EVENT.c.writer == wanted.machine, EVENT.c.session_id.in_(there.scalar_subquery()))
    if wanted.since is not None:
        yield EVENT.c.id >= _first_id(wanted.since)
    if wanted.until is not None:
        yield EVENT.c.id < _first_id(math.floor(wanted.until) + 1)


def _first_id(seconds: float) -> str:
    """Give the smallest ULID of a moment: its milliseconds, and no randomness."""
    milliseconds = min(max(int(seconds * 1000), 0), 2**48 - 1)
    return str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))
