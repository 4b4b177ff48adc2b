"""The password, the configuration and the commands that join a user and a clone to the team's server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable

from faber_ledger.files.change import FileChange, make_changes, read_file
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import VARIABLE, Address
from faber_ledger.runs.carry import PROGRAM
from faber_ledger.runs.settings import read_user_config, user_config_path

DEFAULTS = {"port": "5432", "dbname": "*", "user": ""}  # of a line in ~/.pgpass


def password_path() -> str:
    """Return the path of the file in which libpq looks for passwords."""
    return os.environ.get("PGPASSFILE") or os.path.join(os.path.expanduser("~"), ".pgpass")


def has_password(address: Address) -> bool:
    """Return whether the file has a password for a login; raises LedgerError."""
    logins = _logins_of(address)
    return any([line.startswith(logins) for line in (read_file(password_path()) or b"").splitlines()])


def _logins_of(address: Address) -> tuple[bytes, ...]:
    """Return the beginnings of the lines in ~/.pgpass that have a login's password: libpq looks for each host alone."""
    given = DEFAULTS | {"host": address.parameters.get("hostaddr", "localhost")} | address.parameters
    words = {name: word.replace("\\", "\\\\").replace(":", "\\:") for name, word in given.items()}
    hosts, ports = words["host"].split(","), words["port"].split(",")
    places = zip(hosts, ports * (len(hosts) // len(ports)), strict=False)
    return tuple([f"{host}:{port or 5432}:{words['dbname']}:{words['user']}:".encode() for host, port in places])


def save_password(address: Address, password: str) -> None:
    """Write a login's password into the file in which libpq looks for it; raises LedgerError."""
    path = password_path()
    before, logins = read_file(path), _logins_of(address)
    others = [one for one in (before or b"").splitlines() if not one.startswith(logins)]
    _write_private(FileChange(path, before, b"\n".join([*[one + password.encode() for one in logins], *others, b""])))


def save_configuration(url: str, admins: list[str]) -> None:
    """Name the server, and who decides about its projects, in the user's configuration; raises LedgerError."""
    _write_private(plan_configuration(url, admins))


def plan_configuration(url: str, admins: list[str]) -> FileChange:
    """Return the change of the user's configuration that names the server; raises LedgerError."""
    path = user_config_path()
    before = read_file(path)
    try:
        if (problem := read_user_config()["problem"]) is not None:
            raise ValueError(problem)
        known = json.loads(before or "{}")
        known |= {"url": url, "admins": sorted({*known.get("admins", []), *admins})}
    except (ValueError, TypeError, AttributeError) as error:
        raise LedgerError(f"{path} is not as this program writes it", hint=f'correct it: "url" is "{url}"') from error
    return FileChange(path, before, json.dumps(known, indent=2).encode() + b"\n")


def _write_private(change: FileChange) -> None:
    mask = os.umask(0o077)
    try:
        make_changes([change])
    finally:
        os.umask(mask)


def run_steps(
    root: str, steps: Iterable[list[str]], say: Callable[[str], None], url: str | None = None, *, resumed_by: str = ""
) -> None:
    """Run commands of this program in a clone, on the server at `url`, else in the user's configuration.

    With `resumed_by`, the command that does all of them again, none asks anything. Raises LedgerError where one fails.
    """
    keyboard = subprocess.DEVNULL if resumed_by else None
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {VARIABLE: url} if url is not None else {}
    for words in steps:
        say(f"$ faber-ledger {' '.join(words)}")
        command = [sys.executable, "-P", "-c", PROGRAM, root, *words]
        done = subprocess.run(command, stdin=keyboard, env=environment, check=False)
        if done.returncode != 0:
            again = f"run `faber-ledger {' '.join(words)}` again, then the steps after it"
            hint = f"run `{resumed_by}` again" if resumed_by else again
            raise LedgerError(f"`faber-ledger {' '.join(words)}` failed", hint=hint)
