"""Positions: within a project they become visible in their order, however long writers hold their transactions open."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.sample_log import RUN
from support.server_rows import FIRST, SECOND, note, put, put_state

if TYPE_CHECKING:
    import psycopg
    from support.postgres import Database, Login

DEADLINE = 30  # seconds, after which a test fails instead of hanging
LEAVE = f"SELECT faber_ledger.expel('{FIRST}', session_user::name)"
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def alice(database: Database) -> Login:
    """A login with two projects."""
    login = database.login("alice")
    for project in (FIRST, SECOND):
        database.add_project(project, login)
    return login


def news(connection: psycopg.Connection[Any], last: int, project: str = FIRST) -> list[tuple[int, str]]:
    """Return positions and ids after a position, as a clone asks for them."""
    question = "SELECT position, id FROM faber_ledger.events_after(%s, %s, %s, 1000, 1000000)"
    return connection.execute(question, (project, RUN, last)).fetchall()


def await_blocked(database: Database, writer: threading.Thread) -> bool:
    """Wait until a writer waits for a lock; return whether it does, and has not ended instead."""
    with database.connect(autocommit=True) as watching:
        latest = time.monotonic() + DEADLINE
        while writer.is_alive() and time.monotonic() < latest:
            if watching.execute(BLOCKED).fetchone() == (1,):
                return True
    return False


@pytest.mark.parametrize("is_state", [True, False])
def test_a_later_position_waits_for_the_earlier_one(database: Database, alice: Login, is_state: bool) -> None:
    """Without that, a reader who has seen the later one would never ask for the earlier one again."""
    early, late = note("early"), note("late")

    def write() -> None:
        with database.connect(alice) as connection:
            put(connection, FIRST, late)

    with database.connect(alice) as slow, database.connect(alice, autocommit=True) as reader:
        if is_state:
            put_state(slow, FIRST, "{}")
        else:
            put(slow, FIRST, early)
        writer = threading.Thread(target=write)
        writer.start()
        assert await_blocked(database, writer)
        assert news(reader, 0) == []
        slow.commit()
        writer.join(DEADLINE)
        assert [name for _, name in news(reader, 0)] == [late[1]] if is_state else [early[1], late[1]]


def test_positions_are_counted_in_each_project_alone(database: Database, alice: Login) -> None:
    """One sequence for all would tell how much the others do."""
    with database.connect(alice) as connection:
        put(connection, FIRST, note("one"), note("two"))
        put(connection, SECOND, *[note(f"other {number}") for number in range(5)])
        put(connection, FIRST, note("three"))
        assert [position for position, _ in news(connection, 0)] == [1, 2, 3]


def test_a_writer_of_another_project_does_not_wait(database: Database, alice: Login) -> None:
    with database.connect(alice) as slow, database.connect(alice) as quick:
        quick.execute("SET lock_timeout = '10s'")
        put(slow, FIRST, note("slow"))
        put(quick, SECOND, note("quick"))
        quick.commit()
        assert len(news(quick, 0, SECOND)) == 1


def test_a_stranger_holds_no_project_up(database: Database, alice: Login) -> None:
    """Whoever may connect can take any advisory lock; a project's is its row's."""
    eve = database.login("eve")
    with database.connect(alice) as writer, database.connect(eve, autocommit=True) as stranger:
        put(writer, FIRST, note("one"))
        held = "SELECT classid, objid FROM pg_locks WHERE locktype = 'advisory'"
        assert stranger.execute(held).fetchall() == []
        writer.execute("SET lock_timeout = '10s'")
        stranger.execute("BEGIN")
        assert stranger.execute("SELECT id FROM faber_ledger.projects()").fetchall() == []
        assert news(stranger, 0) == []
        assert stranger.execute(LEAVE).fetchone() == (False,)
        put(writer, FIRST, note("two"))
        writer.commit()
        stranger.execute("ROLLBACK")


def test_who_holds_a_project_up_is_expelled_all_the_same(database: Database, alice: Login) -> None:
    ben = database.login("ben")
    with database.connect(alice, autocommit=True) as admin, database.connect(ben) as member:
        admin.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, ben.role])
        put(member, FIRST, note("held"))
        admin.execute("SET lock_timeout = '10s'")
        assert admin.execute("SELECT faber_ledger.expel(%s, %s)", [FIRST, ben.role]).fetchone() == (True,)
