"""`faber-ledger search`: find words in what runs recorded: those of this clone, or all of the team's server."""

from __future__ import annotations

import heapq
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.ui.output import json_option, no_pager_option, show, show_long, warn
from faber_ledger.cli.ui.progress import progress_over, track_progress
from faber_ledger.cli.ui.server import names_server, server_address, url_option
from faber_ledger.cli.ui.which_run import match_run, run_option
from faber_ledger.cli.ui.words import plural, project_labels, table
from faber_ledger.context.artifact import ArtifactError, build_surroundings
from faber_ledger.context.reconstitution.faber_files import read_documents
from faber_ledger.context.reconstitution.steps import read_named
from faber_ledger.files.json_text import JsonText
from faber_ledger.files.word_query import WordQuery, excerpt, parse_query
from faber_ledger.ledger.command_errors import ServerUnavailable
from faber_ledger.ledger.disk import FileRefused
from faber_ledger.ledger.errors import LedgerError, StateMissing
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.postgres import search as server_search
from faber_ledger.postgres.project import choose_projects, list_projects
from faber_ledger.postgres.server import Server, open_server
from faber_ledger.projections.fold import MAX_DEPTH, NAMES
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import text_of
from faber_ledger.runs.run import SUMMARIES, Run, find_root
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

# The server's index has the same types and fields (migrations/server); of a list of objects the fields of each.
FIELDS = {
    "note_recorded": ("text",),
    "compaction_completed": ("summary",),
    "artifact_loaded": ("artifact_id", "source"),
    "artifact_failed": ("artifact_id", "source", "error"),
    "artifact_skipped": ("artifact_id",),
    "context_reconstituted": ("findings",),
}
KINDS = {"compaction_completed": "summary", "context_reconstituted": "finding"}
STATE = "state"
WANTED = EventQuery(types=tuple(FIELDS))


@click.command()
@click.argument("text")
@run_option
@url_option
@click.option("--local", "is_local", is_flag=True, help="Read the runs of this clone, though a server is configured.")
@click.option("--project", metavar="PROJECT", help="On the server: one project's runs, by its id or name.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Only the newest N hits."
)
@no_pager_option
@json_option
def search(
    text: str, run: str | None, url: str | None, is_local: bool, project: str | None, limit: int, as_json: bool
) -> None:
    """Find TEXT in all runs that this clone has: what was noted, summarized and loaded, and what failed.

    With --run-id or --work-id in one of them.

    Also in the files that FABER's tools leave in a run, and in those that its state names, as the specification.

    With --url, or where a server is configured, in all runs there of the projects that you may see. It has no files.

    All words of TEXT must be there, in any order and case; "…" is a phrase.

    \b
    Example: faber-ledger search 'migration "user table"'
    Exit codes: 0 done, whether or not there are hits; 2 wrong usage; 10 the server shows no such
    project; 12 the server is newer than this program; 13 the server is not available; 14 it refuses,
    or shows you no project.
    """
    query = parse_query(text)
    names: dict[str, str] = {}
    if (is_local or run is not None) and (url is not None or project is not None):
        raise click.UsageError("--local and --run-id ask no server: leave out --url and --project")
    if run is not None or is_local or (url is None and project is None and not names_server()):
        groups, has_more = _search_here(query, limit, run)
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


def _search_here(query: WordQuery, limit: int, run: str | None) -> tuple[list[list[Hit]], bool]:
    root = find_root(os.getcwd())
    runs = runs_here(root) if run is None else [match_run(root, run)]
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


class Hit(NamedTuple):
    """One match: in an event, which `show` takes, at a path of a `state.json`, or in the file at a path.

    `at` is only shown.
    `project` is its id on the server; None in this clone.
    """

    project: str | None
    run_id: str
    at: str | None
    kind: str
    event_id: str | None
    path: str | None
    excerpt: str


def search_run(run: Run, query: WordQuery, warn: Callable[[str], None]) -> Iterator[Hit]:
    """Yield the hits in a run's log, its `state.json` and its files; warn of what cannot be read."""
    try:
        if not lacks_ledger(run):
            for recorded in find_events(partial(read_log, run), WANTED):
                yield from search_event(run.run_id, recorded, query)
    except (LedgerError, sqlite3.DatabaseError) as error:
        warn(f"the events of {run.run_id} are left out: {error}")
    state: dict[str, Any] = {}
    try:
        state = read_state(run).value
    except LedgerError as error:
        if not isinstance(error, StateMissing):
            warn(f"the state of {run.run_id} is left out: {error}")
    yield from search_state(run.run_id, state, query)
    for path, document in read_documents(run, warn):
        texts = [text for _, text in state_texts(document)]
        kind = "summary" if path.startswith(SUMMARIES) else "event"
        yield from _hits(texts, query, run.run_id, text_of(document, "timestamp"), kind, path=path)
    artifacts = state.get("artifacts")
    for name, path in artifacts.items() if isinstance(artifacts, dict) else ():
        if name.endswith("_path") and isinstance(path, str):
            with suppress(ArtifactError, FileRefused):
                text = read_named(build_surroundings(run, state, []), name)
                yield from _hits([text], query, run.run_id, None, "file", path=path)


def search_server(server: Server, query: WordQuery, projects: Sequence[str], limit: int) -> Iterator[Hit]:
    """Yield the newest hits in the events and the states of projects on a server: of each more than `limit`, if any."""
    with server.transaction() as connection, closing(server_search.find_events(connection, query, projects)) as events:
        hits = (hit for found in events for hit in search_event(found.run_id, found.recorded, query, found.project))
        yield from islice(hits, limit + 1)
    with server.transaction() as connection, closing(server_search.find_states(connection, query, projects)) as states:
        hits = (hit for one in states for hit in search_state(one.run_id, _parse(one.content), query, one.project))
        yield from islice(hits, limit + 1)


def _parse(content: str) -> dict[str, Any]:
    """Parse a state; return an empty object if it is not a JSON object."""
    try:
        return JsonText(content).value
    except (ValueError, RecursionError):
        return {}


def search_event(run_id: str, recorded: Recorded, query: WordQuery, project: str | None = None) -> Iterator[Hit]:
    """Yield the hit in an event, if there is one: its words may be in several of its texts, a phrase is in one."""
    if texts := event_texts(recorded):
        kind, event_id = word_for(recorded), recorded["id"]
        yield from _hits(texts, query, run_id, recorded["at"], kind, event_id=event_id, project=project)


def search_state(run_id: str, state: dict[str, Any], query: WordQuery, project: str | None = None) -> Iterator[Hit]:
    """Yield the hits in a state, each in one of its texts."""
    for path, text in state_texts(state):
        yield from _hits([text], query, run_id, text_of(state, "updated_at"), STATE, path=path, project=project)


def _hits(
    texts: list[str],
    query: WordQuery,
    run_id: str,
    at: str | None,
    kind: str,
    *,
    event_id: str | None = None,
    path: str | None = None,
    project: str | None = None,
) -> Iterator[Hit]:
    """Yield the hit in texts that belong together, if there is one."""
    place = query.find(texts)
    if place is not None:
        found = excerpt(texts[place.text], place.start, place.end)
        yield Hit(project=project, run_id=run_id, at=at, kind=kind, event_id=event_id, path=path, excerpt=found)


def group_newest(hits: Iterable[Hit], limit: int) -> tuple[list[list[Hit]], bool]:
    """Return the newest `limit` hits by run, the run with the newest first, and whether there are more.

    Of a run the events come before the texts of its state, whose one time is the last change of anything in it.
    """
    newest = heapq.nlargest(
        limit + 1, hits, lambda hit: (hit.at or "", hit.event_id or "", hit.run_id, hit.project or "")
    )
    groups: dict[tuple[str | None, str], list[Hit]] = {}
    for hit in newest[:limit]:
        groups.setdefault((hit.project, hit.run_id), []).append(hit)
    return [sorted(group, key=lambda hit: hit.event_id is None) for group in groups.values()], len(newest) > limit


def lines_of(groups: list[list[Hit]], text: str, names: Mapping[str, str], *, has_more: bool) -> Iterator[str]:
    """Yield a report for people: each run, with its project's name if it is known, and below it a line for each hit."""
    if not groups:
        yield f"nothing matches {text}"
        return
    hits, labels = [hit for group in groups for hit in group], project_labels(names)
    rows = table([(hit.at or "-", hit.kind, hit.event_id or hit.path or "-", hit.excerpt) for hit in hits])
    for group in groups:
        name = labels.get(group[0].project or "")
        yield f"{group[0].run_id}{f' in {name}' if name else ''}: {plural(len(group), 'hit')}"
        yield from [f"  {row}" for row in islice(rows, len(group))]
    if has_more:
        yield "older hits are not shown: --limit N shows more"


def event_texts(recorded: Recorded) -> list[str]:
    """Return the texts of an event that a search reads; none of one whose payload is gone, in whole or in part."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event["type"]
    if recorded.get("redacted") or kind not in FIELDS or not has_required(kind, recorded["version"], event):
        return []
    return [text for field in FIELDS[kind] for text in _texts(event.get(field))]


def word_for(recorded: Recorded) -> str:
    """Return what a search calls an event: note, summary, decision, loaded, failed, skipped or finding."""
    event = recorded["event"]
    if event["type"] == "note_recorded":
        return event["kind"] if event["kind"] in ("summary", "decision") else "note"
    return KINDS.get(event["type"]) or event["type"].removeprefix("artifact_")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for finding in value:
            yield from [finding[name] for name in ("code", "told") if isinstance(finding.get(name), str)]


def state_texts(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each text of a state with its path, such as `decisions[0].reason`, without those of our two blocks.

    What is nested deeper than `MAX_DEPTH` is left out.
    """
    for name, value in state.items():
        yield from _texts_in(value, name, 1) if name not in NAMES else ()


def _texts_in(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif depth < MAX_DEPTH:
        members = [(f".{name}", item) for name, item in value.items()] if isinstance(value, dict) else []
        items = [(f"[{number}]", item) for number, item in enumerate(value)] if isinstance(value, list) else []
        for place, item in members or items:
            yield from _texts_in(item, path + place, depth + 1)
