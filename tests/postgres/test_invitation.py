"""Two commands bring a newcomer onto the team's server: `db invite` on one side, `team join` on the other."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.carried import is_sending, wait_until
from support.project import RUN, Project

if TYPE_CHECKING:
    from support.team_server import Team

SHORT = """
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import background
background.SECONDS = 1
main()
"""


class Newcomer:
    """A clone on a machine without a configuration, and an invitation to the team's project."""

    def __init__(self, team: Team, clone: Project, name: str) -> None:
        self.clone, self.name = clone, name
        done = team.clones[0].faber("db", "invite", name, "--json", env={"FABER_LEDGER_URL": team.database.admin})
        assert done.returncode == 0, done.stderr
        self.code: str = json.loads(done.stdout)["data"]["code"]
        self.url = team.database.admin_url.set(username=name).render_as_string()
        self.passwords = Path(clone.environment()["HOME"]) / ".pgpass"

    def join(self, *options: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
        given = f"{self.code if code is None else code}\n"
        return self.clone.faber("team", "join", self.url, *options, input=given, stdin=None)


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
    with team.database.connect() as connection:
        limit = connection.execute("SELECT rolconnlimit FROM pg_roles WHERE rolname = %s", [newcomer.name])
        assert limit.fetchone() == (20,)
    assert config == {"url": newcomer.url, "admins": [team.login.role]}
    lines = newcomer.passwords.read_text().splitlines()
    assert (lines[1:], stat.S_IMODE(newcomer.passwords.stat().st_mode)) == (["other:5432:*:ben:secret"], 0o600)
    for secret in (newcomer.code, lines[0].rpartition(":")[2]):
        assert secret not in done.stdout + done.stderr
    assert newcomer.clone.faber("note", "add", "from ben").returncode == 0
    assert newcomer.clone.faber("sync").returncode == 0
    assert {row["pushed_by"] for row in team.rows()} == {team.login.role, newcomer.name}


def test_a_code_is_good_once_and_for_a_day(newcomer: Newcomer, team: Team) -> None:
    assert newcomer.join(code="wrong").returncode == 13
    for until, code in (("now()", 14), ("now() + interval '1 hour'", 0)):
        with team.database.connect() as connection:
            connection.execute(f"UPDATE faber_ledger.invitation SET until = {until}".encode())
        done = newcomer.join()
        assert (done.returncode, "older than 24 hours" in done.stderr) == (code, code == 14), done.stderr
        assert newcomer.passwords.exists() == (code == 0)
    newcomer.passwords.unlink()
    assert newcomer.join().returncode == 13


def test_who_has_not_accepted_is_admitted_by_nobody_and_gets_a_new_code(newcomer: Newcomer, team: Team) -> None:
    first, env = team.clones[0], {"FABER_LEDGER_URL": team.database.admin}
    done = first.faber("db", "admit", newcomer.name, env=env)
    assert (done.returncode, "`faber-ledger db invite` makes a new code" in done.stderr) == (14, True), done.stderr
    again = Newcomer(team, newcomer.clone, newcomer.name)
    assert newcomer.join().returncode == 13
    assert again.join().returncode == 0
    done = first.faber("db", "invite", newcomer.name, env=env)
    assert (done.returncode, "faber-ledger db admit" in done.stderr) == (14, True), done.stderr


def test_only_who_may_create_roles_invites(newcomer: Newcomer, team: Team) -> None:
    first = team.clones[0]
    done = first.faber("db", "invite", "carl", env={"FABER_LEDGER_URL": team.url})
    assert (done.returncode, "permission denied to create role" in done.stderr) == (14, True), done.stderr


# From then on each session's end is exchanged

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
QUIET: dict[str, str | None] = {"CI": None}


def end_session(clone: Project, client: str, end: str = END, /, **env: str | None) -> None:
    """Start a client's session, end it, and wait until no background process is at work."""
    clone.deliver(START, client=client, env=QUIET)
    clone.deliver(end, client=client, env=QUIET | env)
    wait_until(lambda: not is_sending(clone.root))


def arrived(team: Team) -> set[str]:
    return {row["client"] for row in team.rows()}


@pytest.mark.parametrize(
    "way", ["joined", "joined, a compaction", "joined without a URL", "CI", "--no-auto-send", "not joined"]
)
def test_after_a_join_the_background_process_exchanges(newcomer: Newcomer, team: Team, way: str) -> None:
    clone = newcomer.clone
    assert newcomer.join(*["--no-auto-send"] * (way == "--no-auto-send")).returncode == 0
    if way in ("joined without a URL", "not joined"):
        clone = clone.clone(clone.root.parent / "again", clone.hostname)
    if way == "joined without a URL":
        assert clone.faber("team", "join").returncode == 0
    end = "PreCompact.auto.print" if "compaction" in way else END
    end_session(clone, "of-ben", end, CI="true" if way == "CI" else None)
    assert ("of-ben" in arrived(team)) == way.startswith("joined")
    assert ("\nServer: last exchanged at " in clone.said("status")) == (way not in ("--no-auto-send", "not joined"))


@pytest.mark.parametrize("way", ["no password", "another server", "a variable that leads elsewhere"])
def test_an_exchange_that_fails_is_said_once_a_start(newcomer: Newcomer, team: Team, way: str) -> None:
    assert newcomer.join().returncode == 0
    clone, known = newcomer.clone, newcomer.passwords.read_bytes()
    env: dict[str, str | None] = {}
    if way == "no password":
        newcomer.passwords.write_text("")
    elif way == "another server":
        env = {"FABER_LEDGER_URL": team.url}
    else:
        env = {"PGHOSTADDR": "127.0.0.1"}
    end_session(clone, "of-ben", **env)
    why = "no password supplied" if way == "no password" else "not the one that this clone has joined"
    assert why in clone.said("status")
    assert "of-ben" not in arrived(team)
    assert "; not sent: faber-ledger status" in (clone.deliver(START, client="next", env=QUIET).message or "")
    newcomer.passwords.write_bytes(known)
    if way == "no password":
        clone.said("sync", "--all")
    else:
        end_session(clone, "last")
    assert "of-ben" in arrived(team)
    assert "failed" not in clone.said("status")


def test_a_silent_server_is_given_up_after_a_minute(newcomer: Newcomer, team: Team) -> None:
    assert newcomer.join().returncode == 0
    command = [sys.executable, "-c", SHORT, "sync", "--background"]
    environment = newcomer.clone.environment(QUIET)
    with team.database.connect() as connection:
        connection.execute("LOCK TABLE faber_ledger.event")
        done = subprocess.run(
            command, cwd=newcomer.clone.root, env=environment, check=False, start_new_session=True, timeout=60
        )
    assert done.returncode == 13
    assert "failed (no end within 1 s)" in newcomer.clone.said("status")


def test_ledgers_in_git_refs_go_on_beside_the_server(newcomer: Newcomer, team: Team, tmp_path: Path) -> None:
    clone = newcomer.clone
    clone.git("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    clone.git("remote", "set-url", "origin", str(tmp_path / "remote.git"))
    assert newcomer.join().returncode == 0
    clone.said("init", "--git-only", "--carry", "refs", env=QUIET)
    end_session(clone, "by both")
    assert "by both" in arrived(team)
    assert clone.git("ls-remote", "origin", "refs/faber-ledger/*")
    clone.said("init", "--git-only", "--carry", "tree")
    end_session(clone, "by the server")
    assert "by the server" in arrived(team)
