"""Fetch a run's events from the server, in bounded batches, as rows that nobody has judged yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from operator import itemgetter
from typing import Any

from faber_ledger.ledger.encoding import ID, INSERT, PAYLOAD, SEQ
from faber_ledger.ledger.file import FORMAT_1, statements
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_named
from faber_ledger.postgres.ask import EVENT_COLUMNS, MOST_BYTES, MOST_EVENTS, absurd_answer, ask, ask_one
from faber_ledger.postgres.project import newest_event
from faber_ledger.postgres.server import Server

Row = tuple[Any, ...]


PLACED: dict[str, Any] = {"position": int, **EVENT_COLUMNS}
# TABLE and INDEX alone: what is fetched is judged before it enters any log, and this is none.
TABLES = [
    statement
    for statement in statements(FORMAT_1)
    if statement.startswith(("CREATE TABLE event ", "CREATE UNIQUE INDEX event_id "))
]


class Fetched:
    """Events of a run as the server has them, in a temporary database, which `close` removes.

    `log` can be read like any other, and is not judged. `first_ids` are the events with seq 1 in the order in which
    they arrived. `last`: position and id of the last one, None without any. `bare`: the ids of those without a payload;
    `doubled`: those of which several came with different contents, and one is kept. `new_count`: the number of those
    that were not asked for before.
    """

    def __init__(self) -> None:
        connection = sqlite3.connect("", isolation_level=None)
        for statement in TABLES:
            connection.execute(statement)
        connection.execute("BEGIN")
        self.log = Log(connection, "the server")
        self.first_ids: list[str] = []
        self.bare: set[str] = set()
        self.doubled: set[str] = set()
        self.last: tuple[int, str] | None = None
        self.new_count = 0

    def add(self, batch: list[tuple[int, Row]], *, is_repeated: bool = False) -> None:
        """Add events with their positions; `is_repeated` if they were asked for before."""
        connection, before = self.log.connection, self.log.connection.total_changes
        connection.executemany(INSERT.replace("INSERT", "INSERT OR IGNORE"), [row for _, row in batch])
        added = connection.total_changes - before
        ignored = [] if added == len(batch) else [row for _, row in batch if rows_named(self.log, row[ID]) != [row]]
        self.doubled |= {row[ID] for row in ignored}
        self.new_count += 0 if is_repeated else added + len(ignored)
        self.bare |= {row[ID] for _, row in batch if row[PAYLOAD] is None}
        self.first_ids += [row[ID] for _, row in batch if row[SEQ] == 1 and row[ID] not in self.first_ids]
        if batch and (self.last is None or self.last[0] < batch[-1][0]):
            self.last = batch[-1][0], batch[-1][1][ID]

    def close(self) -> None:
        """Remove what is kept on disk."""
        self.log.close()


def fetch_rows(server: Server, project: str, run_id: str, after: int = 0) -> Iterator[list[tuple[int, Row]]]:
    """Yield the events that a run has now after a position, each with its own, in batches.

    Those that arrive meanwhile are the next fetch's: a server that always has one more is not asked without an end.
    Raises as `Server.transaction`.
    """
    newest = newest_event(server, project, run_id)
    while newest is not None and after < newest[0]:
        batch = _next_batch(server, "events_after", {"project": project, "run_id": run_id}, after, MOST_EVENTS)
        if not batch:
            return
        yield batch
        after = batch[-1][0]


def fetch_named(server: Server, project: str, run_id: str, ids: Collection[str]) -> Iterator[list[tuple[int, Row]]]:
    """Yield a run's events with these ids, each with its position, in batches and in the order of their positions."""
    asked: dict[str, Any] = {"project": project, "run_id": run_id, "ids": sorted(ids)}
    after, left = 0, len(ids)
    while left > 0:
        batch = _next_batch(server, "events_with_ids", asked, after, left)
        if not batch:
            return
        yield batch
        after, left = batch[-1][0], left - len(batch)


def _next_batch(server: Server, function: str, asked: dict[str, Any], after: int, limit: int) -> list[tuple[int, Row]]:
    """Return the next events after a position, `limit` at most, each with its own, in the order of these."""
    with server.transaction() as connection:
        rows = ask(connection, function, PLACED, limit=limit, **asked, after=after, most=limit, bytes=MOST_BYTES)
    batch = sorted([(row[0], row[1:]) for row in rows], key=itemgetter(0))
    if batch and batch[0][0] <= after:
        raise absurd_answer(function)
    return batch


def has_event(server: Server, project: str, position: int, name: str) -> bool:
    """Return whether an event stands at a position: a server that was restored from a backup may have another there."""
    with server.transaction() as connection:
        return bool(ask_one(connection, "has_event", bool, project=project, position=position, name=name))


def count_events(server: Server, project: str, run_id: str, after: int) -> int:
    """Return how many events a run has after a position."""
    with server.transaction() as connection:
        return int(ask_one(connection, "count_events", int, project=project, run_id=run_id, after=after))


def fetch_new(
    server: Server,
    project: str,
    run_id: str,
    after: int,
    again: Collection[str],
    advance: Callable[[int], object],
) -> Fetched:
    """Return a run's events whose ids are in `again`, and those after a position; the caller closes them.

    `advance` is called with the number of events of each batch that has come.
    """
    fetched = Fetched()
    try:
        for batch in fetch_named(server, project, run_id, again):
            fetched.add(batch, is_repeated=True)
        for batch in fetch_rows(server, project, run_id, after):
            fetched.add(batch)
            advance(len(batch))
    except BaseException:
        fetched.close()
        raise
    return fetched
