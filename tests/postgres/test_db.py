"""`faber-ledger db`: the server's schema and a project's members, by the command that a user runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project

from faber_ledger.migrations.upgrade import list_revisions

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database, Login

NEWEST = list_revisions()[-1].id
PROJECT = "01K0000000000000000000PRJ1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.write(".fractary/faber/ledger.json", json.dumps({"project": PROJECT}))
    return made


def db(project: Project, database: Database, *words: str, login: Login | None = None) -> tuple[int, str, str]:
    """Run a command of the group; return its exit code, output and errors."""
    url = database.admin if login is None else database.url(login)
    done = project.faber("db", *words, env={"FABER_LEDGER_URL": url})
    return done.returncode, done.stdout, done.stderr


def data_of(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])["data"]


def register(database: Database, login: Login, project: str = PROJECT) -> None:
    """Make a project, whose first admin the login is."""
    with database.connect(login) as connection:
        connection.execute("SELECT faber_ledger.register_project(%s, 'app')", [project])


def test_an_upgrade_makes_the_schema_once(project: Project, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("DROP SCHEMA faber_ledger CASCADE")
    assert db(project, database, "upgrade") == (0, f"upgraded the server from revision none to {NEWEST}\n", "")
    assert db(project, database, "upgrade") == (0, f"the server is already at revision {NEWEST}\n", "")
    assert data_of(db(project, database, "upgrade", "--json")) == {"before": NEWEST, "after": NEWEST}


def test_a_login_that_is_made_again_under_a_members_name_is_another_one(project: Project, database: Database) -> None:
    alice = database.login("alice")
    register(database, alice)
    names = "SELECT name FROM faber_ledger.projects()"
    with database.connect(alice) as connection:
        assert connection.execute(names).fetchall() == [("app",)]
    with database.connect() as connection:
        connection.execute(f"DROP ROLE {alice.role}".encode())
        made = f"CREATE ROLE {alice.role} LOGIN PASSWORD '{alice.password}' IN ROLE faber_ledger_member"
        connection.execute(made.encode())
    with database.connect(alice) as connection:
        assert connection.execute(names).fetchall() == []
    assert db(project, database, "admit", alice.role)[0] == 0
    with database.connect(alice) as connection:
        assert connection.execute(names).fetchall() == [("app",)]


def test_nobodys_function_takes_the_place_of_one_that_a_command_calls(project: Project, database: Database) -> None:
    """A function that fits a call better than PostgreSQL's own is taken from any schema of the search path."""
    alice, bob = database.login("alice"), database.login("bob")
    register(database, alice)
    called = "RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'a stranger is called'; END $$"
    laid_out = [
        "CREATE SCHEMA evil",
        *[f"CREATE FUNCTION evil.same(one {kind}, other varchar) {called}" for kind in ("name", "text", "varchar")],
        *[
            f"CREATE OPERATOR evil.= (LEFTARG = {kind}, RIGHTARG = varchar, FUNCTION = evil.same)"
            for kind in ("name", "text", "varchar")
        ],
        f"CREATE FUNCTION evil.pg_has_role(text, text, text) {called}",
        f"CREATE FUNCTION evil.set_config(text, varchar, boolean) {called}",
        f"CREATE FUNCTION evil.has_schema_privilege(oid, text) {called}",
        "GRANT USAGE ON SCHEMA evil TO PUBLIC",
        f"ALTER DATABASE {database.name} SET search_path = evil, pg_catalog",
    ]
    with database.connect() as connection:
        for statement in laid_out:
            connection.execute(statement.encode())
    assert db(project, database, "upgrade") == (0, f"the server is already at revision {NEWEST}\n", "")
    assert db(project, database, "admit", bob.role, login=alice)[0] == 0
    assert len(data_of(db(project, database, "members", "--json", login=bob))["members"]) == 2
    with database.connect() as connection:
        connection.execute("DROP SCHEMA faber_ledger CASCADE")
    assert db(project, database, "upgrade")[0] == 0


def test_an_admin_admits_and_expels(project: Project, database: Database) -> None:
    alice, bob = database.login("alice"), database.login("bob")
    register(database, alice)
    code, output, errors = db(project, database, "admit", bob.role, login=alice)
    assert (code, output, errors) == (0, f"{bob.role} sees this project\n", "")
    listed = data_of(db(project, database, "members", "--json", login=bob))["members"]
    assert listed == [{"role": alice.role, "is_admin": True}, {"role": bob.role, "is_admin": False}]
    code, _, errors = db(project, database, "admit", alice.role, login=bob)
    assert (code, "not an admin" in errors) == (14, True)
    assert db(project, database, "admit", "--admin", bob.role, login=alice)[0] == 0
    done = db(project, database, "expel", alice.role, login=bob)
    assert done == (0, f"{alice.role} no longer sees this project\n", "")
    assert "was not admitted" in db(project, database, "expel", alice.role, login=bob)[1]
    assert f"the role {alice.role} sees no project" in db(project, database, "members", login=alice)[2]


def test_the_owner_of_the_database_admits_to_any_project(project: Project, database: Database) -> None:
    alice, bob = database.login("alice"), database.login("bob", "")
    register(database, alice)
    code, output, errors = db(project, database, "admit", bob.role)
    assert (code, output) == (0, f"{bob.role} sees this project\n")
    assert f"note: {bob.role} cannot use the server without the role faber_ledger_member" in errors
    assert f'GRANT faber_ledger_member TO "{bob.role}";' in errors


def test_without_a_server_or_with_a_password_in_the_option_it_is_wrong_usage(project: Project) -> None:
    done = project.faber("db", "members", env={"FABER_LEDGER_URL": None})
    assert (done.returncode, "no server is named" in done.stderr) == (2, True)
    done = project.faber("db", "members", "--url", "postgresql://alice:hunter2@db/ledger")
    assert (done.returncode, "hunter2" in done.stderr, "FABER_LEDGER_URL" in done.stderr) == (2, False, True)


def test_a_password_that_others_can_read_is_a_warning(project: Project, database: Database, tmp_path: Path) -> None:
    alice = database.login("alice")
    register(database, alice)
    config = tmp_path / "home-dev-machine-1" / ".config" / "faber-ledger" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"url": database.url(alice)}))
    for mode, is_warned in ((0o644, True), (0o600, False)):
        config.chmod(mode)
        done = project.faber("db", "members", env={"FABER_LEDGER_URL": None})
        assert (done.returncode, "chmod 600" in done.stderr) == (0, is_warned)
        assert alice.password not in done.stdout + done.stderr


def test_without_the_extra_one_line_says_so(project: Project, tmp_path: Path) -> None:
    (tmp_path / "hidden" / "psycopg").mkdir(parents=True)
    (tmp_path / "hidden" / "psycopg" / "__init__.py").write_text("raise ModuleNotFoundError('psycopg')\n")
    env = {"FABER_LEDGER_URL": "postgresql://db/ledger", "PYTHONPATH": str(tmp_path / "hidden")}
    done = project.faber("db", "members", env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("error: PostgreSQL needs the extra faber-ledger[postgres]\n\nhint: install ")
    assert done.stderr.count("\n") == 3
    assert project.faber("status", env=env).returncode == 0


def test_a_newer_server_is_not_touched(project: Project, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("UPDATE faber_ledger.alembic_version SET version_num = '9999'")
    code, _, errors = db(project, database, "upgrade")
    assert (code, "9999" in errors, "upgrade faber-ledger on this machine" in errors) == (12, True, True)
