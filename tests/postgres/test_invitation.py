"""Two commands bring a newcomer onto the team's server: `db invite` on one side, `team join` on the other."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.project import RUN

if TYPE_CHECKING:
    import subprocess

    from support.project import Project
    from support.team_server import Team


class Newcomer:
    """A clone on a machine without a configuration, and an invitation to the team's project."""

    def __init__(self, team: Team, clone: Project, name: str) -> None:
        self.clone, self.name = clone, name
        done = team.clones[0].faber("db", "invite", name, "--json", env={"FABER_LEDGER_URL": team.database.admin})
        assert done.returncode == 0, done.stderr
        self.code: str = json.loads(done.stdout)["data"]["code"]
        self.url = team.database.admin_url.set(username=name).render_as_string()
        self.passwords = Path(clone.environment()["HOME"]) / ".pgpass"

    def join(self, code: str | None = None) -> subprocess.CompletedProcess[str]:
        given = f"{self.code if code is None else code}\n"
        return self.clone.faber("team", "join", self.url, input=given, stdin=None)


@pytest.fixture
def newcomer(team: Team) -> Newcomer:
    """Ben, invited."""
    assert team.sync(team.clones[0]).returncode == 0
    name = team.database.cluster.new_name("ben")
    team.database.roles.append(name)
    return Newcomer(team, team.clones[2], name)


def test_an_invitation_leads_to_the_fleet_in_one_command(newcomer: Newcomer, team: Team) -> None:
    newcomer.passwords.parent.mkdir(parents=True, exist_ok=True)
    newcomer.passwords.write_text("other:5432:*:ben:secret\n")
    newcomer.passwords.chmod(0o600)
    done = newcomer.join()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(RUN)
    config = json.loads(
        (Path(newcomer.clone.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json").read_text()
    )
    assert config == {"url": newcomer.url, "admins": [team.login.role]}
    lines = newcomer.passwords.read_text().splitlines()
    assert (lines[1:], stat.S_IMODE(newcomer.passwords.stat().st_mode)) == (["other:5432:*:ben:secret"], 0o600)
    for secret in (newcomer.code, lines[0].rpartition(":")[2]):
        assert secret not in done.stdout + done.stderr
    assert newcomer.clone.faber("note", "add", "from ben").returncode == 0
    assert newcomer.clone.faber("sync").returncode == 0
    assert {row["pushed_by"] for row in team.rows()} == {team.login.role, newcomer.name}


def test_a_code_is_good_once_and_for_a_day(newcomer: Newcomer, team: Team) -> None:
    assert newcomer.join("wrong").returncode == 13
    for until, code in (("now()", 14), ("now() + interval '1 hour'", 0)):
        with team.database.connect() as connection:
            connection.execute(f"UPDATE faber_ledger.invitation SET until = {until}".encode())
        done = newcomer.join()
        assert (done.returncode, "older than 24 hours" in done.stderr) == (code, code == 14), done.stderr
        assert newcomer.passwords.exists() == (code == 0)
    newcomer.passwords.unlink()
    assert newcomer.join().returncode == 13


def test_only_who_may_create_roles_invites_and_no_role_twice(newcomer: Newcomer, team: Team) -> None:
    first = team.clones[0]
    done = first.faber("db", "invite", "carl", env={"FABER_LEDGER_URL": team.url})
    assert (done.returncode, "permission denied to create role" in done.stderr) == (14, True), done.stderr
    done = first.faber("db", "invite", newcomer.name, env={"FABER_LEDGER_URL": team.database.admin})
    assert (done.returncode, "faber-ledger db admit" in done.stderr) == (14, True), done.stderr
