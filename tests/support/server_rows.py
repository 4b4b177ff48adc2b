"""Rows of a team's server: events as clones push them, and documents."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from faber_ledger.ledger.canonical import clean
from faber_ledger.ledger.row import COLUMNS, HASH, SEQ, make_row
from support.sample_log import RUN, START, WRITER

if TYPE_CHECKING:
    import psycopg

    from faber_ledger.ledger.row import Row
    from support.postgres import Database, Login

FIRST, SECOND = "01K0000000000000000000PRJ1", "01K0000000000000000000PRJ2"
NOWHERE = "01K0000000000000000000PRJ9"
INSERT = f"""\
INSERT INTO faber_ledger.event (project, run_id, position, {", ".join(COLUMNS)})
VALUES (%s, %s, 0, {", ".join(["%s"] * len(COLUMNS))}) ON CONFLICT DO NOTHING"""
INSERT_DOCUMENT = """\
INSERT INTO faber_ledger.document (project, run_id, id, position, heads, supersedes, content, at, writer)
VALUES (%s, %s, %s, 0, %s, %s, %s, '2026-01-05T14:30:22Z', 'w') ON CONFLICT DO NOTHING"""
_number = itertools.count()


def row_of(event: dict[str, Any], after: Row | None = None) -> Row:
    """Make an event's row, with a right hash; `after` is its parent."""
    heads = [] if after is None else [(after[SEQ], after[HASH])]
    return make_row({"event": event}, clean(event), heads, START + next(_number), WRITER)  # type: ignore[typeddict-item]  # any


def note(text: str, after: Row | None = None) -> Row:
    """Make a note's row."""
    said = {"type": "note_recorded", "kind": "note", "text": text, "phase": None, "step": None}
    return row_of(said, after)


def redaction_of(target: str, after: Row | None = None, **said: Any) -> Row:
    """Make the row of a redaction, as `redact` writes one, with `said` changed."""
    usual: dict[str, Any] = {"fields": [], "remains": {}, "supersedes": [], "reason": None}
    return row_of({"type": "event_redacted", "event_id": target, **usual, **said}, after)


def put(connection: psycopg.Connection[Any], project: str, *rows: Row, run_id: str = RUN) -> None:
    """Insert rows one by one, in the connection's transaction."""
    with connection.cursor() as cursor:
        for row in rows:
            cursor.execute(INSERT, (project, run_id, *row))


def put_document(
    connection: psycopg.Connection[Any], project: str, content: str, *superseded: str, run_id: str = RUN
) -> str:
    """Insert a document; return its id, which is its content's hash."""
    name = hashlib.sha256(content.encode()).hexdigest()
    connection.execute(INSERT_DOCUMENT, (project, run_id, name, bytes(32), list(superseded), content))
    return name


def stored(database: Database, table: str = "event", login: Login | None = None) -> list[dict[str, Any]]:
    """Return all rows of a table that a login sees, by default the admin, in the order of their positions."""
    order = "position" if table in ("event", "document") else "1, 2"
    with database.connect(login) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM faber_ledger.{table} ORDER BY {order}".encode()).fetchall()


def as_row(found: dict[str, Any]) -> Row:
    """Return a row of the server as a ledger file has it."""
    return tuple(found[name] for name in COLUMNS)
