"""`faber-ledger db`: the server's schema and a project's members, by the command that a user runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from support.project import Project
from support.sizes import few
from support.team_server import Team

from faber_ledger.ledger.clock import is_event_id
from faber_ledger.migrations.upgrade import list_revisions

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from support.postgres import Database, Login


NEWEST = list_revisions()[-1]
PROJECT = "01K0000000000000000000PRJ1"
SECOND_PROJECT = "01K0000000000000000000PRJ2"


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
    database.add_project(project, login)


def test_an_upgrade_makes_the_schema_once(project: Project, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("DROP SCHEMA faber_ledger CASCADE")
    assert db(project, database, "upgrade") == (0, f"upgraded the server from revision none to {NEWEST}\n", "")
    assert db(project, database, "upgrade") == (0, f"the server is already at revision {NEWEST}\n", "")
    assert data_of(db(project, database, "upgrade", "--json")) == {"before": NEWEST, "after": NEWEST}


def test_a_login_made_again_under_a_members_name_is_another(project: Project, database: Database) -> None:
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


def test_no_server_or_a_password_in_the_option_is_wrong_usage(project: Project) -> None:
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


# What a login that sees no project is told, and what is said of roles and groups


@pytest.fixture
def ann(project: Project, database: Database) -> Login:
    """The project's admin, who has pushed."""
    login = database.login("ann")
    database.add_project(PROJECT, login)
    assert ask(project, database, login, "sync", "--all").returncode == 0
    return login


def ask(project: Project, database: Database, login: Login | None, *words: str) -> subprocess.CompletedProcess[str]:
    url = database.admin if login is None else database.url(login)
    return project.faber(*words, env={"FABER_LEDGER_URL": url})


def run_sql(database: Database, statement: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode())


def test_a_login_without_a_project_learns_whom_to_ask(project: Project, database: Database, ann: Login) -> None:
    stranger = database.login("stranger")
    words: tuple[str, ...]
    said = f"the role {stranger.role} sees no project"
    wanted = f"an admin of the project, or the owner of the database, runs `faber-ledger db admit {stranger.role}`"
    for words in (("fleet",), ("fleet", "--open"), ("search", "cents"), ("db", "members")):
        done = ask(project, database, stranger, *words)
        assert (done.returncode, done.stdout) == (14, ""), words
        assert done.stderr.startswith(f"error: {said}"), words
        assert f"hint: {wanted}" in done.stderr, words
    for words in (("sync",), ("fleet", "--project", "project")):
        done = ask(project, database, stranger, *words)
        assert done.returncode == 14, words
        assert "faber-ledger db admit" in done.stderr, words


def test_only_the_owner_makes_a_project_and_others_learn_how(project: Project, database: Database) -> None:
    ann, ben = database.login("ann"), database.login("ben")
    make = ("db", "project", "add", "--admin", ann.role)
    for words in (("db", "admit", ben.role), ("sync", "--all")):
        done = ask(project, database, ann, *words)
        assert done.returncode == 14
        assert f"the role {ann.role} sees no project {PROJECT}" in done.stderr
        assert f"the owner makes it with `faber-ledger {' '.join(make)}`" in done.stderr
    done = ask(project, database, ann, *make)
    assert (done.returncode, "hint: the owner of the database does it" in done.stderr) == (14, True)
    done = ask(project, database, None, *make)
    assert (done.returncode, done.stdout) == (0, f"made project {PROJECT}, with {ann.role} as its admin\n"), done.stderr
    assert ask(project, database, None, *make).stdout == (
        f"the server has project {PROJECT} already, and its admins are as before:"
        f" `faber-ledger db admit --admin {ann.role}` adds one\n"
    )
    assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0
    run_sql(database, f"GRANT EXECUTE ON FUNCTION faber_ledger.add_project TO {ben.role}")
    with database.connect(ben) as connection:
        made = connection.execute("SELECT faber_ledger.add_project(%s, 'x', %s)", (SECOND_PROJECT, ben.role))
        assert made.fetchone() == (True,)


def test_a_clone_is_given_to_a_stranger_with_a_word(project: Project, database: Database, ann: Login) -> None:
    ben, group = database.login("ben"), database.login("group")
    for role, done in ((ann.role, ()), (ben.role, ("admit", ben.role)), (group.role, ("admit", group.role))):
        if role != ann.role:
            _, _, said = db(project, database, "rebind", "e" * 32, role, login=ann)
            assert said == f"note: {role} does not see this project: `faber-ledger db admit {role}` lets it\n"
            assert db(project, database, *done, login=ann)[0] == 0
        assert db(project, database, "rebind", "e" * 32, role, login=ann) == (0, f"clone {'e' * 32} is {role}'s\n", "")


def test_an_empty_name_is_invited_nowhere(project: Project, database: Database, ann: Login) -> None:
    code, _, said = db(project, database, "invite", "")
    assert (code, said.splitlines()[0]) == (2, "error: the name is empty")


def test_whoever_a_group_lets_in_is_not_said_to_be_out(project: Project, database: Database, ann: Login) -> None:
    ben, team = database.login("ben"), database.login("team", "IN ROLE faber_ledger_member")
    run_sql(database, f"GRANT {team.role} TO {ben.role}")
    assert ask(project, database, ann, "db", "admit", team.role).returncode == 0
    for was_member in (False, True):
        if was_member:
            assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0
        done = ask(project, database, ann, "db", "expel", ben.role)
        assert (done.returncode, "no longer a member itself" in done.stderr) == (1, was_member)
        assert f"still sees this project: it has the rights of {team.role}\n" in done.stderr
        refused = ask(project, database, ann, "db", "expel", ben.role, "--json")
        error = json.loads(refused.stderr)["error"]
        assert (refused.returncode, error["code"], error["through"]) == (1, "still_seen", [team.role])
        assert "no longer sees this project" not in done.stdout
        assert ask(project, database, ben, "fleet").returncode == 0
    run_sql(database, f"REVOKE {team.role} FROM {ben.role}")
    done = ask(project, database, ann, "db", "expel", ben.role)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ben.role} was not admitted\n", "")
    assert "sees no project" in ask(project, database, ben, "fleet").stderr


def test_a_project_that_loses_its_last_admin_says_so(project: Project, database: Database, ann: Login) -> None:
    ben = database.login("ben")
    assert ask(project, database, ann, "db", "admit", "--admin", ben.role).returncode == 0
    done = ask(project, database, ann, "db", "expel", ann.role)
    assert (done.returncode, done.stderr) == (0, "")
    for login in (ben, None):
        done = ask(project, database, login, "db", "expel", ben.role)
        assert (done.returncode, f"{ben.role} is the only admin of this project" in done.stderr) == (1, True)
        assert "hint: make another one with `faber-ledger db admit --admin ROLE`, or add --yes" in done.stderr
    with database.connect(ben) as connection, pytest.raises(psycopg.errors.RestrictViolation):
        connection.execute("SELECT faber_ledger.expel(id, session_user::name) FROM faber_ledger.projects()")
    assert ben.role in ask(project, database, ben, "db", "members").stdout
    done = ask(project, database, ben, "db", "expel", ben.role, "--yes", "--json")
    assert done.returncode == 0
    (warning,) = json.loads(done.stdout)["data"]["warnings"]
    assert "this project has no admin now" in warning
    assert "faber-ledger db admit --admin ROLE" in warning
    assert ask(project, database, None, "db", "admit", "--admin", ann.role).returncode == 0
    assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0


# The id by which a team's server knows a project stays its own, also where the project's settings are removed.


SETTINGS = ".fractary/faber/ledger.json"


def id_of(clone: Project) -> str:
    found: str = json.loads((clone.root / SETTINGS).read_text())["project"]
    return found


def test_a_clone_that_has_exchanged_keeps_the_id_through_uninstall_and_init(team: Team) -> None:
    first, second, third = team.clones
    team.synced(first)
    assert second.faber("sync", "--fetch", env={"FABER_LEDGER_URL": team.url}).returncode == 0
    for clone in (first, second):
        done = clone.faber("uninstall", "--scope", "local")
        assert done.returncode == 0, done.stderr
        assert SETTINGS not in done.stdout
        assert id_of(clone) == team.project
        (clone.root / SETTINGS).unlink()
        assert clone.faber("init", "--git-only").returncode == 0
        assert id_of(clone) == team.project
        assert team.synced(clone)["pushed"] == 0
    assert third.faber("uninstall", "--scope", "local").returncode == 0  # it has never asked the server
    assert not (third.root / SETTINGS).exists()
    third.git("commit", "--quiet", "-m", "without faber-ledger", "--", SETTINGS)
    assert third.faber("init", "--git-only").returncode == 0
    assert id_of(third) != team.project


@pytest.mark.long
@pytest.mark.parametrize("text", few([None, '{"project": "not-an-id"}', "", "[]", '{"project": 5}', "{"], 2))
def test_init_takes_the_id_of_the_commit_that_is_checked_out(team: Team, text: str | None) -> None:
    third = team.clones[2]
    if text is not None:
        third.write(SETTINGS, text.encode())
        third.git("commit", "--quiet", "-m", "other settings", "--", SETTINGS)
    (third.root / SETTINGS).unlink()
    assert third.faber("init", "--git-only").returncode == 0
    assert is_event_id(id_of(third))
    assert (id_of(third) == team.project) == (text is None)
