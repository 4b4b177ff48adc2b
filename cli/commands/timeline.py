"""`faber-ledger timeline`: draw runs as one page, each with a chart and a table of its events."""

from __future__ import annotations

import os
import sqlite3
import webbrowser
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.timeline.page import page
from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.which_run import run_with_ledger, runs_with_ledgers
from faber_ledger.cli.ui.words import plural
from faber_ledger.context.packet import size_words
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.timeline import build_timeline
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.projections.timeline_shapes import Timeline


@click.command(short_help="Draw runs as a page.")
@click.argument("runs", nargs=-1, metavar="[RUN...]", shell_complete=completion.runs)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="The page to write, `-` for standard output; an older page is replaced.",
)
@click.option("--all", "every", is_flag=True, help="Every run of this project, with an index.")
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@json_option
def timeline(
    runs: tuple[str, ...],
    output: str,
    every: bool,
    opened: bool,
    as_json: bool,
) -> None:
    """Draw each RUN (default: the active run) as one HTML page: phases, sessions by machine, the context, the events.

    The page needs no network and no JavaScript.

    \b
    Example: faber-ledger timeline -o run.html
    Exit codes: 0 done; 1 FILE cannot be written; 2 wrong usage; 10 no such run or ledger;
    12 newer format; 20 the ledger is damaged.
    """
    if every and runs:
        raise click.UsageError("give RUN or --all, not both")
    if output == "-" and (opened or as_json):
        raise click.UsageError("-o - writes the page to standard output: leave out --open and --json")
    timelines: list[Timeline] = []
    problems: list[tuple[str, str]] = []
    for run in _choose_runs(runs, every):
        try:
            with read_log(run) as log:
                timelines.append(build_timeline(run.run_id, log.stream(), seconds_of))
        except (LedgerError, sqlite3.DatabaseError) as error:
            if not every:
                raise
            problems.append((run.run_id, str(error)))
            warn(f"{run.run_id} is left out: {error}")
    content = page(timelines, problems).encode("utf-8", "replace")
    with output_file(output) as file:
        file.write(content)
    if output == "-":
        return
    sessions, events = sum(len(one["bars"]) for one in timelines), sum(one["events"] for one in timelines)
    data = {"path": output, "runs": [one["run_id"] for one in timelines], "bytes": len(content)}
    line = f"wrote {output}: {plural(sessions, 'session')}, {plural(events, 'event')}, {size_words(len(content))}"
    if opened and not webbrowser.open(f"file://{os.path.realpath(output)}"):
        warn(f"cannot start a browser: open {output} yourself")
    show(data, [line], as_json=as_json)


def _choose_runs(named: tuple[str, ...], every: bool) -> list[Run]:
    if every:
        return runs_with_ledgers(None, every=True)
    chosen = {run.run_id: run for run in [run_with_ledger(text) for text in named or (None,)]}
    return list(chosen.values())
