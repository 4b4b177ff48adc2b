"""An open server: what is checked at the start, and what the driver's errors become."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from support.postgres import started_server

from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError, NewerFormat
from faber_ledger.postgres.address import find_address
from faber_ledger.postgres.server import open_server

if TYPE_CHECKING:
    from support.postgres import Cluster, Database

    from faber_ledger.postgres.address import Address
    from faber_ledger.postgres.server import Server


def address_of(url: str) -> Address:
    return find_address(None, {"FABER_LEDGER_URL": url}, None, "")


def run(server: Server, *statements: str) -> None:
    """Run statements in one transaction."""
    with server.transaction() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_no_statement_is_prepared_on_the_server(database: Database) -> None:
    """A pooler that lends a connection for one transaction would lose it, or have it twice."""
    with open_server(address_of(database.url(database.login()))) as server:
        for _ in range(20):
            with server.transaction() as connection:
                found = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql")
                assert found.fetchone() == (0,)


def test_a_missing_database_is_named_in_the_servers_words(cluster: Cluster) -> None:
    url = cluster.admin.set(database="no_such_ledger").render_as_string(hide_password=False)
    with (
        pytest.raises(ServerUnavailable, match='"no_such_ledger" does not exist') as raised,
        open_server(address_of(url)),
    ):
        pass
    assert "that the server runs" in raised.value.hint


def test_a_role_without_the_right_is_told_which_role_it_lacks(database: Database) -> None:
    address = address_of(database.url(database.login(attributes="")))
    with pytest.raises(ServerRefused, match="may not use the schema") as raised, open_server(address):
        pass
    assert "faber_ledger_member" in raised.value.hint


def test_a_missing_or_older_schema_names_the_upgrade(database: Database) -> None:
    address = address_of(database.admin)
    with database.connect() as connection:
        connection.execute("UPDATE faber_ledger.alembic_version SET version_num = '0000'")
    with pytest.raises(NewerFormat, match="0000") as newer, open_server(address):
        pass
    assert "upgrade faber-ledger on this machine" in newer.value.hint
    with database.connect() as connection:
        connection.execute("DELETE FROM faber_ledger.alembic_version")
    with pytest.raises(ServerRefused, match="revision none") as raised, open_server(address):
        pass
    assert "faber-ledger db upgrade" in raised.value.hint
    with database.connect() as connection:
        connection.execute("DROP SCHEMA faber_ledger CASCADE")
    with pytest.raises(ServerRefused, match="no schema of faber-ledger") as raised, open_server(address):
        pass
    assert "faber-ledger db upgrade" in raised.value.hint
    with open_server(address, has_schema=False) as server, server.transaction() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_hangs_is_given_up() -> None:
    """No time-out of TCP or of the server ends that: whoever is between the two may answer for it."""
    with (
        started_server() as hanging,
        open_server(address_of(str(hanging.url())), has_schema=False, patience=1.0) as server,
    ):
        with server.transaction() as connection:
            (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(ServerUnavailable, match="has not answered for 1 s"):
                run(server, "SELECT 1")
            run(server, "SELECT 1")  # over a new connection
        finally:
            os.kill(backend, signal.SIGCONT)


@pytest.mark.long(alone=True)
def test_a_slow_or_quiet_server_is_not_given_up(database: Database) -> None:
    with open_server(address_of(database.admin), patience=1.0) as server:
        with server.transaction() as connection:
            # Something is heard in between, as from a long query.
            rows = connection.execute("SELECT pg_sleep(0.4), repeat('x', 9000) FROM generate_series(1, 4)")
            assert len(rows.fetchall()) == 4
        with server.transaction() as connection:
            assert list(connection.notifies(timeout=1.5)) == []


def test_a_row_that_is_refused_is_not_repeated_in_the_error(database: Database) -> None:
    with open_server(address_of(database.admin)) as server:
        with pytest.raises(ServerRefused) as raised, server.transaction() as connection:
            connection.execute(
                "INSERT INTO faber_ledger.project (id, name) VALUES (%s, %s)", ["not-a-ulid", "my-secret-name"]
            )
        assert "my-secret-name" not in f"{raised.value} {raised.value.hint}"


def test_a_database_of_another_encoding_is_refused(database: Database) -> None:
    name = f"{database.name}_latin"
    with database.connect(autocommit=True) as connection:
        statement = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        connection.execute(statement.encode())
    try:
        url = database.admin_url.set(database=name).render_as_string(hide_password=False)
        with pytest.raises(LedgerError, match="LATIN1"), open_server(address_of(url), has_schema=False):
            pass
    finally:
        database.cluster.drop_database(name)
