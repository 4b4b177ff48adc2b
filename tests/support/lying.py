"""A server that lies: a superuser has replaced a function that members ask."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres import Database

FIND = "SELECT p.oid::regprocedure::text, pg_get_function_identity_arguments(p.oid), p.pronargs FROM pg_proc AS p"
EVENTS = "events_after", "events_with_ids"


@contextmanager
def lying(database: Database, answer: str, *functions: str) -> Iterator[None]:
    """Let functions answer what a query does, in which `honest` is the true one's answer, and at the end the truth."""
    undo = []
    with database.connect() as connection:
        for function in functions:
            found = connection.execute(
                f"{FIND} WHERE pronamespace = 'faber_ledger'::regnamespace AND proname = '{function}'".encode()
            ).fetchall()
            for signature, said, count in found:
                arguments = ", ".join([one for one in said.split(", ") if not one.startswith("OUT ")])
                honest = signature.replace(f"{function}(", f"honest_{function}(")
                values = ", ".join([f"${number}" for number in range(1, count + 1)])
                asked = f"faber_ledger.honest_{function}({values}) AS honest"
                query = answer.replace("FROM honest", f"FROM {asked}")
                kind = f"faber_ledger.answer_of_{function}_{count}"
                columns = query.replace(values, ", ".join(_nulls(arguments))) if count else query
                statements = [
                    f"ALTER FUNCTION {signature} RENAME TO honest_{function}",
                    f"CREATE VIEW {kind} AS {columns}",
                    f"CREATE FUNCTION faber_ledger.{function}({arguments}) RETURNS SETOF {kind} LANGUAGE sql"
                    f" SECURITY DEFINER AS $$ {query} $$",
                    f"GRANT EXECUTE ON FUNCTION {signature} TO PUBLIC",
                ]
                for statement in statements:
                    connection.execute(statement.encode())
                undo += [
                    f"DROP FUNCTION {signature}",
                    f"DROP VIEW {kind}",
                    f"ALTER FUNCTION {honest} RENAME TO {function}",
                ]
    try:
        yield
    finally:
        with database.connect() as connection:
            for statement in undo:
                connection.execute(statement.encode())


def events_with(**changed: str) -> str:
    """Return a query of the events of an answer, with columns changed, each to an expression."""
    columns = ("position", "seq", "id", "type", "version", "at", "writer", "session_id", "client", "parents", "salt")
    return "SELECT {} FROM honest".format(
        ", ".join([f"{changed.get(name, name)} AS {name}" for name in (*columns, "payload", "payload_hash", "hash")])
    )


def _nulls(arguments: str) -> list[str]:
    return [f"NULL::{one.split(' ', 1)[1]}" for one in arguments.split(", ")]
