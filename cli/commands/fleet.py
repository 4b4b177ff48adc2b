"""`faber-ledger fleet`: the runs of all machines, as the team's server has them."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import click

from faber_ledger.cli.ui.output import json_option, json_text, no_pager_option, say, show, show_long, tell
from faber_ledger.cli.ui.server import server_address, url_option
from faber_ledger.cli.ui.words import project_labels, table, with_agents
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import ServerUnavailable
from faber_ledger.postgres.address import Address
from faber_ledger.postgres.fleet import FleetRun, Wanted, find_runs
from faber_ledger.postgres.project import choose_projects, list_projects
from faber_ledger.postgres.server import Server, listening, open_server

RETRY_SECONDS = 2.0
COLUMNS = ("run", "work item", "machine", "agent", "phase", "status", "sessions", "open", "abandoned", "compactions")
LAST = ("last event", "")
SHORT_WRITER = 8


class Answer(NamedTuple):
    """The runs that were found, the names of the projects that were looked at, and whether runs are left out."""

    runs: list[FleetRun]
    names: dict[str, str]
    has_more: bool

    def lines(self) -> Iterator[str]:
        """Yield a table for people; the project is named where the login sees several."""
        if not self.runs:
            yield "no run matches: `faber-ledger sync --push` sends those of this clone"
            return
        with_project = len(self.names) > 1
        head = (*(("project",) if with_project else ()), *COLUMNS, *LAST)
        labels = project_labels(self.names)
        rows = [(*((labels.get(run["project"], "-"),) if with_project else ()), *_cells(run)) for run in self.runs]
        yield from table(with_agents([head, *rows], [run["agent"] for run in self.runs]))
        if self.has_more:
            yield "older runs are not shown: --limit N shows more"

    def data(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {"projects": self.names, "runs": self.runs, "has_more": self.has_more}


@click.command(short_help="Show who works on what, on all machines.")
@url_option
@click.option("--project", metavar="PROJECT", help="Only one project's runs, by its id or name.")
@click.option(
    "--machine", metavar="NAME", help="Only runs with sessions on a machine: its host name, or a writer's id."
)
@click.option("--work-id", metavar="ID", help="Only runs of this work item.")
@click.option("--open", "is_open", is_flag=True, help="Only runs with an open session.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Only the newest N runs."
)
@click.option("--watch", is_flag=True, help="Show it again whenever something happens, until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: look at least this often.",
)
@no_pager_option
@json_option
def fleet(
    url: str | None,
    project: str | None,
    machine: str | None,
    work_id: str | None,
    is_open: bool,
    limit: int,
    watch: bool,
    every: float,
    as_json: bool,
) -> None:
    """List the runs that the team's server has, those with the newest event first.

    Each with its work item, the machine of its newest session, phase and status, its sessions (open ones and those
    that were abandoned), its compactions and its last event. A run is as its clones have pushed it. With --watch
    the table is shown again when an event arrives; with --json, too, as one line each time.

    \b
    Example: faber-ledger fleet --open --watch
    Exit codes: 0 done, also after Ctrl-C; 2 wrong usage; 10 the server shows no such project;
    12 the server is newer than this program; 13 the server is not available; 14 it refuses,
    or shows you no project.
    """
    ask = partial(_ask, project=project, machine=machine, work_id=work_id, is_open=is_open, limit=limit)
    address = server_address(url)
    if watch:
        try:
            _watch(address, ask, every, as_json)
        except KeyboardInterrupt:
            return
    with open_server(address) as server:
        answer = ask(server)
    if as_json or not answer.runs:
        show(answer.data(), answer.lines(), as_json=as_json)
    else:
        show_long(answer.lines)


def _ask(
    server: Server, *, project: str | None, machine: str | None, work_id: str | None, is_open: bool, limit: int
) -> Answer:
    known = list_projects(server)
    chosen = choose_projects(known, project)
    runs = list(islice(find_runs(server, Wanted(chosen, machine, work_id, is_open)), limit + 1))
    return Answer(runs[:limit], {name: known[name] for name in chosen}, len(runs) > limit)


def _watch(address: Address, ask: Callable[[Server], Answer], every: float, as_json: bool) -> None:
    """Show what changes until an interrupt; a server that was there and is lost is waited for."""
    shown: Answer | None = None
    is_lost = False
    while True:
        try:
            with open_server(address) as server, listening(server) as listener:
                if is_lost:
                    say("the server is back")
                    is_lost = False
                while True:
                    answer = ask(server)
                    if answer != shown:
                        _show_again(answer, as_json)
                        shown = answer
                    listener.wait(answer.names, every)
        except ServerUnavailable as error:
            if shown is None:
                raise
            if not is_lost:
                say(f"{error.message.rstrip('.')}; waiting until the server is back")
                is_lost = True
            time.sleep(RETRY_SECONDS)


def _show_again(answer: Answer, as_json: bool) -> None:
    """Print what has changed: on a terminal in place of what was there."""
    if as_json:
        click.echo(json_text({"result_version": 1, "data": answer.data()}, indent=None))
        return
    if sys.stdout.isatty():
        click.clear()
    tell(f"{utc_text(now())}, until Ctrl-C:")
    for line in answer.lines():
        tell(line)
    if not sys.stdout.isatty():
        tell("")


def _cells(run: FleetRun) -> tuple[str, ...]:
    last = run["last_event"]
    return (
        run["run_id"],
        run["work_id"] or "-",
        run["machine"] or last["writer"][:SHORT_WRITER],
        run["agent"] or "-",
        run["phase"] or "-",
        run["status"] or "unknown",
        str(run["sessions"]),
        str(len(run["open_sessions"])),
        str(run["abandoned"]),
        str(run["compactions"]),
        last["at"],
        last["type"],
    )
