"""Exchange events and the newest state.json of each run with the server, in batches of which each arrives whole.

The server never replaces an event: one with the same id and another content is reported. Fetched rows have not passed
the gate yet. Of two states the one with the later `updated_at` is kept, of equal ones the one that is pushed last. A
state without that time counts as the oldest, and a time in the future as now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.ledger.encoding import COLUMNS, ID, INSERT, PARENTS, PAYLOAD, SEQ, sha256
from faber_ledger.ledger.union import open_scratch, rows_named
from faber_ledger.postgres.ask import (
    MOST_BYTES,
    MOST_EVENTS,
    Connection,
    absurd_answer,
    ask_one,
    check_rows,
    translate_decode_errors,
)
from faber_ledger.postgres.project import newest_event
from faber_ledger.postgres.server import Server

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row


PUSH = b"""\
SELECT added, conflicts, not_removed FROM faber_ledger.push_events(
  %s, %s, %b::bigint[], %b::text[], %b::text[], %b::integer[], %b::text[], %b::text[], %b::text[], %b::text[],
  %b::bytea[], %b::bytea[], %b::text[], %b::bytea[], %b::bytea[]
)"""


class Pushed(NamedTuple):
    """How many events the server did not have, and the ids of those that it has with another content.

    `not_removed`: events that were redacted here, and that the login may not redact on the server.
    """

    added: int
    conflicts: list[str]
    not_removed: list[str]


def push_events(
    server: Server, project: str, run_id: str, rows: Iterable[Row], advance: Callable[[int], object]
) -> Pushed:
    """Push rows of a log, each after its parents; `advance` is called with the number of each batch that is durable.

    Raises ServerUnavailable and ServerRefused: then the batches before are on the server, and pushing again adds what
    is missing.
    """
    added, conflicts, not_removed = 0, [], []
    for batch in _in_batches(rows):
        with server.transaction() as connection:
            pushed = _push_batch(connection, project, run_id, batch)
        added += pushed.added
        conflicts += pushed.conflicts
        not_removed += pushed.not_removed
        advance(len(batch))
    return Pushed(added, conflicts, not_removed)


def _push_batch(connection: Connection, project: str, run_id: str, batch: list[Row]) -> Pushed:
    with translate_decode_errors("push_events"):
        rows = connection.execute(PUSH, (project, run_id, *map(list, zip(*batch, strict=True)))).fetchall()
    check_rows("push_events", [("added", int), ("conflicts", list), ("not_removed", list)], rows)
    sent = {row[ID] for row in batch}
    if len(rows) == 1:
        pushed = Pushed(*rows[0])
        if 0 <= pushed.added <= len(batch) and all([name in sent for name in pushed.conflicts]):
            return pushed
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


PLACED: dict[str, Any] = {"position": int, **COLUMNS}


class Fetched:
    """Events of a run as the server has them, in a temporary database, which `close` removes.

    `log` can be read like any other, but its events have not passed the gate. `first_ids` has the positions of the
    events with seq 1. `last` is the position and id of the last event, None without one. `bare` are the
    ids of events without a payload, `doubled` the ids that came with several contents, of which one is kept.
    `new_count` counts the events that were not asked for before.
    """

    def __init__(self) -> None:
        self.log = open_scratch("the server")
        self.first_ids: dict[str, int] = {}
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
        self.first_ids |= {row[ID]: position for position, row in batch if row[SEQ] == 1}
        if batch and (self.last is None or self.last[0] < batch[-1][0]):
            self.last = batch[-1][0], batch[-1][1][ID]

    def close(self) -> None:
        """Remove what is kept on disk."""
        self.log.close()


def fetch_rows(server: Server, project: str, run_id: str, after: int = 0) -> Iterator[list[tuple[int, Row]]]:
    """Yield the events that a run has now after a position, each with its own, in batches.

    Events that arrive meanwhile are left to the next fetch, so that it ends even if the server always has one more.
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
    """Yield a run's events with these ids, each with its position, in batches."""
    names = sorted(ids)
    while names:  # not all with each question: whoever floods a run would have everybody ask them again and again
        names, some = names[MOST_EVENTS:], names[:MOST_EVENTS]
        after, left = 0, len(some)
        while left > 0:
            asked: dict[str, Any] = {"project": project, "run_id": run_id, "ids": some}
            batch = _next_batch(server, "events_with_ids", asked, after, left)
            if not batch:
                break
            yield batch
            after, left = batch[-1][0], left - len(batch)


def _next_batch(server: Server, function: str, asked: dict[str, Any], after: int, limit: int) -> list[tuple[int, Row]]:
    """Return the next events after a position, `limit` at most, each with its own, in the order of these."""
    rows = server.ask(function, PLACED, limit=limit, **asked, after=after, most=limit, bytes=MOST_BYTES)
    batch = sorted([(row[0], row[1:]) for row in rows], key=itemgetter(0))
    if batch and batch[0][0] <= after:
        raise absurd_answer(function)
    return batch


def has_event(server: Server, project: str, position: int, name: str) -> bool:
    """Return whether an event is at a position; a server that was restored from a backup may have another one there."""
    with server.transaction() as connection:
        return bool(ask_one(connection, "has_event", bool, project=project, position=position, name=name))


def count_events(server: Server, project: str, run_id: str, after: int) -> int:
    """Return how many events a run has after a position."""
    with server.transaction() as connection:
        return int(ask_one(connection, "count_events", int, project=project, run_id=run_id, after=after))


def fetch_new(
    server: Server, project: str, run_id: str, after: int, again: Collection[str], advance: Callable[[int], object]
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


class ServerState(NamedTuple):
    """What the server has of a run's state: its `updated_at` in UTC, empty if it has none, and its SHA-256.

    `log_end` is the last event in the log of the clone that pushed it, and `pushed_by` that clone's login.
    """

    at: str
    log_end: str
    digest: bytes
    pushed_by: str


def describe_state(server: Server, project: str, run_id: str) -> ServerState | None:
    """Return the time and the digest of a run's state; None without one. Raises as `Server.transaction`."""
    columns = {"at": str, "log_end": str, "digest": bytes, "pushed_by": str}
    found = server.ask("state_of", columns, limit=1, project=project, run_id=run_id)
    return ServerState(*found[0]) if found else None


def fetch_state(server: Server, project: str, run_id: str) -> tuple[str, str] | None:
    """Return the text of a run's state, and whose it is; None without one. Raises as `Server.transaction`."""
    columns: dict[str, Any] = {"content": str, "pushed_by": str, "digest": bytes}
    found = server.ask("state_of", columns, limit=1, project=project, run_id=run_id)
    if not found:
        return None
    content, pushed_by, digest = found[0]
    if sha256(content.encode()).digest() != digest:
        raise absurd_answer("state_of", "a digest that is not the content's")
    return content, pushed_by


def put_state(
    server: Server,
    project: str,
    run_id: str,
    state: ServerState,
    content: str,
    writer: str,
    base: bytes | None,
    known_redactions: list[str],
) -> bool:
    """Put a run's state on the server, which keeps the newest one; raises as `Server.transaction`.

    `base` is the digest of the server's state that this one includes. Return False if the server has a newer one or
    another login's that is not included, or a redaction that is not known here: the state may still show what that
    removes. It also refuses another login's `writer`, and a `log_end` that it has not.
    """
    asked: dict[str, Any] = {"content": content, "at": state.at, "writer": writer, "log_end": state.log_end}
    asked |= {"base": base, "known_redactions": known_redactions}
    with server.transaction() as connection:
        return bool(ask_one(connection, "put_state", bool, project=project, run_id=run_id, **asked))
