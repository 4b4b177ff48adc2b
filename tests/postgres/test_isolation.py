"""Two logins that must not see each other's projects: what one tries against the other's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from support.postgres import Database
from support.sample_log import RUN
from support.server_rows import FIRST, NOWHERE, SECOND, note, put, put_state, redaction_of, row_of, stored

from faber_ledger.postgres.server import notification_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from support.postgres import Login

    from faber_ledger.ledger.encoding import Row

MINE = "SELECT id FROM faber_ledger.projects()"
QUESTION = "events_after('{}', '{}', 0, 1000, 1000000)"
CALLABLE = """\
SELECT DISTINCT proname FROM pg_proc
WHERE pronamespace = 'faber_ledger'::regnamespace AND has_function_privilege(oid, 'EXECUTE')"""
Refused = psycopg.errors.InsufficientPrivilege
SECRET = "the treasure is under the oak"


class Two:
    """Alice with the first project and an event in it, and Eve with the second."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.alice, self.eve = database.login("alice"), database.login("eve")
        self.secret = note(SECRET)
        self.session = row_of({"type": "session_ended", "reason": "normal", "phase": None, "step": None})
        for login, project, row in ((self.alice, FIRST, self.secret), (self.eve, SECOND, note("mine"))):
            database.add_project(project, login)
            with database.connect(login) as connection:
                put(connection, project, row)
                put_state(connection, project, f"{{}}{project}")

    @property
    def keeper(self) -> str:
        """The role that owns the functions."""
        with self.database.connect() as connection:
            ((name,),) = connection.execute(
                "SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'my_projects'"
            ).fetchall()
        return str(name)

    def tries(self, *statements: str | sql.Composed, login: Login | None = None) -> Any:
        """Let Eve run statements in one transaction; return the last one's rows."""
        with self.database.connect(login or self.eve) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode() if isinstance(statement, str) else statement)
            return cursor.fetchall() if cursor.description else None

    def may_run(self, attacks: Iterable[str]) -> list[str]:
        """Return which of these statements, or several with `; ` between them, are not refused to Eve."""
        allowed = []
        for attack in attacks:
            try:
                self.tries(*attack.split("; "))
            except Refused:
                continue
            allowed.append(attack)
        return allowed

    def of_alice(self) -> list[list[dict[str, Any]]]:
        """Return everything of the first project."""
        tables = ("event", "state", "member", "redaction")
        return [[row for row in stored(self.database, table) if row["project"] == FIRST] for table in tables]


@pytest.fixture
def two(database: Database) -> Two:
    return Two(database)


@pytest.mark.parametrize("table", ["event", "state", "member"])
def test_a_login_sees_its_own_rows_alone(two: Two, table: str) -> None:
    assert {row["project"] for row in stored(two.database, table, two.eve)} == {SECOND}
    assert two.tries(MINE) == [(SECOND,)]


# Each question of a member, with arguments that find something in the first project for a member of it.
ABOUT_FIRST = (
    f"members('{FIRST}')",
    f"newest_event('{FIRST}')",
    f"newest_event('{FIRST}', '{RUN}')",
    f"runs_with_news('{FIRST}', 0, 1000)",
    f"events_after('{FIRST}', '{RUN}', 0, 1000, 1000000)",
    f"events_with_ids('{FIRST}', '{RUN}', ARRAY['EVENT'], 0, 1000, 1000000)",
    f"state_of('{FIRST}', '{RUN}')",
    f"newest_of_runs('{FIRST}')",
    f"session_events('{FIRST}', ARRAY['{RUN}'])",
    f"who_brought('{FIRST}', ARRAY['{RUN}'], ARRAY['EVENT'])",
    f"newest_states('{FIRST}', ARRAY['{RUN}'])",
    f"find_events(ARRAY['treasure'], ARRAY['{FIRST}'], NULL, NULL, NULL, NULL, 10)",
    f"find_states(ARRAY['glade'], ARRAY['{FIRST}'], NULL, NULL, NULL, NULL, 10)",
)
SINGLE = {  # what each answers to somebody else, of those that always answer one row
    f"has_event('{FIRST}', 1, 'EVENT')": False,
    f"count_events('{FIRST}', '{RUN}', 0)": 0,
}


def test_each_question_about_a_project_of_others_finds_nothing(two: Two) -> None:
    redacted = redaction_of(two.session[1])
    with two.database.connect(two.alice) as connection:
        put(connection, FIRST, two.session, redacted)
        put_state(connection, FIRST, '{"status": "in the glade"}', "", redacted[1])
        connection.execute("SELECT faber_ledger.claim_clone(%s, 'w')", [FIRST])
        connection.commit()
        for question in (*ABOUT_FIRST, *SINGLE):
            asked = f"SELECT * FROM faber_ledger.{question}".replace("EVENT", two.secret[1])
            of_alice, found = connection.execute(asked.encode()).fetchall(), two.tries(asked)
            assert of_alice not in ([], found), question
            assert found == ([(SINGLE[question],)] if question in SINGLE else []), question


def test_every_function_that_a_member_may_call_is_tried_here(two: Two) -> None:
    """A question that is added, and not asked above, fails this."""
    callable_now = {name for (name,) in two.tries(CALLABLE)}
    others = {"projects", "admit", "accept_invitation", *CHANGING, "expel", "push_events", "put_state", "tell_readers"}
    assert callable_now == others | {question.partition("(")[0] for question in (*ABOUT_FIRST, *SINGLE)}


CHANGING = {
    "invite": "session_user::name, true",
    "claim_clone": "'w'",
    "give_clone": "'w', session_user::name",
    "restore_event": "'x'",
    "purge_event": "'x'",
}


def test_nothing_is_changed_in_a_project_of_others(two: Two) -> None:
    asked = [f"SELECT faber_ledger.{name}('{FIRST}', {rest})" for name, rest in CHANGING.items()]
    assert two.may_run(asked) == []


READS = (
    "SELECT FROM faber_ledger.{}",
    "EXPLAIN SELECT FROM faber_ledger.{}",
    "EXPLAIN ANALYZE SELECT FROM faber_ledger.{}",
    "COPY faber_ledger.{} TO STDOUT",
    "COPY (SELECT FROM faber_ledger.{}) TO STDOUT",
    "INSERT INTO faber_ledger.{} DEFAULT VALUES",
    "LOCK faber_ledger.{} IN ACCESS SHARE MODE",
)


def test_no_table_is_a_members_to_read(two: Two) -> None:
    """EXPLAIN ANALYZE says how many rows a policy hides, and which: a comparison of texts comes before the policy."""
    tables = ("project", "member", "clone", "invitation", "event", "state", "redaction", "removed")
    assert two.may_run([statement.format(table) for statement in READS for table in tables]) == []


def test_a_plan_shows_nothing_of_what_a_question_reads(two: Two) -> None:
    asked = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT * FROM faber_ledger.{QUESTION}"
    plans = [two.tries(asked.format(project, RUN)) for project in (FIRST, NOWHERE)]
    assert plans[0] == plans[1]
    assert "Function Scan on events_after" in plans[0][0][0]


def test_a_callers_way_to_write_texts_changes_no_function(two: Two) -> None:
    """A pattern with a backslash would mean something else, and a redaction would have no effect."""
    with two.database.connect(two.alice) as connection:
        connection.execute("SET standard_conforming_strings = off")
        connection.execute("SET escape_string_warning = off")
        put(connection, FIRST, redaction_of(two.secret[1]))
    assert [row["payload"] for row in stored(two.database) if row["id"] == two.secret[1]] == [None]


AROUND = (
    "SELECT * FROM faber_ledger.redaction",
    f"INSERT INTO faber_ledger.member VALUES ('{FIRST}', session_user, 0, true)",
    "UPDATE faber_ledger.member SET is_admin = true",
    f"INSERT INTO faber_ledger.project (id, name) VALUES ('{NOWHERE}', 'x')",
    f"INSERT INTO faber_ledger.redaction VALUES ('{FIRST}', '{RUN}', 'x', 'y', 0, true)",
    "SELECT * FROM faber_ledger.project FOR UPDATE",
    "SELECT * FROM faber_ledger.event FOR SHARE",
    "LOCK faber_ledger.event IN EXCLUSIVE MODE",
    f"SELECT faber_ledger.admit('{FIRST}', session_user::name)",
    f"SELECT faber_ledger.admit('{FIRST}', session_user::name, true)",
    f"SELECT faber_ledger.expel('{FIRST}', 'postgres')",
    f"SELECT faber_ledger.add_project('{NOWHERE}', 'x', session_user::name)",
    "SELECT faber_ledger.is_owner()",
    f"SELECT faber_ledger.is_project_admin('{FIRST}')",
    f"SELECT faber_ledger.sees('{FIRST}')",
    "SELECT faber_ledger.my_projects()",
    f"SELECT faber_ledger.require_member('{FIRST}')",
    "CREATE TABLE faber_ledger.mine ()",
    "CREATE TEMPORARY TABLE t (one faber_ledger.event)",
    "CREATE FUNCTION faber_ledger.my_projects(int) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "CREATE POLICY mine ON faber_ledger.event USING (true)",
    "ALTER TABLE faber_ledger.event DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE faber_ledger.event DISABLE TRIGGER ALL",
    "CREATE TEMPORARY TABLE t (LIKE faber_ledger.event); "
    "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION faber_ledger.check_event_change()",
    "SET session_replication_role = replica",
)


def test_what_goes_around_the_functions_is_refused(two: Two) -> None:
    before = two.of_alice()
    assert two.may_run(AROUND) == []
    assert two.of_alice() == before


def test_nobody_becomes_another_login(two: Two) -> None:
    for role in (two.alice.role, two.keeper):
        for word in ("ROLE", "SESSION AUTHORIZATION"):
            with pytest.raises(Refused):
                two.tries(sql.SQL(f"SET {word} {{}}").format(sql.Identifier(role)))
    # What a login may become shows it no more: its projects are those of the login.
    assert two.tries("SET ROLE faber_ledger_member", MINE) == [(SECOND,)]


def test_nothing_is_inserted_into_a_project_of_others(two: Two) -> None:
    before = two.of_alice()
    with two.database.connect(two.eve) as connection:
        with pytest.raises(Refused), connection.transaction():
            put(connection, FIRST, note("forged"))
        with pytest.raises(Refused), connection.transaction():
            put_state(connection, FIRST, "forged")
        with pytest.raises(Refused), connection.transaction():
            connection.execute("SELECT faber_ledger.tell_readers(%s)", [FIRST])
    assert two.of_alice() == before


def test_who_is_refused_has_waited_for_no_lock_and_taken_none(two: Two) -> None:
    """A lock that a refused push takes would be kept for as long as its login does not read the answer."""
    with two.database.connect(two.alice) as pushing, two.database.connect(two.eve) as connection:
        put(pushing, FIRST, note("the project's lock is held"))
        connection.execute("SET lock_timeout = '100ms'")
        forgeries: list[Callable[[], object]] = [
            lambda: put(connection, FIRST, note("forged")),
            lambda: put_state(connection, FIRST, "forged"),
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
    assert answers == {("42501", f"{two.eve.role} is not a member of this project")}
    with pytest.raises(Refused) as of_others:
        two.tries(f"SELECT faber_ledger.admit('{FIRST}', 'postgres')")
    with pytest.raises(Refused) as of_nobody:
        two.tries(f"SELECT faber_ledger.admit('{NOWHERE}', 'postgres')")
    assert of_others.value.diag.message_primary == of_nobody.value.diag.message_primary


def test_a_redaction_and_a_state_reach_into_no_other_project(two: Two) -> None:
    before = two.of_alice()
    with two.database.connect(two.eve) as connection:
        put(connection, SECOND, redaction_of(two.secret[1]))
        put_state(connection, SECOND, "newer")
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
    assert two.tries(*shadows, MINE) == [(SECOND,)]
    for statement in (
        f"SELECT faber_ledger.admit('{FIRST}', session_user::name)",
        f"SELECT faber_ledger.add_project('{NOWHERE}', 'x', session_user::name)",
    ):
        with pytest.raises(Refused):
            two.tries(*shadows, statement)
    with two.database.connect(two.eve) as connection:
        for statement in shadows:
            connection.execute(statement.encode())
        put(connection, SECOND, note("as ever"))
    assert two.of_alice() == before


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
            connection.execute("SELECT faber_ledger.tell_readers(%s)", [FIRST])
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


def test_a_group_that_everybody_is_put_into_later_counts_for_nobody(two: Two) -> None:
    """Its project would be everybody's, and nobody could leave it."""
    database = two.database
    group = database.login("group", "")
    with database.connect(two.alice) as connection:
        connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, group.role])
    grant = sql.SQL("GRANT {} TO faber_ledger_member").format(sql.Identifier(group.role))
    with database.connect() as connection:
        connection.execute(grant)
    assert two.tries(MINE) == [(SECOND,)]


@pytest.mark.parametrize("role", ["faber_ledger_member", None])
def test_everybody_at_once_is_admitted_by_nobody(two: Two, role: str | None) -> None:
    for login in (two.alice, None):
        with pytest.raises(Refused, match="everybody"), two.database.connect(login) as connection:
            connection.execute("SELECT faber_ledger.admit(%s, %s)", [FIRST, role or two.keeper])
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
        assert connection.execute(MINE).fetchall() == [(FIRST,), (SECOND,)]
        connection.commit()
        with two.database.connect(two.alice) as admin:
            admin.execute("SELECT faber_ledger.expel(%s, %s)", [FIRST, two.eve.role])
        assert connection.execute(MINE).fetchall() == [(SECOND,)]
        with pytest.raises(Refused):
            put(connection, FIRST, note("late"))
        connection.rollback()
