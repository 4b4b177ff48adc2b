"""`faber-ledger search`: find words in what runs recorded: those of this clone, or all of the team's server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice

import click

from faber_ledger.cli.reports.search import STATE, Hit, group_newest, search_run, search_server
from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long, warn
from faber_ledger.cli.ui.progress import progress_over, track_progress
from faber_ledger.cli.ui.server import names_server, server_address, url_option
from faber_ledger.cli.ui.which_run import complete_runs, match_run, named_run, runs_of_work_here
from faber_ledger.cli.ui.words import plural, project_labels, table
from faber_ledger.files.word_query import WordQuery, parse_query
from faber_ledger.ledger.command_errors import ServerUnavailable
from faber_ledger.postgres.project import choose_projects, list_projects
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.run import find_root


@click.command()
@click.argument("text")
@click.option("--run-id", "--run", "run", metavar="RUN", shell_complete=complete_runs, help="Only this run.")
@click.option("--work-id", metavar="ID", help="Only the runs of this work item that are here.")
@url_option
@click.option("--local", "is_local", is_flag=True, help="Read the runs of this clone, though a server is configured.")
@click.option("--project", metavar="PROJECT", help="On the server: one project's runs, by its id or name.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Only the newest N hits."
)
@no_pager_option
@json_option
def search(
    text: str,
    run: str | None,
    work_id: str | None,
    url: str | None,
    is_local: bool,
    project: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find TEXT in all runs that this clone has: what was noted, summarized and loaded, and what failed.

    Also in the files that FABER's tools leave in a run, and in those that its state names, as the specification. With
    --url, or where a server is configured, in all runs there of the projects that you may see, without files.

    All words of TEXT must be there, in any order and case; "…" is a phrase.

    \b
    Example: faber-ledger search 'migration "user table"'
    Exit codes: 0 done, whether or not there are hits; 2 wrong usage; 10 the server shows no such
    project; 12 the server is newer than this program; 13 the server is not available; 14 it refuses,
    or shows you no project.
    """
    query = parse_query(text)
    names: dict[str, str] = {}
    is_local = is_local or run is not None or work_id is not None
    if is_local and (url is not None or project is not None):
        raise click.UsageError("--local, --run-id and --work-id ask no server: leave out --url and --project")
    if is_local or (url is None and project is None and not names_server()):
        groups, has_more = _search_here(query, limit, run, work_id)
    else:
        groups, has_more, names = _search_server(query, limit, url, project)
    if not as_json:
        show_long(lambda: lines_of(groups, text, names, has_more=has_more))
        return
    runs = [
        {"project": hits[0].project, "run_id": hits[0].run_id, "hits": [hit._asdict() for hit in hits]}
        for hits in groups
    ]
    show({"text": text, "projects": names, "runs": runs, "has_more": has_more}, [], as_json=True)


def _search_here(query: WordQuery, limit: int, run: str | None, work_id: str | None) -> tuple[list[list[Hit]], bool]:
    root = find_root(os.getcwd())
    if run is not None:
        runs = [match_run(root, named_run(root, run, None) or run)]
    else:
        runs = runs_here(root) if work_id is None else runs_of_work_here(root, work_id)
    with progress_over(runs, "searching") as advance:
        hits = (hit for one in track_progress(runs, advance) for hit in search_run(one, query, warn))
        return group_newest(hits, limit)


def _search_server(
    query: WordQuery, limit: int, url: str | None, project: str | None
) -> tuple[list[list[Hit]], bool, dict[str, str]]:
    """Search on the server; return also the names of the projects that were searched."""
    try:
        with open_server(server_address(url)) as server:
            names = list_projects(server)
            chosen = choose_projects(names, project)
            groups, has_more = group_newest(search_server(server, query, chosen, limit), limit)
    except ServerUnavailable as error:
        error.hint = "`--local` searches the runs of this clone; run the command again when the server is back"
        raise
    return groups, has_more, {name: names[name] for name in chosen}


def lines_of(groups: list[list[Hit]], text: str, names: Mapping[str, str], *, has_more: bool) -> Iterator[str]:
    """Yield a report for people: each run, with its project's name if it is known, and below it a line for each hit."""
    if not groups:
        yield f"no note, summary, artifact, state or file of a run here has all these words: {text}"
        return
    labels = project_labels(names)
    hits = [hit._replace(at=hit.entry_at) if hit.kind == STATE else hit for group in groups for hit in group]
    rows = table([(hit.at or "-", hit.kind, hit.event_id or hit.path or "-", hit.excerpt) for hit in hits])
    for group in groups:
        name = labels.get(group[0].project or "")
        yield f"{group[0].run_id}{f' in {name}' if name else ''}: {plural(len(group), 'hit')}"
        yield from [f"  {row}" for row in islice(rows, len(group))]
    if has_more:
        yield "older hits are not shown: --limit N shows more"
