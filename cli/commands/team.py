"""`faber-ledger team join`: take an invitation to the team's server, and set this clone up for it."""

import os
import sys
from contextlib import suppress

import click

from faber_ledger.cli.setup.membership import (
    has_password,
    password_path,
    plan_configuration,
    run_steps,
    save_configuration,
    save_password,
)
from faber_ledger.cli.ui.output import json_option, say
from faber_ledger.cli.ui.server import server_address
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.postgres.address import VARIABLE, Address
from faber_ledger.postgres.project import accept, list_members, time_made
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.carry import join_server
from faber_ledger.runs.run import find_root
from faber_ledger.runs.settings import project_id, read_user_config, user_config_path


@click.group()
def team() -> None:
    """Join a team's server."""


@team.command(short_help="Take an invitation.")
@click.argument("url", required=False)
@click.option("--no-auto-send", is_flag=True, help="Send nothing: no background process, and this time only fetch.")
@click.option("--yes", is_flag=True, help="Replace another URL in the user's configuration, which else stays.")
@json_option
def join(url: str | None, no_auto_send: bool, yes: bool, as_json: bool) -> None:
    """Join the server at URL with the code that `db invite` printed; it is asked for, or read from standard input.

    It writes a new password to ~/.pgpass, the URL and the admins to the user's configuration, sets this clone up,
    exchanges all runs and shows the fleet. From then on a background process exchanges them after each session's end.
    Without URL it does the same in another clone, for the server in the user's configuration. After an interrupt it is
    run again: who has joined already is asked for no code.

    \b
    Example: faber-ledger team join postgresql://ben@db.example.com/ledger
    Exit codes: 0 done; 1 a step failed, or the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached, or the code is wrong; 14 it refuses, or no invitation waits.
    """
    root = find_root(os.getcwd())
    project, address = project_id(root), server_address(url, "the URL")
    options = ["--no-auto-send"] * no_auto_send + ["--yes"] * yes
    again = " ".join(["faber-ledger team join", *([quote_word(url)] if url else []), *options])
    is_named = yes or url is None or read_user_config()["url"] in (None, url)
    try:
        if url is not None:
            _take_invitation(address, url, project, is_named=is_named)
        if is_named:
            join_server(root, "" if no_auto_send else address.digest())
        show_fleet = ["fleet", "--json"] if as_json else ["fleet"]
        given = url or os.environ.get(VARIABLE)
        exchange = ["sync", "--all", "--yes", *["--fetch"] * no_auto_send]
        run_steps(root, [["init", "--git-only"], exchange, show_fleet], say, given, resumed_by=again)
    except (click.Abort, KeyboardInterrupt):
        say(f"run `{again}` again: who has joined already is asked for no code")
        raise
    if not is_named:
        say(f"{user_config_path()} names another server, and still does: `{again} --yes` replaces that; else, here:")
        say(f"  export {VARIABLE}={quote_word(url or '')}")


def _take_invitation(address: Address, url: str, project: str, *, is_named: bool) -> None:
    """Make a password in place of the code, and write the user's files; raises ServerRefused and LedgerError.

    A code that was taken, before an interrupt, is not asked for again. The configuration stays unless it `is_named`.
    """
    if "user" not in address.parameters:
        raise click.UsageError("the URL names no login: postgresql://LOGIN@HOST/DATABASE")
    plan_configuration(url, [])
    if not (has_password(address) and _is_member(address, project)):
        _take_code(address, project)
    with open_server(address) as server:
        admins = [one.role for one in list_members(server, project) if one.is_admin]
    said = f"joined: the password is in {password_path()}"
    if is_named:
        save_configuration(url, admins)
        said += f", URL and admins ({', '.join(admins)}) in {user_config_path()}"
    say(said)


def _is_member(address: Address, project: str) -> bool:
    """Return whether the login sees the project, with the password that it has."""
    with suppress(ServerUnavailable, ServerRefused), open_server(address) as server:
        return time_made(server, project) is not None
    return False


def _take_code(address: Address, project: str) -> None:
    code = click.prompt("code", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not code:
        raise click.UsageError("standard input has no code: `faber-ledger db invite` prints one")
    projects = accept(address, code, lambda password: save_password(address, password))
    if project not in projects:
        raise ServerRefused(
            f"the invitation is to project {projects[0]}, and this is {project}", hint="join in a clone of it"
        )
