"""`faber-ledger team join`: take an invitation to the team's server, and set this clone up for it."""

import json
import os
import subprocess
import sys

import click

from faber_ledger.cli.ui.output import json_option, say
from faber_ledger.cli.ui.server import server_address
from faber_ledger.files.change import FileChange, make_changes, read_file
from faber_ledger.ledger.command_errors import ServerRefused
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import VARIABLE, Address
from faber_ledger.postgres.project import accept, list_members
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.carry import PROGRAM
from faber_ledger.runs.run import find_root
from faber_ledger.runs.settings import project_id, user_config_path

DEFAULTS = {"host": "localhost", "port": "5432", "dbname": "*", "user": ""}  # of a line in ~/.pgpass


@click.group()
def team() -> None:
    """Join a team's server."""


@team.command(short_help="Take an invitation.")
@click.argument("url")
@json_option
def join(url: str, as_json: bool) -> None:
    """Join the server at URL with the code that `db invite` printed; it is asked for, or read from standard input.

    It writes a new password to ~/.pgpass, the URL and the admins to the user's configuration, sets this clone up,
    fetches the team's runs and shows the fleet.

    \b
    Example: faber-ledger team join postgresql://ben@db.example.com/ledger
    Exit codes: 0 done; 1 a step failed, or the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached, or the code is wrong; 14 it refuses, or no invitation waits.
    """
    root = find_root(os.getcwd())
    project, address = project_id(root), server_address(url)
    if "user" not in address.parameters:
        raise click.UsageError("the URL names no login: postgresql://LOGIN@HOST/DATABASE")
    code = click.prompt("code", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    projects = accept(address, code, lambda password: _write_private([_passwords(address, password)]))
    if project not in projects:
        raise ServerRefused(
            f"the invitation is to project {projects[0]}, and this is {project}", hint="join in a clone of it"
        )
    with open_server(address) as server:
        admins = [one.role for one in list_members(server, project) if one.is_admin]
    _write_private([_configuration(url, admins)])
    say(f"joined: the password is in {_password_path()}, URL and admins ({', '.join(admins)}) in {user_config_path()}")
    show_fleet = ["fleet", "--json"] if as_json else ["fleet"]
    for words in (["init", "--git-only"], ["sync", "--all", "--fetch", "--yes"], show_fleet):
        _run(root, words)


def _run(root: str, words: list[str]) -> None:
    """Run a command of this program in the clone, on the server in the user's configuration."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    say(f"$ faber-ledger {' '.join(words)}")
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, root, *words], env=environment, check=False)
    if done.returncode != 0:
        hint = f"run `faber-ledger {' '.join(words)}` again, then the steps after it"
        raise LedgerError("the invitation is accepted, and a step after it failed", hint=hint)


def _password_path() -> str:
    return os.environ.get("PGPASSFILE") or os.path.join(os.path.expanduser("~"), ".pgpass")


def _passwords(address: Address, password: str) -> FileChange:
    """Return the change of ~/.pgpass by which libpq finds a login's password."""
    path = _password_path()
    words = [address.parameters.get(name, DEFAULTS[name]) for name in DEFAULTS]
    line = ":".join([word.replace("\\", "\\\\").replace(":", "\\:") for word in [*words, password]])
    before = read_file(path)
    login = line.rpartition(":")[0].encode() + b":"
    others = [one for one in (before or b"").splitlines() if not one.startswith(login)]
    return FileChange(path, before, b"\n".join([line.encode(), *others, b""]))


def _configuration(url: str, admins: list[str]) -> FileChange:
    """Return the change of the user's configuration that names the server and who decides about its projects."""
    path = user_config_path()
    before = read_file(path)
    try:
        known = json.loads(before or "{}")
        known |= {"url": url, "admins": sorted({*known.get("admins", []), *admins})}
    except (ValueError, TypeError, AttributeError) as error:
        raise LedgerError(f"{path} is not as this program writes it", hint=f'correct it: "url" is "{url}"') from error
    return FileChange(path, before, json.dumps(known, indent=2).encode() + b"\n")


def _write_private(changes: list[FileChange]) -> None:
    mask = os.umask(0o077)
    try:
        make_changes(changes)
    finally:
        os.umask(mask)
