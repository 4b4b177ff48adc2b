"""Which team's server a command talks to, and which of its runs is meant."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from faber_ledger.cli.ui.output import json_option, warn
from faber_ledger.cli.ui.which_run import pick_run_id
from faber_ledger.ledger.errors import InvalidRunId
from faber_ledger.runs.run import is_run_id
from faber_ledger.runs.settings import read_user_config

if TYPE_CHECKING:
    from faber_ledger.postgres.address import Address
    from faber_ledger.postgres.server import Server
    from faber_ledger.runs.settings import UserConfig

C = TypeVar("C", bound=Callable[..., Any])
url_option = click.option(
    "--url",
    metavar="URL",
    help="The team's server: postgresql://USER@HOST/DATABASE, without a password. Default: FABER_LEDGER_URL, then "
    "`url` in the user's configuration.",
)


def server_options(command: C) -> C:
    """Add the options of a command that prints what the server answers."""
    return url_option(json_option(command))


def server_address(url: str | None, option: str = "--url") -> Address:
    """Return the address of the server that is meant; `url` is the option's, which errors call `option`.

    Raises UsageFailed if none is named, or the option has a password, and LedgerError without psycopg.
    """
    from faber_ledger.postgres.address import find_address  # at its use: `--help` loads every command

    config = read_user_config()
    problems = [*([config["problem"]] if config["problem"] else []), *list_exposed(config)]
    if config["url"] is None:  # it may be there under another name
        problems += [f"{config['path']}: {one}" for one in config["unknown"]]
    for problem in problems:
        warn(problem)
    return find_address(url, os.environ, config["url"], config["path"], option)


def names_server() -> bool:
    """Return whether the environment or the user's configuration names a server, so that no option has to."""
    from faber_ledger.postgres.address import VARIABLE  # at its use: `--help` loads every command

    return bool(os.environ.get(VARIABLE) or read_user_config()["url"])


def list_exposed(config: UserConfig) -> list[str]:
    """Return a message if others can read the password in the user's configuration, else nothing."""
    from faber_ledger.postgres.address import has_password  # at its use: `--help` loads every command

    if config["url"] is None or not has_password(config["url"]):
        return []
    try:
        mode = stat.S_IMODE(os.stat(config["path"]).st_mode)
    except OSError:
        return []
    if not mode & 0o077:
        return []
    return [f"{config['path']} has a password, and others can read it (mode {mode:04o}): run `chmod 600` on it"]


def pick_server_run(server: Server, project: str, text: str) -> str:
    """Return the run of the server whose id is `text` or begins with it; raises InvalidRunId and as `pick_run_id`."""
    if not is_run_id(text):
        raise InvalidRunId(f"{text!r:.80} is not a run id", hint="run `faber-ledger run list` to see the runs")
    known = [one for one in _list_run_ids(server, project) if is_run_id(one)]
    return pick_run_id(text, known, "run `faber-ledger fleet` to see the runs on the server")


def _list_run_ids(server: Server, project: str) -> list[str]:
    """Return what the server has as the ids of a project's runs."""
    from faber_ledger.postgres.project import list_runs, newest_event

    newest = newest_event(server, project)
    return list_runs(server, project, 0, newest[0] if newest else 0)
