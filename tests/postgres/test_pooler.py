"""pgbouncer in transaction mode between clones and server: each transaction may run on another connection."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from support.team_server import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.team_server import Team

SETTINGS = ("search_path", "statement_timeout", "lock_timeout")
DEADLINE = 30  # seconds
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed: it is a package of the system"),
]


@pytest.fixture
def pooled(team: Team) -> Iterator[str]:
    """The URL of the team's login through a pool of two connections."""
    with tempfile.TemporaryDirectory(prefix="faber-pool-") as folder:
        Path(folder).chmod(0o755)
        yield from pool_in(Path(folder), team)


def pool_in(folder: Path, team: Team) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = team.database.admin_url
    users = folder / "users"
    users.write_text(f'"{team.login.role}" "{team.login.password}"\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={url.query['host']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = plain\nauth_file = {users}\npool_mode = transaction\ndefault_pool_size = 2\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    command = [str(PGBOUNCER), "--quiet", str(config)]
    if os.geteuid() == 0:  # pgbouncer refuses root
        owner = pwd.getpwnam("nobody")
        for one in (folder, users, config):
            os.chown(one, owner.pw_uid, owner.pw_gid)
        process = subprocess.Popen(command, user=owner.pw_uid, group=owner.pw_gid, extra_groups=[])
    else:
        process = subprocess.Popen(command)
    place = f"postgresql://{team.login.role}:{team.login.password}@127.0.0.1:{port}/{team.database.name}"
    latest = time.monotonic() + DEADLINE
    while True:
        try:
            psycopg.connect(place).close()
            break
        except psycopg.OperationalError:
            assert process.poll() is None
            assert time.monotonic() < latest
    try:
        yield place
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def test_clones_exchange_through_a_pooler_and_leave_no_setting(team: Team, pooled: str) -> None:
    first, second, _ = team.clones
    fill(first, 30_000)  # more batches than the driver needs to prepare a statement
    with psycopg.connect(pooled, autocommit=True) as other:
        before = [other.execute(f"SHOW {name}".encode()).fetchone() for name in SETTINGS]
    for clone in (first, second, first):
        done = team.sync(clone, url=pooled)
        assert done.returncode == 0, done.stderr
    assert team.export(second) == team.export(first)
    for _ in range(4):
        done = second.faber("fleet", env={"FABER_LEDGER_URL": pooled})
        assert done.returncode == 0, done.stderr
    with psycopg.connect(pooled, autocommit=True) as other:
        assert [other.execute(f"SHOW {name}".encode()).fetchone() for name in SETTINGS] == before
