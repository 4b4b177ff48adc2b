"""`faber-ledger timeline`: draw a run as one page, with a chart and a table of its events."""

from __future__ import annotations

import os
import webbrowser

import click

from faber_ledger.cli.timeline.page import page
from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.which_run import run_with_ledger
from faber_ledger.cli.ui.words import plural
from faber_ledger.context.packet import size_words
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.projections.timeline import build_timeline
from faber_ledger.runs.log import read_log


@click.command(short_help="Draw a run as a page.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completion.runs)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="The page to write, `-` for standard output; an older page is replaced.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@json_option
def timeline(
    run: str | None,
    output: str,
    opened: bool,
    as_json: bool,
) -> None:
    """Draw RUN (default: the active run) as one HTML page: phases, sessions by machine, the context, the events.

    The page needs no network and no JavaScript.

    \b
    Example: faber-ledger timeline -o run.html
    Exit codes: 0 done; 1 FILE cannot be written; 2 wrong usage; 10 no such run or ledger;
    12 newer format; 20 the ledger is damaged.
    """
    if output == "-" and (opened or as_json):
        raise click.UsageError("-o - writes the page to standard output: leave out --open and --json")
    chosen = run_with_ledger(run)
    with read_log(chosen) as log:
        drawn = build_timeline(chosen.run_id, log.stream(), seconds_of)
    content = page(drawn).encode("utf-8", "replace")
    with output_file(output) as file:
        file.write(content)
    if output == "-":
        return
    data = {"path": output, "run_id": chosen.run_id, "bytes": len(content)}
    sessions, events = plural(len(drawn["bars"]), "session"), plural(drawn["events"], "event")
    line = f"wrote {output}: {sessions}, {events}, {size_words(len(content))}"
    if opened and not webbrowser.open(f"file://{os.path.realpath(output)}"):
        warn(f"cannot start a browser: open {output} yourself")
    show(data, [line], as_json=as_json)
