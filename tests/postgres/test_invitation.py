"""Two commands bring a newcomer onto the team's server: `db invite` on one side, `team join` on the other."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.carried import is_sending, wait_until
from support.command import COMMAND
from support.project import RUN, Project, heed_interrupts
from support.team_server import read_line

if TYPE_CHECKING:
    from support.team_server import Team

SHORT = """
from faber_ledger.cli.entry import main
from faber_ledger.cli.sync import background
background.SECONDS_TO_SEND = 1
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
        self.config = Path(clone.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json"

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
    config = json.loads(newcomer.config.read_text())
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


def test_an_invitation_to_several_hosts_leads_there(newcomer: Newcomer) -> None:
    newcomer.url = newcomer.url.replace("host=", "host=127.0.0.1,").replace("%2F", "/") + "&port=1,5432"
    done = newcomer.join()
    assert done.returncode == 0, done.stderr
    assert len(newcomer.passwords.read_text().splitlines()) == 2
    assert newcomer.clone.faber("fleet").returncode == 0


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


@pytest.mark.parametrize("sign", ["@example.com", " b", "#y?z", ":pw", "%41x", "O'Brien", "zzz'; cmd'", "/é"])
def test_the_printed_line_joins_whatever_the_name(team: Team, sign: str) -> None:
    first, clone = team.clones[0], team.clones[2]
    name = f"{team.database.cluster.new_name('x')}{sign}"
    team.database.roles.append(name)
    code, _, line = first.said("db", "invite", name, env={"FABER_LEDGER_URL": team.database.admin}).splitlines()
    program, *words = shlex.split(line)
    done = clone.faber(*words, input=f"{code}\n", stdin=None)
    assert (program, done.returncode) == ("faber-ledger", 0), done.stderr
    assert name in first.said("db", "members", env={"FABER_LEDGER_URL": team.database.admin})


def test_a_wrong_used_or_missing_code_is_spoken_of(newcomer: Newcomer) -> None:
    again = f"ask for another one, which `faber-ledger db invite {newcomer.name}` makes\n"
    done = newcomer.join(code="wrong")
    assert done.stderr.endswith(f"hint: the code is wrong, or was used: {again}")
    assert (
        f'failed: the server says "FATAL: password authentication failed for user "{newcomer.name}""\n' in done.stderr
    )
    done = newcomer.join(code="")
    assert (done.returncode, "standard input has no code" in done.stderr) == (2, True)
    done = newcomer.clone.faber("team", "join", newcomer.url + "_none", input=f"{newcomer.code}\n", stdin=None)
    assert (done.returncode, "the code is wrong" in done.stderr) == (13, False)
    assert newcomer.join().returncode == 0


def test_a_join_without_a_server_names_no_option_that_it_lacks(newcomer: Newcomer) -> None:
    said = newcomer.clone.said("team", "join", code=2)
    assert "hint: give the URL postgresql://USER@HOST/DATABASE" in said
    assert "--url" not in said + newcomer.clone.said("team", "join", "postgresql://u:pw@h/d", code=2)


@pytest.mark.parametrize("content", ["{broken", '{"admins": "ann"}'])
def test_a_broken_configuration_is_said_before_the_code_is_spent(newcomer: Newcomer, content: str) -> None:
    newcomer.config.parent.mkdir(parents=True)
    newcomer.config.write_text(content)
    done = newcomer.join()
    assert done.returncode == 1, done.stderr
    assert f"{newcomer.config} is not as" in done.stderr
    assert newcomer.config.read_text() == content
    newcomer.config.write_text("{}")
    assert newcomer.join().returncode == 0


def test_another_servers_url_stays_in_the_configuration_without_yes(newcomer: Newcomer) -> None:
    newcomer.config.parent.mkdir(parents=True)
    newcomer.config.write_text(content := '{"url": "postgresql://ann@db.example.com/ledger"}')
    done = newcomer.join()
    assert (done.returncode, newcomer.config.read_text()) == (0, content), done.stderr
    assert done.stdout.splitlines()[-1].startswith(RUN)
    said = f"names another server, and still does: `faber-ledger team join '{newcomer.url}' --yes` replaces that"
    assert said in done.stderr
    assert done.stderr.endswith(f"\n  export FABER_LEDGER_URL='{newcomer.url}'\n")
    assert newcomer.join("--yes", code="").returncode == 0
    assert json.loads(newcomer.config.read_text())["url"] == newcomer.url


def test_an_interrupted_join_goes_on_without_a_code(newcomer: Newcomer, team: Team) -> None:
    with team.database.connect() as connection:
        connection.execute("LOCK TABLE faber_ledger.event")
        process = subprocess.Popen(
            [COMMAND, "team", "join", newcomer.url],
            cwd=newcomer.clone.root,
            env=newcomer.clone.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=heed_interrupts,  # noqa: PLW1509  # a test's process may have been started in the background
        )
        assert process.stdin is not None
        process.stdin.write(f"{newcomer.code}\n".encode())
        process.stdin.flush()
        while not read_line(process.stderr).startswith("$ faber-ledger sync"):
            pass
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
    again = next(line for line in said.splitlines() if line.startswith("run `"))
    assert (process.returncode, said.splitlines()[-1]) == (130, "interrupted")
    newcomer.config.unlink()  # as if it had been interrupted before
    done = newcomer.clone.faber(*shlex.split(again.split("`")[1])[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(RUN)


def test_a_step_of_a_join_that_fails_names_the_join(newcomer: Newcomer) -> None:
    newcomer.clone.write(".git/config.lock", "")
    done = newcomer.join()
    assert (done.returncode, f"hint: run `faber-ledger team join '{newcomer.url}'` again\n" in done.stderr) == (1, True)


def test_a_join_on_a_terminal_asks_nothing_of_git_refs(newcomer: Newcomer) -> None:
    assert newcomer.join().returncode == 0
    shown, code = newcomer.clone.on_terminal("team", "join", env={"PAGER": "cat"})
    assert (code, "Send the ledgers" in shown) == (0, False)
    assert "--carry" not in shown


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
    assert "; not sent (faber-ledger status)" in (clone.deliver(START, client="next", env=QUIET).message or "")
    newcomer.passwords.write_bytes(known)
    if way == "no password":
        clone.said("sync", "--all")
    else:
        end_session(clone, "last")
    assert "of-ben" in arrived(team)
    assert "failed" not in clone.said("status")


def test_a_status_says_when_one_run_was_exchanged_alone(newcomer: Newcomer, team: Team) -> None:
    assert newcomer.join().returncode == 0
    clone = newcomer.clone
    (before,) = [line for line in clone.said("status").splitlines() if line.startswith("Server: ")]
    clone.said("sync", env={"FABER_LEDGER_URL": team.url}, code=14)  # another login
    assert f"{before}\n" in clone.said("status")
    clone.said("sync")
    assert f"{before}, {RUN} alone at " in clone.said("status")
    clone.said("sync", "--all")
    assert " alone at " not in clone.said("status")


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
