"""Push events to the server, in batches of which each arrives whole or not at all.

What the server has stays: an event is known by its id, and one that is there with another content is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from faber_ledger.ledger.row import COLUMNS, PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import psycopg
    from sqlalchemy import Connection

    from faber_ledger.postgres.server import Server

    Row = tuple[Any, ...]


MOST_EVENTS = 5_000  # of a batch
MOST_BYTES = 8 * 1024 * 1024  # of a batch, in characters of its payloads; one event may be longer
NAMES = ", ".join(COLUMNS)
# Under row-level security there is no COPY into the table itself.
ARRIVING = """\
CREATE TEMPORARY TABLE arriving (
  number integer, seq bigint, id text COLLATE "C", type text, version integer, at text, writer text, session_id text,
  client text, parents bytea, salt bytea, payload text, payload_hash bytea, hash bytea
) ON COMMIT DROP"""
TYPES = ["int4", "int8", "text", "text", "int4", *["text"] * 4, "bytea", "bytea", "text", "bytea", "bytea"]
INSERT = f"""\
INSERT INTO faber_ledger.event (project, run_id, position, {NAMES})
SELECT :project, :run_id, 0, {NAMES} FROM pg_temp.arriving ORDER BY number
ON CONFLICT (project, run_id, id) DO NOTHING"""
# A payload that was removed on one side is no other content; one that differs under the same hash fails its own.
CONFLICTS = """\
SELECT arriving.id FROM pg_temp.arriving JOIN faber_ledger.event AS known
  ON known.project = :project AND known.run_id = :run_id AND known.id = arriving.id
WHERE known.hash <> arriving.hash OR known.seq <> arriving.seq
  OR (known.payload IS NOT NULL AND arriving.payload IS NOT NULL
    AND (known.payload <> arriving.payload OR known.salt IS DISTINCT FROM arriving.salt))
ORDER BY number"""


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
            count, named = _push_batch(connection, {"project": project, "run_id": run_id}, batch)
        added += count
        conflicts += named
        advance(len(batch))
    return Pushed(added, conflicts)


def _push_batch(connection: Connection, run: dict[str, str], batch: list[Row]) -> tuple[int, list[str]]:
    connection.execute(text(ARRIVING))
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg's
    cursor = driver.cursor()
    with cursor, cursor.copy(f"COPY pg_temp.arriving (number, {NAMES}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(TYPES)
        for number, row in enumerate(batch):
            copy.write_row((number, *row))
    added = connection.execute(text(INSERT), run).rowcount
    conflicts = connection.execute(text(CONFLICTS), run).scalars().all() if added < len(batch) else []
    return added, list(conflicts)


def _in_batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        length = len(row[PAYLOAD] or "")
        if batch and (len(batch) == MOST_EVENTS or size + length > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch
