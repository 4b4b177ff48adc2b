"""What a login is told that sees no project, and what `db admit` and `db expel` say of roles and groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.postgres import Login
from support.project import Project

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from support.postgres import Database

PROJECT = "01K0000000000000000000PRJ1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.write(".fractary/faber/ledger.json", json.dumps({"project": PROJECT}))
    return made


@pytest.fixture
def ann(project: Project, database: Database) -> Login:
    """The login that has pushed first."""
    login = database.login("ann")
    assert ask(project, database, login, "sync", "--all").returncode == 0
    return login


def ask(project: Project, database: Database, login: Login | None, *words: str) -> subprocess.CompletedProcess[str]:
    url = database.admin if login is None else database.url(login)
    return project.faber(*words, env={"FABER_LEDGER_URL": url})


def run_sql(database: Database, statement: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode())


def test_a_login_that_sees_no_project_is_told_so_and_whom_to_ask(
    project: Project, database: Database, ann: Login
) -> None:
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


def test_who_admits_before_the_first_push_is_sent_to_it(project: Project, database: Database) -> None:
    ann, ben = database.login("ann"), database.login("ben")
    done = ask(project, database, ann, "db", "admit", ben.role)
    assert done.returncode == 14
    assert f"the role {ann.role} sees no project {PROJECT}" in done.stderr
    assert "if nobody has pushed it yet, `faber-ledger sync` makes it" in done.stderr
    assert ask(project, database, ann, "sync", "--all").returncode == 0
    assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0


def test_a_member_who_may_not_admit_is_told_who_may(project: Project, database: Database, ann: Login) -> None:
    ben = database.login("ben")
    assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0
    done = ask(project, database, ben, "db", "admit", ann.role)
    assert done.returncode == 14
    assert f"{ben.role} is not an admin of this project" in done.stderr
    assert "an admin of the project (`faber-ledger db members` names them)" in done.stderr


def test_a_misspelt_role_is_named_with_where_to_look(project: Project, database: Database, ann: Login) -> None:
    done = ask(project, database, ann, "db", "admit", "shop_teem")
    assert done.returncode == 14
    assert "role shop_teem does not exist" in done.stderr
    assert "hint: check the name" in done.stderr
    assert "db upgrade" not in done.stderr
    done = ask(project, database, ann, "db", "expel", "shop_teem")
    assert done.returncode == 14
    assert "the role shop_teem does not exist" in done.stderr


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
    assert ben.role in ask(project, database, ben, "db", "members").stdout
    done = ask(project, database, ben, "db", "expel", ben.role, "--yes", "--json")
    assert done.returncode == 0
    (warning,) = json.loads(done.stdout)["data"]["warnings"]
    assert "this project has no admin now" in warning
    assert "faber-ledger db admit --admin ROLE" in warning
    assert ask(project, database, None, "db", "admit", "--admin", ann.role).returncode == 0
    assert ask(project, database, ann, "db", "admit", ben.role).returncode == 0
