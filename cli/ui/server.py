"""Which team's server a command talks to, and runs as that server has them.

A command that only reads and has `--url` looks for its runs there instead of in the work tree: they are copied into a
temporary project, without git, and it prints what it prints of any run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.ui.output import warn
from faber_ledger.cli.ui.progress import progress_bars
from faber_ledger.cli.ui.which_run import choose_run, pick_run_id
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import NotFound, ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import find_root, is_run_id, path_form, private_folder
from faber_ledger.runs.settings import project_id, read_user_config

if TYPE_CHECKING:
    from faber_ledger.postgres.address import Address
    from faber_ledger.postgres.server import Server
    from faber_ledger.runs.settings import UserConfig

Progress = Callable[[int, str], Callable[[int], object]]


CONFIGURED = "-"  # as the option's value: the address that would count without it
url_option = click.option(
    "--url",
    metavar="URL",
    help="The team's server: postgresql://USER@HOST/DATABASE, without a password. Default: FABER_LEDGER_URL, then "
    "`url` in the user's configuration.",
)


def server_address(url: str | None) -> Address:
    """Return the address of the server that is meant; `url` is the option's.

    Raises UsageFailed if none is named, or the option has a password, and LedgerError without psycopg.
    """
    from faber_ledger.postgres.address import find_address  # at its use: `--help` loads every command

    config = read_user_config()
    problems = [*([config["problem"]] if config["problem"] else []), *list_exposed(config)]
    if config["url"] is None:  # it may be there under another name
        problems += [f"{config['path']}: {one}" for one in config["unknown"]]
    for problem in problems:
        warn(problem)
    return find_address(None if url == CONFIGURED else url, os.environ, config["url"], config["path"])


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


def server_copy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url` and `--project` to a command that reads runs."""
    for option in (
        click.option(
            "--project",
            metavar="PROJECT",
            help="With --url: the project on the server, by its id or name, instead of this one.",
        ),
        click.option(
            "--url",
            metavar="URL",
            help="Read from the team's server: postgresql://USER@HOST/DATABASE, without a password, or `-` for the one "
            "in FABER_LEDGER_URL or the user's configuration.",
        ),
    ):
        command = option(command)
    return command


class FoundRuns(NamedTuple):
    """The project to look for runs in, the runs that are named, and what of the server's is in no log.

    `left_out` has a sentence by the run's id, for each run of which the server gave events that no ledger takes.
    """

    root: str
    named: list[str | None]
    left_out: dict[str, str]


def find_runs(
    url: str | None,
    project: str | None,
    named: Sequence[str | None],
    work_id: str | None = None,
    *,
    every: bool = False,
) -> FoundRuns:
    """Return the project to look for runs in, and the runs that are named: with `url`, a copy and their whole ids.

    The copy has the named runs, of which None is the active one of this work tree, or with `every` all runs of the
    project on the server; it is removed when the command ends. Raises LedgerError, and UsageError.
    """
    root = find_root(os.getcwd())
    if url is None:
        if project is not None:
            raise click.UsageError("--project needs --url")
        return FoundRuns(root, list(named), {})
    if work_id is not None and None in named:
        raise click.UsageError("--work-id looks for a run of this clone: with --url, name the run")
    texts = [] if every else [one if one is not None else choose_run(root, None).run_id for one in named]
    here = project_id(root) if project is None else None
    copy = _copied(url, here, project, None if every else texts)
    return click.get_current_context().with_resource(copy)


@contextmanager
def _copied(url: str | None, here: str | None, wanted: str | None, texts: list[str] | None) -> Iterator[FoundRuns]:
    """Copy runs into a temporary project; yield its folder, the ids of the runs, and what was left out.

    They are of the project `here`, by its id, or of the one that is `wanted`, by its id or name.
    """
    import shutil
    import tempfile

    from faber_ledger.postgres.project import open_project
    from faber_ledger.postgres.server import open_server

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder, ExitStack() as stack:
        root = os.path.realpath(folder)
        os.mkdir(os.path.join(root, ".fractary"))
        stack.callback(shutil.rmtree, private_folder(root), ignore_errors=True)  # it has the logs
        with open_server(server_address(url)) as server:
            project = here or _choose_project(server, wanted or "")
            open_project(server, project, "", writing=False)
            known = _list_run_ids(server, project) if texts is None else []
            picked = known if texts is None else [pick_server_run(server, project, text) for text in texts]
            chosen = list(dict.fromkeys(picked))
            left_out: dict[str, str] = {}
            for run_id in chosen:
                try:
                    lacking = _copy_run(server, project, run_id, root)
                except (ServerUnavailable, ServerRefused):
                    raise
                except LedgerError as error:
                    if texts is not None:
                        raise
                    what = "a run of the server" if isinstance(error, InvalidRunId) else run_id
                    warn(f"{what} is left out: {error.message}")
                    left_out[escape(run_id)] = f"it is left out: {error.message}"
                else:
                    left_out |= {run_id: lacking} if lacking else {}
        yield FoundRuns(root, [*chosen] if texts is not None else [None], left_out)


def _choose_project(server: Server, wanted: str) -> str:
    """Return the id of the one project that is meant; raises NotFound for none or several."""
    from faber_ledger.postgres.project import choose_projects, list_projects

    known = list_projects(server)
    found = choose_projects(known, wanted)
    if len(found) > 1:
        named = ", ".join([f"{one} ({escape(known[one])})" for one in found])
        raise NotFound(f"several projects are named {escape(wanted)}: {named}", hint="give the id of one")
    return found[0]


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


def write_run_log(server: Server, project: str, run_id: str, path: str, progress: Progress) -> str | None:
    """Write a run's events as a new ledger file; warn of those that are left out, and return the sentence."""
    from faber_ledger.postgres.fetch import count_events, write_log

    total = count_events(server, project, run_id, 0)
    advance = progress(total, f"fetching {run_id}")
    own = path_form(run_id)
    left_out = write_log(server, project, run_id, path, lambda name: path_form(name) == own, advance)
    if not left_out:
        return None
    which = "all " if left_out == total else ""
    lacking = f"{which}{events_shown(left_out)} of the server left out, since no ledger takes them"
    warn(f"{run_id}: {lacking}")
    return lacking


def _copy_run(server: Server, project: str, run_id: str, root: str) -> str | None:
    """Write a run's ledger and state into a project, and return what was left out of its events, as a sentence.

    A state that is not the run's is left out with a warning.
    """
    from faber_ledger.postgres.state import fetch_state
    from faber_ledger.recording.server_state import write_missing_state

    run = find_run(root, run_id)
    os.makedirs(run.directory, exist_ok=True)
    with progress_bars() as progress:
        lacking = write_run_log(server, project, run_id, run.ledger_path, progress)
    with Log.read(run.ledger_path) as log:
        content = fetch_state(server, project, run_id)
        try:
            if content is not None:
                write_missing_state(run, content, log)
        except LedgerError as error:
            warn(f"the state.json of {run_id} on the server is left out: {error}")
    return lacking
