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
from faber_ledger.runs.settings import user_config_path

DEFAULTS = {"host": "localhost", "port": "5432", "dbname": "*", "user": ""}  # of a line in ~/.pgpass


def password_path() -> str:
    """Return the path of the file in which libpq looks for passwords."""
    return os.environ.get("PGPASSFILE") or os.path.join(os.path.expanduser("~"), ".pgpass")


def save_password(address: Address, password: str) -> None:
    """Write a login's password into the file in which libpq looks for it; raises LedgerError."""
    path = password_path()
    words = [address.parameters.get(name, DEFAULTS[name]) for name in DEFAULTS]
    line = ":".join([word.replace("\\", "\\\\").replace(":", "\\:") for word in [*words, password]])
    before = read_file(path)
    login = line.rpartition(":")[0].encode() + b":"
    others = [one for one in (before or b"").splitlines() if not one.startswith(login)]
    _write_private(FileChange(path, before, b"\n".join([line.encode(), *others, b""])))


def save_configuration(url: str, admins: list[str]) -> None:
    """Name the server, and who decides about its projects, in the user's configuration; raises LedgerError."""
    path = user_config_path()
    before = read_file(path)
    try:
        known = json.loads(before or "{}")
        known |= {"url": url, "admins": sorted({*known.get("admins", []), *admins})}
    except (ValueError, TypeError, AttributeError) as error:
        raise LedgerError(f"{path} is not as this program writes it", hint=f'correct it: "url" is "{url}"') from error
    _write_private(FileChange(path, before, json.dumps(known, indent=2).encode() + b"\n"))


def _write_private(change: FileChange) -> None:
    mask = os.umask(0o077)
    try:
        make_changes([change])
    finally:
        os.umask(mask)


def run_steps(root: str, steps: Iterable[list[str]], say: Callable[[str], None], url: str | None = None) -> None:
    """Run commands of this program in a clone, on the server at `url`, else in the user's configuration.

    Raises LedgerError where one fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {VARIABLE: url} if url is not None else {}
    for words in steps:
        say(f"$ faber-ledger {' '.join(words)}")
        done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, root, *words], env=environment, check=False)
        if done.returncode != 0:
            hint = f"run `faber-ledger {' '.join(words)}` again, then the steps after it"
            raise LedgerError(f"`faber-ledger {' '.join(words)}` failed", hint=hint)
