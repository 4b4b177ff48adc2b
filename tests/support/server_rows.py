"""Rows of a team's server: events as clones push them, and states."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from faber_ledger.ledger.encoding import COLUMNS, HASH, SEQ, clean
from faber_ledger.ledger.log import make_row
from faber_ledger.postgres import exchange
from support.sample_log import RUN, START, WRITER

if TYPE_CHECKING:
    import psycopg

    from faber_ledger.ledger.encoding import Row
    from support.postgres import Database, Login

FIRST, SECOND = "01K0000000000000000000PRJ1", "01K0000000000000000000PRJ2"
NOWHERE = "01K0000000000000000000PRJ9"
KINDS = ("bigint", "text", "text", "integer", *["text"] * 4, "bytea", "bytea", "text", "bytea", "bytea")
PUSH = f"""\
SELECT added FROM faber_ledger.push_events(%s, %s, {", ".join([f"ARRAY[%s::{kind}]" for kind in KINDS])})"""
# As the login's own clone, whose log ends with the newest event there.
PUT_STATE = f"""\
SELECT faber_ledger.put_state(
  project, run, %s, %s, '{WRITER}', (SELECT id FROM faber_ledger.newest_event(project, run)), NULL, %s
)
FROM (VALUES (%s, %s)) AS one (project, run)"""
# What a member sees of each table.
QUESTIONS = {
    "event": "SELECT one.* FROM faber_ledger.projects() AS project,"
    " faber_ledger.runs_with_news(project.id, 0, 1000000) AS run_id,"
    " faber_ledger.events_after(project.id, run_id, 0, 1000000, 1000000000) AS one ORDER BY project.id, position",
    "state": "SELECT project.id AS project, run_id, one.* FROM faber_ledger.projects() AS project,"
    " faber_ledger.runs_with_news(project.id, 0, 1000000) AS run_id,"
    " faber_ledger.state_of(project.id, run_id) AS one",
    "member": "SELECT one.* FROM faber_ledger.projects() AS project, faber_ledger.members(project.id) AS one",
}
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
    return row_of({"type": "event_redacted", "event_id": target, "reason": None, **said}, after)


def put(connection: psycopg.Connection[Any], project: str, *rows: Row, run_id: str = RUN) -> None:
    """Insert rows one by one, in the connection's transaction."""
    with connection.cursor() as cursor:
        for row in rows:
            cursor.execute(PUSH.encode(), (project, run_id, *row))


def put_together(connection: psycopg.Connection[Any], project: str, rows: list[Row], run_id: str = RUN) -> None:
    """Insert rows by one statement, as a clone pushes them."""
    connection.execute(exchange.PUSH, (project, run_id, *map(list, zip(*rows, strict=True))))


def put_state(
    connection: psycopg.Connection[Any],
    project: str,
    content: str,
    at: str = "2026-01-05T14:30:22Z",
    *known_redactions: str,
    run_id: str = RUN,
) -> bool:
    """Put a run's state, as a clone that knows these redactions; return whether the server has taken it."""
    asked = (content, at, [*known_redactions], project, run_id)
    return connection.execute(PUT_STATE.encode(), asked).fetchone() == (True,)


def stored(database: Database, table: str = "event", login: Login | None = None) -> list[dict[str, Any]]:
    """Return all rows of a table in their order, or what a member sees of them."""
    order = "project, position" if table == "event" else "1, 2"
    question = QUESTIONS[table] if login else f"SELECT * FROM faber_ledger.{table} ORDER BY {order}"
    with database.connect(login) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(question.encode()).fetchall()


def as_row(found: dict[str, Any]) -> Row:
    """Return a row of the server as a ledger file has it."""
    return tuple(found[name] for name in COLUMNS)
