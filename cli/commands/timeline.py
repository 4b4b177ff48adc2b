"""`faber-ledger timeline`: draw a run as one page, with a chart and a table of its events."""

import os
from collections.abc import Iterator

import click

from faber_ledger import __version__
from faber_ledger.cli.reports.chart import Chart, markup
from faber_ledger.cli.reports.usage import usage_line
from faber_ledger.cli.ui.event_words import session_shown, words_of
from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.which_run import run_argument, run_with_ledger
from faber_ledger.cli.ui.words import plural
from faber_ledger.context.body import size_words
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.projections.history import count_compactions
from faber_ledger.projections.timeline import LISTED, Row, Timeline, build_timeline
from faber_ledger.projections.usage import Usage
from faber_ledger.runs.log import read_log

STYLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "page", "static", "timeline.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # even if something escaped, nothing would run
CAPTION = (
    "Time runs to the right, in UTC; what took longer is wider, but not in proportion. Each bar leads to its event "
    "below."
)
LEGEND = (
    '<ul><li><i class="normal"></i>ended normally<li><i class="manual"></i>ended by hand'
    '<li><i class="compaction"></i>ended by a compaction<li><i class="abandoned"></i>abandoned: its end never came'
    '<li><i class="open"></i>still open<li><i class="dashed"></i>compaction: the context is emptied'
    '<li><b class="cross">✕</b>could not be loaded</ul>'
)


@click.command()
@run_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="The page to write, `-` for standard output; an older page is replaced.",
)
@json_option
def timeline(run: str | None, output: str, as_json: bool) -> None:
    """Draw RUN (default: the active run) as one HTML page: phases, sessions by machine, the context, the events.

    The page needs no network and no JavaScript.

    \b
    Example: faber-ledger timeline -o run.html
    Exit codes: 0 done; 1 FILE cannot be written; 2 wrong usage; 10 no such run or ledger;
    12 newer format; 20 the ledger is damaged.
    """
    if output == "-" and as_json:
        raise click.UsageError("-o - writes the page to standard output: leave out --json")
    chosen = run_with_ledger(run)
    with read_log(chosen) as log:
        drawn = build_timeline(chosen.run_id, log.stream(), seconds_of)
        tokens = usage_line(Usage(log.usage()), has_money=False)  # prices are the user's, and others read the page
    content = page(drawn, tokens).encode("utf-8", "replace")
    with output_file(output) as file:
        file.write(content)
    if output == "-":
        return
    data = {"path": output, "run_id": chosen.run_id, "bytes": len(content)}
    sessions, events = plural(len(drawn["bars"]), "session"), plural(drawn["events"], "event")
    line = f"wrote {output}: {sessions}, {events}, {size_words(len(content))}"
    show(data, [line], as_json=as_json)


def page(timeline: Timeline, tokens: str | None = None) -> str:
    """Return a run's page; `tokens` says what its responses cost."""
    with open(STYLE, encoding="utf-8") as file:
        style = file.read()
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta name="generator" content="faber-ledger {__version__}">',
        '<link rel="icon" href="data:,">',
        f"<title>{markup(timeline['run_id'])}: timeline</title>",
        f"<style>\n{style}</style>",
        "<main>",
        f"<header><h1>{markup(timeline['run_id'])}</h1>",
        f"<p>{' · '.join(_facts(timeline, tokens))}</p></header>",
    ]
    if timeline["bars"]:
        lines.append(f"<figure><div>{Chart(timeline).svg()}</div>")
        lines.append(f"<figcaption>{LEGEND}{CAPTION}</figcaption></figure>")
    else:
        lines.append("<p>No session has been recorded yet.</p>")
    return "\n".join([*lines, *_events(timeline), "</main>", "</html>"]) + "\n"


def _facts(timeline: Timeline, tokens: str | None) -> Iterator[str]:
    if timeline["work_id"]:
        yield f"work item {markup(timeline['work_id'])}"
    if timeline["workflow_id"]:
        yield markup(timeline["workflow_id"])
    sessions, machines = len(timeline["bars"]), len({bar["machine"] for bar in timeline["bars"]})
    yield f"{plural(sessions, 'session')} on {plural(machines, 'machine')}"
    yield plural(count_compactions([bar["session"] for bar in timeline["bars"]]), "compaction")
    failures = sum(len(lane["failures"]) for lane in timeline["lanes"])
    if failures:
        yield f"<strong>{plural(failures, 'failed load')}</strong>"
    yield plural(timeline["events"], "event")
    if tokens:
        yield f"tokens: {markup(tokens)}"
    if timeline["first"] is None or timeline["last"] is None:
        return
    first, last = (utc_text(moment[0]).rstrip("Z").split("T") for moment in (timeline["first"], timeline["last"]))
    yield f"{' '.join(first)} to {' '.join(last if last[0] != first[0] else last[1:])} UTC"


def _events(timeline: Timeline) -> Iterator[str]:
    listed = len(timeline["rows"])
    count = f"{listed:,}" if listed == timeline["events"] else f"{listed:,} of {timeline['events']:,}"
    part = ""
    if listed != timeline["events"]:
        part = (
            f"<p>Of a log of more than {LISTED:,} events the page lists only the newest starts, ends, "
            f"compactions, notes and failed loads. To see all: "
            f"<code>faber-ledger log {markup(timeline['run_id'])}</code></p>"
        )
    yield f'<table class="events"><caption>Events ({count}){part}</caption>'
    heads = [f'<th scope="col">{head}' for head in ("seq", "time (UTC)", "session", "what happened")]
    yield f"<thead><tr>{''.join(heads)}</thead>"
    day = ""
    for row in timeline["rows"]:
        at = str(row["recorded"]["at"])
        if at[:10] != day:
            day = at[:10]
            yield f'<tr class="day"><th colspan="4" scope="colgroup">{markup(day)}'
        yield _row(row)
    yield "</table>"


def _row(row: Row) -> str:
    recorded = row["recorded"]
    kind = recorded["event"]["type"]
    shade = KINDS.get(kind, "")
    shade = f' class="{shade}"' if shade else ""
    time = str(recorded["at"])[11:].removesuffix("Z")
    return (
        f'<tr id="e{row["number"]}"{shade}><td>{recorded["seq"]}<td>{markup(time)}'
        f"<td>{markup(session_shown(recorded))}<td>{markup(words_of(recorded))}"
    )


KINDS = {
    "session_started": "s",
    "session_ended": "s",
    "artifact_failed": "f",
    "note_recorded": "n",
    "compaction_completed": "c",
}
