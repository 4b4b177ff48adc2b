"""Two logins that must not see each other's projects: what one tries against the other's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from support.sample_log import RUN
from support.server_rows import FIRST, NOWHERE, SECOND, note, put, put_document, redaction_of, stored

from faber_ledger.postgres.tables import notification_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.postgres import Database, Login

    from faber_ledger.ledger.row import Row

Refused = psycopg.errors.InsufficientPrivilege
SECRET = "the treasure is under the oak"


class Two:
    """Alice with the first project and an event in it, and Eve with the second."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.alice, self.eve = database.login("alice"), database.login("eve")
        self.secret = note(SECRET)
        for login, project, row in ((self.alice, FIRST, self.secret), (self.eve, SECOND, note("mine"))):
            with database.connect(login) as connection:
                connection.execute("SELECT faber_ledger.register_project(%s, 'app')", [project])
                put(connection, project, row)
                put_document(connection, project, f"{{}}{project}")

    def tries(self, *statements: str | sql.Composed, login: Login | None = None) -> Any:
        """Let Eve run statements in one transaction; return the last one's rows."""
        with self.database.connect(login or self.eve) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode() if isinstance(statement, str) else statement)
            return cursor.fetchall() if cursor.description else None

    def of_alice(self) -> list[list[dict[str, Any]]]:
        """Return everything of the first project."""
        tables = ("event", "document", "member", "redaction")
        return [[row for row in stored(self.database, table) if row["project"] == FIRST] for table in tables]


@pytest.fixture
def two(database: Database) -> Two:
    return Two(database)


@pytest.mark.parametrize("table", ["event", "document", "member"])
def test_a_login_sees_its_own_rows_alone(two: Two, table: str) -> None:
    assert {row["project"] for row in stored(two.database, table, two.eve)} == {SECOND}
    assert two.tries(f"SELECT count(*) FROM faber_ledger.{table} WHERE project = '{FIRST}'") == [(0,)]
    assert two.tries("SELECT id FROM faber_ledger.project") == [(SECOND,)]


@pytest.mark.parametrize(
    "statement",
    [
        "COPY faber_ledger.event TO STDOUT",
        "COPY (SELECT * FROM faber_ledger.event) TO STDOUT",
    ],
)
def test_a_copy_has_no_more_than_a_query(two: Two, statement: str) -> None:
    with two.database.connect(two.eve) as connection, connection.cursor().copy(statement.encode()) as copy:
        said = b"".join(bytes(piece) for piece in copy)
    assert (b"mine" in said, SECRET.encode() in said) == (True, False)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM faber_ledger.redaction",
        "SELECT last_value FROM faber_ledger.position_number",
        "SELECT nextval('faber_ledger.position_number')",
        "SELECT setval('faber_ledger.position_number', 1)",
        f"INSERT INTO faber_ledger.member VALUES ('{FIRST}', session_user, true)",
        "UPDATE faber_ledger.member SET is_admin = true",
        f"INSERT INTO faber_ledger.project (id, name) VALUES ('{NOWHERE}', 'x')",
        f"INSERT INTO faber_ledger.redaction VALUES ('{FIRST}', '{RUN}', 'x', 'y', false)",
        "SELECT * FROM faber_ledger.project FOR UPDATE",
        "SELECT * FROM faber_ledger.event FOR SHARE",
        "LOCK faber_ledger.event IN EXCLUSIVE MODE",
        f"SELECT faber_ledger.admit('{FIRST}', session_user::name)",
        f"SELECT faber_ledger.admit('{FIRST}', session_user::name, true)",
        f"SELECT faber_ledger.expel('{FIRST}', 'postgres')",
        f"SELECT faber_ledger.register_project('{FIRST}', 'x')",
        "SELECT faber_ledger.is_owner()",
        f"SELECT faber_ledger.is_project_admin('{FIRST}')",
        f"SELECT faber_ledger.may_insert('{FIRST}')",
        "CREATE TABLE faber_ledger.mine ()",
        "CREATE FUNCTION faber_ledger.my_projects(int) RETURNS text LANGUAGE sql AS 'SELECT 1'",
        "CREATE POLICY mine ON faber_ledger.event USING (true)",
        "ALTER TABLE faber_ledger.event DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE faber_ledger.event DISABLE TRIGGER ALL",
        "CREATE TEMPORARY TABLE t (LIKE faber_ledger.event); "
        "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION faber_ledger.apply_redaction()",
        "SET ROLE faber_ledger_keeper",
        "SET session_replication_role = replica",
    ],
)
def test_what_goes_around_the_policies_is_refused(two: Two, statement: str) -> None:
    before = two.of_alice()
    with pytest.raises(Refused):
        two.tries(*statement.split("; "))
    assert two.of_alice() == before


def test_with_row_security_off_a_query_is_refused_rather_than_answered(two: Two) -> None:
    with pytest.raises(Refused):
        two.tries("SET row_security = off", "SELECT * FROM faber_ledger.event")


def test_nobody_becomes_another_login(two: Two) -> None:
    for role in (two.alice.role, "faber_ledger_keeper"):
        for word in ("ROLE", "SESSION AUTHORIZATION"):
            with pytest.raises(Refused):
                two.tries(sql.SQL(f"SET {word} {{}}").format(sql.Identifier(role)))
    # What a login may become shows it no more: its projects are those of the login.
    found = two.tries("SET ROLE faber_ledger_member", "SELECT DISTINCT project FROM faber_ledger.event")
    assert found == [(SECOND,)]


def test_nothing_is_inserted_into_a_project_of_others(two: Two) -> None:
    before = two.of_alice()
    with two.database.connect(two.eve) as connection:
        with pytest.raises(Refused), connection.transaction():
            put(connection, FIRST, note("forged"))
        with pytest.raises(Refused), connection.transaction():
            put_document(connection, FIRST, "forged")
    assert two.of_alice() == before


def test_who_is_refused_has_waited_for_no_lock_and_taken_none(two: Two) -> None:
    """A lock that a refused push takes would be kept for as long as its login does not read the answer."""
    with two.database.connect(two.alice) as pushing, two.database.connect(two.eve) as connection:
        put(pushing, FIRST, note("the project's lock is held"))
        connection.execute("SET lock_timeout = '100ms'")
        forgeries: list[Callable[[], object]] = [
            lambda: put(connection, FIRST, note("forged")),
            lambda: put_document(connection, FIRST, "forged"),
        ]
        for forge in forgeries:
            with pytest.raises(Refused), connection.transaction():
                forge()
            assert connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)


def errors_of(two: Two, project: str, row: Row) -> tuple[str | None, str | None]:
    with two.database.connect(two.eve) as connection:
        try:
            put(connection, project, row)
        except psycopg.Error as error:
            connection.rollback()
            return error.sqlstate, error.diag.message_primary
    return None, None


def test_guessing_ids_tells_nothing(two: Two) -> None:
    """The same answer for an event that is there, one that is not, and a project that nobody has."""
    answers = {errors_of(two, project, row) for project in (FIRST, NOWHERE) for row in (two.secret, note("new"))}
    assert answers == {("42501", 'new row violates row-level security policy for table "event"')}
    with pytest.raises(Refused) as of_others:
        two.tries(f"SELECT faber_ledger.admit('{FIRST}', 'postgres')")
    with pytest.raises(Refused) as of_nobody:
        two.tries(f"SELECT faber_ledger.admit('{NOWHERE}', 'postgres')")
    assert of_others.value.diag.message_primary == of_nobody.value.diag.message_primary


def test_a_redaction_and_a_document_reach_into_no_other_project(two: Two) -> None:
    before = two.of_alice()
    (document,) = [row["id"] for row in stored(two.database, "document") if row["project"] == FIRST]
    with two.database.connect(two.eve) as connection:
        put(connection, SECOND, redaction_of(two.secret[1]))
        put_document(connection, SECOND, "newer", document)
    assert two.of_alice() == before


def test_temporary_tables_and_functions_stand_in_nobodys_way(two: Two) -> None:
    """What is not qualified is looked for in a session's own schema first, even by functions with other rights."""
    before = two.of_alice()
    shadows = [
        f"CREATE TEMPORARY TABLE member AS SELECT '{FIRST}'::text AS project, session_user AS role, true AS is_admin",
        f"CREATE TEMPORARY TABLE project AS SELECT '{FIRST}'::text AS id, 'x' AS name",
        f"CREATE TEMPORARY TABLE redaction AS SELECT '{SECOND}'::text AS project, '{RUN}'::text AS run_id",
        "CREATE TEMPORARY TABLE pg_roles AS SELECT 'x'::name AS rolname, 10::oid AS oid",
        "CREATE TEMPORARY TABLE pg_namespace AS SELECT session_user::regrole::oid AS nspowner, 'x'::name AS nspname",
        "CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        f"CREATE FUNCTION pg_temp.my_projects() RETURNS SETOF text LANGUAGE sql AS $$ VALUES ('{FIRST}') $$",
        "GRANT ALL ON member, project, redaction, pg_roles, pg_namespace TO PUBLIC",
        "SET search_path = pg_temp, pg_catalog, faber_ledger",
    ]
    assert two.tries(*shadows, "SELECT DISTINCT project FROM faber_ledger.event") == [(SECOND,)]
    for statement in (
        f"SELECT faber_ledger.admit('{FIRST}', session_user::name)",
        f"SELECT faber_ledger.register_project('{FIRST}', 'x')",
    ):
        with pytest.raises(Refused):
            two.tries(*shadows, statement)
    with two.database.connect(two.eve) as connection:
        for statement in shadows:
            connection.execute(statement.encode())
        put(connection, SECOND, note("as ever"))
    assert two.of_alice() == before


def test_operators_of_a_users_own_schema_change_no_function(two: Two) -> None:
    with two.database.connect() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA evil AUTHORIZATION {}").format(sql.Identifier(two.eve.role)))
    shadows = [
        "CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE FUNCTION evil.yes(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text)",
        "CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = name, RIGHTARG = name)",
        "CREATE FUNCTION evil.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "GRANT USAGE ON SCHEMA evil TO PUBLIC",
        "SET search_path = evil, pg_catalog",
    ]
    assert two.tries(*shadows, "SELECT DISTINCT project FROM faber_ledger.event ORDER BY 1") == [(SECOND,)]


def test_a_function_in_a_condition_is_shown_no_row_of_others(two: Two) -> None:
    """A cheap function would be called first, were the policies not a barrier."""
    heard: list[str] = []
    with two.database.connect(two.eve) as connection:
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        connection.execute(
            "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS"
            " $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        connection.execute("SELECT count(*) FROM faber_ledger.event WHERE pg_temp.leak(payload)")
    assert any("mine" in one for one in heard)
    assert not any(SECRET in one for one in heard)


def test_the_planners_statistics_are_not_shown(two: Two) -> None:
    with two.database.connect() as connection:
        connection.execute("ANALYZE faber_ledger.event")
        (count,) = connection.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'event'").fetchone() or (0,)
        assert count > 0
    assert two.tries("SELECT count(*) FROM pg_stats WHERE schemaname = 'faber_ledger'") == [(0,)]


def test_who_listens_learns_no_project_of_others(two: Two) -> None:
    with two.database.connect(two.eve, autocommit=True) as listening:
        listening.execute("LISTEN faber_ledger")
        with two.database.connect(two.alice) as connection:
            put(connection, FIRST, note("news"))
        (heard,) = listening.notifies(timeout=10, stop_after=1)
    assert (heard.payload, FIRST in heard.payload) == (notification_of(FIRST), False)


def test_a_group_is_admitted_for_its_members_while_they_are(two: Two) -> None:
    database = two.database
    group = database.login("group", "")
    with database.connect() as connection:
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group.role), sql.Identifier(two.eve.role)))
    with database.connect(two.alice) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, group.role])
    assert {row["project"] for row in stored(database, "event", two.eve)} == {FIRST, SECOND}
    with pytest.raises(Refused):  # no admin by that
        two.tries(f"SELECT faber_ledger.admit('{FIRST}', session_user::name)")
    with database.connect() as connection:
        connection.execute(
            sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(group.role), sql.Identifier(two.eve.role))
        )
    assert {row["project"] for row in stored(database, "event", two.eve)} == {SECOND}


@pytest.mark.parametrize("role", ["faber_ledger_member", "faber_ledger_keeper"])
def test_everybody_at_once_is_admitted_by_nobody(two: Two, role: str) -> None:
    for login in (two.alice, None):
        with pytest.raises(Refused, match="everybody"), two.database.connect(login) as connection:
            connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, role])
    assert {row["project"] for row in stored(two.database, "event", two.eve)} == {SECOND}


def test_whoever_was_admitted_may_leave(two: Two) -> None:
    for as_admin in (False, True):
        with two.database.connect(two.alice) as connection:
            connection.execute("SELECT faber_ledger.admit(%s, %s, %s)", [FIRST, two.eve.role, as_admin])
        assert {row["project"] for row in stored(two.database, "event", two.eve)} == {FIRST, SECOND}
        assert two.tries(f"SELECT faber_ledger.expel('{FIRST}', session_user::name)") == [(True,)]
        assert {row["project"] for row in stored(two.database, "event", two.eve)} == {SECOND}
    assert two.tries(f"SELECT faber_ledger.expel('{FIRST}', session_user::name)") == [(False,)]
    with pytest.raises(Refused):
        two.tries(f"SELECT faber_ledger.expel('{FIRST}', '{two.alice.role}')")


def test_a_member_whose_role_was_dropped_stops_nobody(two: Two) -> None:
    database = two.database
    gone = database.login("gone")
    with database.connect(two.alice) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, gone.role])
    with database.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(gone.role)))
    assert {row["project"] for row in stored(database, "event", two.alice)} == {FIRST}


def test_who_was_expelled_sees_and_adds_nothing_more(two: Two) -> None:
    with two.database.connect(two.alice) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, two.eve.role])
    with two.database.connect(two.eve) as connection:
        assert connection.execute("SELECT count(DISTINCT project) FROM faber_ledger.event").fetchone() == (2,)
        connection.commit()
        with two.database.connect(two.alice) as admin:
            admin.execute("SELECT faber_ledger.expel(%s, %s)", [FIRST, two.eve.role])
        assert connection.execute("SELECT count(DISTINCT project) FROM faber_ledger.event").fetchone() == (1,)
        with pytest.raises(Refused):
            put(connection, FIRST, note("late"))
        connection.rollback()


def test_a_policy_is_asked_once_per_query(two: Two) -> None:
    with two.database.connect(two.eve) as connection:
        question = "EXPLAIN (ANALYZE, FORMAT TEXT) SELECT * FROM faber_ledger.event WHERE project = %s"
        plan = "\n".join(line for (line,) in connection.execute(question, [SECOND]))
    assert "hashed SubPlan" in plan
