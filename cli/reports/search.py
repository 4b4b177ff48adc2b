"""What a search finds: hits in events, states and files, of this clone or of the team's server."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.context.artifact import ArtifactError, build_surroundings
from faber_ledger.context.reconstitution.faber_files import read_documents
from faber_ledger.context.reconstitution.steps import read_named
from faber_ledger.files.word_query import WordQuery, excerpt
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.disk import FileRefused
from faber_ledger.ledger.encoding import loads_object
from faber_ledger.ledger.errors import LedgerError, StateMissing
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.postgres import search as server_search
from faber_ledger.postgres.server import Server
from faber_ledger.projections.fold import MAX_DEPTH, NAMES
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import is_time, text_of, text_of_value
from faber_ledger.runs.run import SUMMARIES, Run
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
LONGEST_FIELD = 60
PLACE = ("current_phase", "current_step", "current_step_id")  # of a state: where the run is, nobody's words
WANTED = EventQuery(types=tuple(FIELDS))


class Hit(NamedTuple):
    """One match: in an event, which `show` takes, at a path of a `state.json`, or in the file at a path.

    `at` of a state is the last change of anything in it, which orders its hits and is not shown; `entry_at` is the time
    of the entry that the hit is in, as an error's or a question's, if it says one.
    `project` is its id on the server; None in this clone.
    """

    project: str | None
    run_id: str
    at: str | None
    kind: str
    event_id: str | None
    path: str | None
    excerpt: str
    entry_at: str | None = None


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
        hits = (
            hit for one in states for hit in search_state(one.run_id, loads_object(one.content), query, one.project)
        )
        yield from islice(hits, limit + 1)


def search_event(run_id: str, recorded: Recorded, query: WordQuery, project: str | None = None) -> Iterator[Hit]:
    """Yield the hit in an event, if there is one: its words may be in several of its texts, a phrase is in one."""
    if texts := event_texts(recorded):
        kind, event_id = word_for(recorded), recorded["id"]
        yield from _hits(texts, query, run_id, recorded["at"], kind, event_id=event_id, project=project)


def search_state(run_id: str, state: dict[str, Any], query: WordQuery, project: str | None = None) -> Iterator[Hit]:
    """Yield the hits in a state, each in one of its texts."""
    at = text_of(state, "updated_at")
    for path, text, entry in _searched_texts(state):
        for hit in _hits([text], query, run_id, at, STATE, path=path, project=project):
            yield hit._replace(entry_at=_time_of(entry))


def _searched_texts(state: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each text of a state, its path, and the list's entry that it is in, or the object that it is a member of.

    The short fields of an entry of a list are one text. Where the run is at work is left out.
    """
    for name, value in state.items():
        if name in PLACE:
            continue
        items = enumerate(value) if isinstance(value, list) and name not in NAMES else ()
        entries = {f"{name}[{number}]": one for number, one in items if isinstance(one, dict)}
        short = {place: _short_fields(entry) for place, entry in entries.items()}
        for place, fields in short.items():
            yield place, ", ".join([f"{key} {text}" for key, text in fields.items()]), entries[place]
        for path, text in state_texts({name: value}):
            place, _, key = path.partition(".")
            if key not in short.get(place, ()):
                is_member = isinstance(value, dict) and "." not in key and "[" not in key
                yield path, text, entries.get(place) or (value if is_member else {})


def _short_fields(entry: dict[str, Any]) -> dict[str, str]:
    """Return the short fields of an entry, but for its times."""
    fields = {name: text_of_value(value) for name, value in entry.items() if not is_time(name)}
    return {name: text for name, text in fields.items() if 0 < len(text) <= LONGEST_FIELD}


def _time_of(entry: dict[str, Any]) -> str | None:
    at = max([seconds_of(value) or 0.0 for name, value in entry.items() if is_time(name)], default=0.0)
    return utc_text(at) if at else None


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
