"""`faber-ledger fleet`: the runs of all machines, as the team's server has them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import click

from faber_ledger.cli.reports.run_list import describe_found
from faber_ledger.cli.ui.attention import Filters, Row, attention_table, filter_options, list_by_need
from faber_ledger.cli.ui.output import json_option, json_text, no_pager_option, say, show, show_long, tell
from faber_ledger.cli.ui.server import names_server, server_address, url_option
from faber_ledger.cli.ui.words import plural, project_labels
from faber_ledger.files.text import escape
from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import FOREVER, now, utc_text
from faber_ledger.ledger.command_errors import ServerUnavailable, UsageFailed
from faber_ledger.ledger.encoding import dumps, loads, sha256
from faber_ledger.postgres.address import Address
from faber_ledger.postgres.fleet import LONGEST, find_runs
from faber_ledger.postgres.project import choose_projects, list_projects
from faber_ledger.postgres.server import Server, listening, open_server
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.run import find_root, state_base
from faber_ledger.runs.set_aside import read_or_empty

RETRY_SECONDS = 2.0


class Answer(NamedTuple):
    """The runs that are shown, the names of the projects that were looked at, and how many runs are left out.

    `all_runs` are all runs of the projects if a command is run on changes, else none.
    """

    runs: list[Row]
    names: dict[str, str]
    left_out: int
    all_runs: list[Row]

    def lines(self) -> Iterator[str]:
        """Yield a table for people; the project is named where the login sees several."""
        if not self.runs:
            yield "no run matches: `faber-ledger run start` begins one, `faber-ledger sync --all` sends those here"
            return
        labels = project_labels(self.names)
        of_project = {"project": lambda run: labels.get(run["project"], "-")} if len(self.names) > 1 else {}
        yield from attention_table(self.runs, **of_project)
        if self.left_out:
            yield f"{plural(self.left_out, 'more run')} not shown: --limit N shows more"

    def data(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {"projects": self.names, "runs": self.runs, "has_more": self.left_out > 0}


React: TypeAlias = Callable[[Answer], None]


@click.command()
@url_option
@click.option("--project", metavar="PROJECT", help="Only one project's runs, by its id or name.")
@click.option("--machine", metavar="NAME", help="Only runs with sessions on a machine: its name, or a writer's id.")
@click.option("--open", "is_open", is_flag=True, help="Only runs with an open session.")
@filter_options
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Only the first N runs."
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
@click.option("--exec", "command", metavar="CMD", help="With --watch: run CMD once when the state of a run changes.")
@no_pager_option
@json_option
def fleet(
    url: str | None,
    project: str | None,
    limit: int,
    watch: bool,
    every: float,
    command: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """List the runs that the team's server has, those that need somebody first.

    The columns are those of `run list`; who is the login of the newest session's clone, with its machine, and the login
    that brought it if that is another one. A run is as its clones have pushed it. With --watch and --json each change
    prints one line.

    CMD gets the run as JSON on its standard input, with its state `before`, and in variables: FABER_LEDGER_RUN,
    FABER_LEDGER_STATE, FABER_LEDGER_BEFORE and others. The watch waits until it ends; one that was cut off runs again
    when the same watch is started again.

    \b
    Example: faber-ledger fleet --waiting --failed --watch
    Exit codes: 0 done, also after Ctrl-C; 2 wrong usage; 10 the server shows no such project;
    12 the server is newer than this program; 13 the server is not available; 14 it refuses.
    """
    if command is not None and not watch:
        raise click.UsageError("--exec needs --watch")
    wanted = Filters(**filters)
    ask = partial(_ask, project, wanted, limit, reads_all=command is not None)
    address = _address(url)
    if watch:
        try:
            _watch(address, ask, every, partial(_run_on_changes, command, wanted, str(address)), as_json=as_json)
        except KeyboardInterrupt:
            return
    with open_server(address) as server:
        answer = ask(server)
    if as_json or not answer.runs:
        show(answer.data(), answer.lines(), as_json=as_json)
    else:
        show_long(answer.lines)


def _address(url: str | None) -> Address:
    """Return the server's address as `server_address` does; where runs are in git refs, the hint says so."""
    try:
        return server_address(url)
    except UsageFailed as error:
        if url is None and not names_server() and sender_of(find_root(os.getcwd())) is not None:
            error.hint = f"`faber-ledger run list --remote` lists the runs in git refs; for a server {error.hint}"
        raise


def _ask(project: str | None, filters: Filters, limit: int, server: Server, *, reads_all: bool) -> Answer:
    known = list_projects(server)
    chosen = choose_projects(known, project)
    root = find_root(os.getcwd())
    found = (describe_found(one, filters, root, server.role) for one in find_runs(server, chosen))
    all_runs = [*found] if reads_all else []
    runs = list_by_need(filter(filters.fit, all_runs or found))
    return Answer(runs[:limit], {name: known[name] for name in chosen}, len(runs[limit:]), all_runs)


def _watch(address: Address, ask: Callable[[Server], Answer], every: float, react: React, *, as_json: bool) -> None:
    """Show what changes until an interrupt; a server that was there and is lost is waited for."""
    shown: Any = None
    is_lost = False
    while True:
        try:
            with open_server(address) as server, listening(server) as listener:
                if is_lost:
                    say("the server is back")
                    is_lost = False
                while True:
                    answer = ask(server)
                    seen = [*answer.lines()] if sys.stdout.isatty() else answer.data()  # lines have ages, which change
                    if seen != shown:
                        _show_again(answer, as_json)
                        shown = seen
                    react(answer)
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


def _run_on_changes(command: str | None, filters: Filters, server: str, answer: Answer) -> None:
    """Run a command for each wanted run whose state has changed since the last look; the first look only notes states.

    A change is noted once its command has ended. If this process is killed before, the next watch runs it again.
    """
    if command is None:
        return
    watch = repr((command, filters._replace(since=None), server))  # `since` is a time, later at each start
    digest = sha256(watch.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = os.path.join(state_base(), "faber-ledger", f"states-{digest}.json")
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with disk.RunLock(f"{path}.lock", FOREVER):  # the same watch may run twice, and its command once
        before = loads((read_or_empty(path) or b"{}").decode())
        states, changed = {**before, **dict.fromkeys(answer.names)}, []  # by project, and by project and run
        for run in answer.all_runs:
            key = f"{run['project']} {run['run_id']}"
            if run["project"] in before and run["state"] != before.get(key) and filters.fit(run):
                changed.append((key, {**run, "before": before.get(key)}))
            else:
                states[key] = run["state"]
        if states != before:
            _note_states(path, states)
        for key, run in changed:
            _run_command(command, run)
            states[key] = run["state"]
            _note_states(path, states)


def _note_states(path: str, states: Row) -> None:
    disk.put(path, dumps(states).encode(), mode=disk.OWN, durable=False, locked=False)


def _run_command(command: str, run: Row) -> None:
    """Run a command with what is known of a run as JSON on its standard input and in variables, never in its words."""
    texts = {name: value for name, value in {"run": run["run_id"], **run}.items() if isinstance(value, str)}
    variables = {f"FABER_LEDGER_{name.upper()}": escape(value)[:LONGEST] for name, value in texts.items()}
    environment, facts = {**os.environ, **variables}, json_text(run).encode("utf-8", "backslashreplace")
    done = subprocess.run(["/bin/sh", "-c", command], input=facts, stdout=sys.stderr, env=environment, check=False)
    if done.returncode:
        say(f"{run['run_id']}: CMD ended with {done.returncode}")
