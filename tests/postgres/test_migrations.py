"""The server's migrations: by a superuser and by the database's owner."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from support.command import COMMAND, run_command
from support.postgres import VERSION, Cluster, Login, fresh_database, started_server
from support.server_rows import FIRST, note, put, redaction_of, stored
from support.sizes import few

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.redaction import without_payload
from faber_ledger.migrations.upgrade import list_revisions
from faber_ledger.postgres.server import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres import Database


OWNERS = """\
SELECT DISTINCT proowner::regrole::text FROM pg_proc
WHERE pronamespace = 'faber_ledger'::regnamespace AND prosecdef"""
GRANTED = """\
SELECT table_name, privilege_type FROM information_schema.role_table_grants
WHERE table_schema = 'faber_ledger' AND grantee IN ('faber_ledger_member', 'PUBLIC')"""
TO_PUBLIC = """\
SELECT proname FROM pg_proc WHERE pronamespace = 'faber_ledger'::regnamespace
  AND has_function_privilege('public', oid, 'EXECUTE')"""


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server of its own, without our roles until a test makes them."""
    with started_server() as started:
        yield Cluster(started.url())


@pytest.fixture
def empty(server: Cluster) -> Iterator[Database]:
    with fresh_database(server, is_upgraded=False) as database:
        yield database


def owner_of(database: Database, attributes: Any = "CREATEROLE") -> Login:
    """Return a login that owns the database, and is no superuser."""
    owner = database.login("owner", attributes)
    database.cluster.run(
        sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(database.name), sql.Identifier(owner.role))
    )
    return owner


def ask_nothing(database: Database, statements: str, login: Login) -> None:
    with database.connect(login) as connection:
        connection.execute(statements.encode())


def ask(database: Database, question: str, login: Login | None = None) -> list[tuple[Any, ...]]:
    with database.connect(login) as connection:
        return connection.execute(question.encode()).fetchall()


def check_works(database: Database, member: Login) -> None:
    """Let a member push, redact and be refused, as the other tests do in detail."""
    target = note("secret")
    redaction = redaction_of(target[1])
    database.add_project(FIRST, member)
    with database.connect(member) as connection:
        put(connection, FIRST, target, redaction)
    rows = stored(database, login=member)
    assert [row["hash"] for row in rows] == [target[-1], redaction[-1]]
    assert rows[0]["payload_hash"] == without_payload(target)[11]
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.connect(member) as connection:
        connection.execute("DELETE FROM faber_ledger.event")
    assert ask(database, OWNERS) == [(database.keeper,)]
    assert ask(database, GRANTED) == [("alembic_version", "SELECT")]
    assert ask(database, TO_PUBLIC) == []


def forget_roles(database: Database) -> None:
    """Drop our roles from the server, as on one that never had them."""
    keeper = database.cluster.keeper_of(database.name)
    database.cluster.drop_database(database.name)
    for role in ("faber_ledger_member", *keeper):
        database.cluster.run(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


def test_a_superuser_upgrades(empty: Database) -> None:
    empty.cluster.upgrade(empty.admin_url)
    check_works(empty, empty.login())
    forget_roles(empty)


def test_an_upgrading_owner_keeps_no_right_of_the_keepers(empty: Database) -> None:
    owner = owner_of(empty)
    empty.cluster.upgrade(empty.admin_url.set(username=owner.role, password=owner.password))
    member = empty.login(attributes="")
    with empty.connect(owner) as connection:
        connection.execute(sql.SQL("GRANT faber_ledger_member TO {}").format(sql.Identifier(member.role)))
    check_works(empty, member)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(empty, f"SET ROLE {empty.keeper}", owner)
    # The owner admits, sees everything, and is stopped by the triggers alone.
    with empty.connect(owner) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, owner.role])
    assert len(stored(empty, login=owner)) == 2
    with pytest.raises(psycopg.errors.RestrictViolation), empty.connect(owner) as connection:
        connection.execute("DELETE FROM faber_ledger.event")
    # Again, as after the next release, which finds everything.
    empty.cluster.upgrade(empty.admin_url.set(username=owner.role, password=owner.password))
    # A second database of the same owner has the roles already.
    with fresh_database(empty.cluster, is_upgraded=False) as second:
        name = sql.Identifier(second.name)
        empty.cluster.run(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, sql.Identifier(owner.role)))
        second.cluster.upgrade(second.admin_url.set(username=owner.role, password=owner.password))
        check_works(second, member)
    forget_roles(empty)


def test_an_owner_without_the_roles_learns_what_is_missing(empty: Database) -> None:
    owner = owner_of(empty, "")
    url = empty.admin_url.set(username=owner.role, password=owner.password)
    with pytest.raises(psycopg.Error, match="permission denied to create role"):
        empty.cluster.upgrade(url)
    empty.cluster.run(sql.SQL("ALTER ROLE {} CREATEROLE").format(sql.Identifier(owner.role)))
    with fresh_database(empty.cluster, is_upgraded=False) as other:
        other.cluster.upgrade(other.admin_url)  # makes the roles
        if VERSION >= 16:  # before, who may create roles may grant any
            with pytest.raises(psycopg.Error, match="may not grant the role") as raised:
                empty.cluster.upgrade(url)
            statement = (raised.value.diag.message_hint or "").partition("runs: ")[2]
            empty.cluster.run(sql.SQL(statement))
        empty.cluster.upgrade(url)
        check_works(empty, empty.login())
    forget_roles(empty)


def test_an_upgrade_that_fails_leaves_nothing_behind(empty: Database) -> None:
    with empty.connect() as connection:
        connection.execute("CREATE SCHEMA faber_ledger")
        connection.execute("CREATE TABLE faber_ledger.redaction ()")  # in the way of the last table
    with pytest.raises(psycopg.Error, match="already exists"):
        empty.cluster.upgrade(empty.admin_url)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'faber_ledger'::regnamespace AND relkind IN ('r', 'S')"
    assert ask(empty, tables) == [("redaction",)]


@pytest.mark.long
@pytest.mark.parametrize("attribute", few(["SUPERUSER", "LOGIN", "BYPASSRLS", "CREATEROLE"], 1))
def test_a_role_of_our_name_that_may_do_more_is_not_used(empty: Database, attribute: str) -> None:
    empty.cluster.run(sql.SQL(f"CREATE ROLE {empty.keeper} {attribute}"))
    try:
        with pytest.raises(psycopg.Error, match="may do more"):
            empty.cluster.upgrade(empty.admin_url)
    finally:
        forget_roles(empty)


def test_a_keeper_that_somebody_has_let_himself_into_is_not_used(empty: Database) -> None:
    """Its oid is no secret, so whoever may create roles could make it before the upgrade."""
    stranger = empty.login("stranger", "CREATEROLE")
    keeper = sql.Identifier(empty.keeper)
    with empty.connect(stranger) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(keeper))
        connection.execute(sql.SQL("GRANT {} TO {}").format(keeper, sql.Identifier(stranger.role)))
    with pytest.raises(psycopg.Error, match="somebody is in it"):
        empty.cluster.upgrade(empty.admin_url)
    forget_roles(empty)


def as_superuser(database: Database, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command for a superuser of the server."""
    environment = {**os.environ, "FABER_LEDGER_URL": database.admin}
    return run_command([COMMAND, *words], env=environment, capture_output=True, text=True)


def test_a_superuser_runs_no_code_of_a_lesser_owner(empty: Database) -> None:
    """Who owns the schema can replace what is in it: an upgrade, or its tables' statistics, would run that."""
    owner = owner_of(empty)
    ask_nothing(empty, "CREATE SCHEMA faber_ledger", owner)
    done = as_superuser(empty, "db", "upgrade")
    assert (done.returncode, f"belongs to {owner.role}" in done.stderr) == (14, True)
    assert ask(empty, "SELECT relname FROM pg_class WHERE relnamespace = 'faber_ledger'::regnamespace") == []
    with pytest.raises(LedgerError, match=f"belongs to the role {owner.role}"):
        empty.cluster.upgrade(empty.admin_url)
    empty.cluster.upgrade(empty.admin_url.set(username=owner.role, password=owner.password))
    ask_nothing(
        empty,
        "CREATE FUNCTION faber_ledger.make_super() RETURNS varchar LANGUAGE plpgsql AS"
        f" $$ BEGIN ALTER ROLE {owner.role} SUPERUSER; RETURN '0001'; END $$;"
        " ALTER TABLE faber_ledger.alembic_version RENAME TO old;"
        " CREATE VIEW faber_ledger.alembic_version AS SELECT faber_ledger.make_super() AS version_num",
        owner,
    )
    for words in (("db", "upgrade"), ("fleet",), ("search", "x")):
        done = as_superuser(empty, *words)
        assert (done.returncode, f"hint: run it as {owner.role}" in done.stderr) == (14, True)
    assert ask(empty, f"SELECT rolsuper FROM pg_roles WHERE rolname = '{owner.role}'") == [(False,)]
    forget_roles(empty)


def test_an_owner_of_another_database_is_nobody_here(empty: Database) -> None:
    """Roles belong to the whole server: whoever has made one may let himself into it."""
    owner = owner_of(empty)
    empty.cluster.upgrade(empty.admin_url.set(username=owner.role, password=owner.password))
    with fresh_database(empty.cluster, is_upgraded=False) as second:
        second.cluster.upgrade(second.admin_url)
        check_works(second, second.login())
        tried = (
            *([f"GRANT {second.keeper} TO {owner.role}"] if VERSION >= 16 else []),  # as the guide for servers says
            "SELECT FROM faber_ledger.event",
            f"SELECT faber_ledger.admit('{FIRST}', session_user::name)",
        )
        for statement in tried:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ask(second, statement, owner)
    forget_roles(empty)


# The server's schema: the program knows each of its revisions.


def test_the_program_knows_every_revision() -> None:
    assert tuple(list_revisions()) == REVISIONS
