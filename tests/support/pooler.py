"""pgbouncer in transaction mode before a server: each transaction may run on another connection."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.postgres import Database, Login

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
DEADLINE = 30  # seconds


@contextmanager
def started_pooler(database: Database, login: Login, size: int = 2) -> Iterator[str]:
    """Start a pool of `size` connections to a database for a login; yield the login's URL through it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="faber-pool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        users = folder / "users"
        users.write_text(f'"{login.role}" "{login.password}"\n')
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={database.admin_url.query['host']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {size}\nignore_startup_parameters = extra_float_digits\n"
            "server_login_retry = 1\n"
        )
        command = [str(PGBOUNCER), "--quiet", str(config)]
        if os.geteuid() == 0:  # pgbouncer refuses root
            owner = pwd.getpwnam("nobody")
            for one in (folder, users, config):
                os.chown(one, owner.pw_uid, owner.pw_gid)
            process = subprocess.Popen(command, user=owner.pw_uid, group=owner.pw_gid, extra_groups=[])
        else:
            process = subprocess.Popen(command)
        try:
            place = f"postgresql://{login.role}:{login.password}@127.0.0.1:{port}/{database.name}"
            latest = time.monotonic() + DEADLINE
            while not _answers(place):
                assert process.poll() is None
                assert time.monotonic() < latest
            yield place
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _answers(place: str) -> bool:
    try:
        psycopg.connect(place).close()
    except psycopg.OperationalError:
        return False
    return True
