"""Push events to the server, in batches of which each arrives whole or not at all.

What the server has stays: an event is known by its id, and one that is there with another content is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from faber_ledger.ledger.encoding import ID, PARENTS, PAYLOAD
from faber_ledger.postgres.ask import (
    MOST_BYTES,
    MOST_EVENTS,
    Connection,
    absurd_answer,
    check_rows,
    translate_decode_errors,
)
from faber_ledger.postgres.server import Server

Row = tuple[Any, ...]


PUSH = b"""\
SELECT added, conflicts FROM faber_ledger.push_events(
  %s, %s, %b::bigint[], %b::text[], %b::text[], %b::integer[], %b::text[], %b::text[], %b::text[], %b::text[],
  %b::bytea[], %b::bytea[], %b::text[], %b::bytea[], %b::bytea[]
)"""


class Pushed(NamedTuple):
    """How many events the server did not have, and the ids of those that it has with another content."""

    added: int
    conflicts: list[str]


def push_events(
    server: Server, project: str, run_id: str, rows: Iterable[Row], advance: Callable[[int], object]
) -> Pushed:
    """Push rows of a log, each after its parents; `advance` is called with the number of each batch that is durable.

    Raises ServerUnavailable and ServerRefused: then the batches before are on the server, and pushing again adds what
    is missing.
    """
    added, conflicts = 0, []
    for batch in _in_batches(rows):
        with server.transaction() as connection:
            count, named = _push_batch(connection, project, run_id, batch)
        added += count
        conflicts += named
        advance(len(batch))
    return Pushed(added, conflicts)


def _push_batch(connection: Connection, project: str, run_id: str, batch: list[Row]) -> tuple[int, list[str]]:
    with translate_decode_errors("push_events"):
        rows = connection.execute(PUSH, (project, run_id, *map(list, zip(*batch, strict=True)))).fetchall()
    check_rows("push_events", [("added", int), ("conflicts", list)], rows)
    sent = {row[ID] for row in batch}
    if len(rows) == 1:
        added, conflicts = rows[0]
        if 0 <= added <= len(batch) and all([name in sent for name in conflicts]):
            return added, conflicts
    raise absurd_answer("push_events")


def _in_batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        length = len(row[PAYLOAD] or "") + len(row[PARENTS])
        if batch and (len(batch) == MOST_EVENTS or size + length > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch
