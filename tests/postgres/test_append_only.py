"""What is stored stays as it is: no member can change it, and the owner only on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support.server_rows import FIRST, note, put, put_state, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.postgres import Database, Login

TABLES = ("project", "member", "clone", "invitation", "event", "state", "redaction", "removed")


@pytest.fixture
def alice(database: Database) -> Login:
    """A login with a project, and an event and a state in it."""
    login = database.login("alice")
    database.add_project(FIRST, login)
    with database.connect(login) as connection:
        put(connection, FIRST, note("one"))
        put_state(connection, FIRST, "{}")
    return login


def everything(database: Database) -> list[list[dict[str, Any]]]:
    return [stored(database, table) for table in TABLES]


def passing(
    database: Database, login: Login | None, error: type[psycopg.Error], statements: Iterable[str]
) -> list[str]:
    """Return which statements do not end with an error of this type."""
    passed = []
    for statement in statements:
        try:
            with database.connect(login) as connection:
                connection.execute(statement.encode())
        except error:
            continue
        passed.append(statement)
    return passed


def test_a_member_updates_deletes_and_truncates_nothing(database: Database, alice: Login) -> None:
    before = everything(database)
    statements = [
        statement.format(table)
        for table in TABLES
        for statement in ("DELETE FROM faber_ledger.{}", "TRUNCATE faber_ledger.{} CASCADE")
    ]
    statements += [f"UPDATE faber_ledger.{table} SET project = project" for table in TABLES if table != "project"]
    statements += ["UPDATE faber_ledger.project SET name = name"]
    assert passing(database, alice, psycopg.errors.InsufficientPrivilege, statements) == []
    assert everything(database) == before


CHANGES = (
    "UPDATE faber_ledger.event SET payload = 'x'",
    "UPDATE faber_ledger.event SET position = position + 1",
    "UPDATE faber_ledger.event SET hash = salt || salt",
    "DELETE FROM faber_ledger.event",
    "TRUNCATE faber_ledger.event",
    "DELETE FROM faber_ledger.project",
    "TRUNCATE faber_ledger.project CASCADE",
)


@pytest.mark.usefixtures("alice")
def test_triggers_stop_the_owner_too(database: Database) -> None:
    before = everything(database)
    assert passing(database, None, psycopg.errors.RestrictViolation, CHANGES) == []
    assert everything(database) == before


WRONG: tuple[dict[str, Any], ...] = (
    {"seq": 0},
    {"seq": 2**53 + 1},
    {"id": "01K0000000000000000000PRJI"},
    {"id": "refused-" + "0" * 64},
    {"type": "Note"},
    {"version": 0},
    {"version": 10**9},
    {"at": ""},
    {"writer": ""},
    {"writer": "w" * 4097},
    {"client": "c" * 4097},
    {"parents": bytes(31)},
    {"salt": bytes(15)},
    {"salt": None},
    {"payload": None},
    {"payload_hash": bytes(32)},
    {"payload": None, "salt": None, "payload_hash": bytes(31)},
    {"payload": "x" * (8 * 1024 * 1024 + 1)},
    {"hash": bytes(33)},
)


def test_a_row_that_no_ledger_writes_is_refused(database: Database, alice: Login) -> None:
    row, names = note("one"), list(stored(database)[0])[3:16]
    with database.connect(alice, autocommit=True) as connection:
        for change in WRONG:
            changed = tuple(change.get(name, value) for name, value in zip(names, row, strict=True))
            with pytest.raises(psycopg.errors.CheckViolation):
                put(connection, FIRST, changed)
        for run_id in ("", "/a", "a//b", "a/b/c/d", "../a", "a b", "é", "a" * 256, "a\n"):
            with pytest.raises(psycopg.errors.CheckViolation):
                put(connection, FIRST, row, run_id=run_id)
