"""`faber-ledger search`: find words in what the runs of this clone recorded."""

from __future__ import annotations

import os

import click

from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.pager import no_pager_option, show_long
from faber_ledger.cli.ui.progress import progress_over
from faber_ledger.files.word_query import parse_query
from faber_ledger.runs.left_state import refresh_runs_here
from faber_ledger.runs.run import find_root


@click.command(short_help="Find words in what the runs recorded.")
@click.argument("text")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Only the newest N hits."
)
@no_pager_option
@json_option
def search(text: str, limit: int, as_json: bool) -> None:
    """Find TEXT in all runs that this clone has: what was noted, summarized and loaded, and what failed.

    Read are notes, summaries of compactions, ids and sources of artifacts, why one failed, findings of
    reconstitutions, and the texts of each state.json but for sessions and context_metadata. All words of TEXT must be
    there, in any order; "…" is a phrase, -WORD excludes a word, `or` makes alternatives. Upper and lower case are
    equal, and signs only separate words. A redacted event is never found.

    \b
    Example: faber-ledger search 'migration "user table" -draft'
    Exit codes: 0 done, whether or not there are hits; 2 wrong usage.
    """
    from faber_ledger.cli.reports import search as report  # at its use: `--help` loads every command

    query = parse_query(text)
    runs = refresh_runs_here(find_root(os.getcwd()))
    with progress_over(runs, "searching") as advance:
        groups, has_more = report.group_newest(report.search_runs(runs, query, warn, advance), limit)
    if as_json or not groups:
        data = {"text": text, "runs": groups, "has_more": has_more}
        show(data, report.lines_of(groups, text, has_more=has_more), as_json=as_json)
        return
    show_long(lambda: report.lines_of(groups, text, has_more=has_more))
