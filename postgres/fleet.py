"""Who works on what: the runs that the login sees on a server, folded from the few events that tell about sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeAlias

from faber_ledger.ledger.encoding import COLUMNS, decode_row
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.events import Recorded
from faber_ledger.postgres.ask import NONE, absurd_answer, ask
from faber_ledger.postgres.project import Origin, find_origins
from faber_ledger.postgres.server import Server
from faber_ledger.projections.fold import fold, newest_open, open_sessions, session_history
from faber_ledger.projections.history import SessionFacts, count_compactions, machines_of, summarize_sessions
from faber_ledger.projections.usage import Usage

PAGE = 100  # runs whose sessions are read together
STARTED = "session_started"
LONGEST = 200  # characters of a text: a row of the table is as wide as its longest one
NEWEST: dict[str, Any] = dict.fromkeys(("run_id", "id", "type", "at", "writer", "pushed_by"), str)
OF_SESSIONS: dict[str, Any] = {
    name: COLUMNS[name] for name in ("seq", "id", "type", "version", "at", "writer", "session_id", "client", "payload")
}
OF_STATES: dict[str, Any] = {"run_id": str, "state": (dict, NONE), "pushed_by": str}


class Found(NamedTuple):
    """A run, what its newest state says, what it cost, and what began its open or newest session.

    `login` is that of the clone that wrote it, `brought_by` the one that pushed it, and `state_by` the one that pushed
    its state.

    The run is one across machines: its newest session's `machine` and `agent`, its state's `phase` and `status`, if
    known, and its `last_event`, the newest by the time at which it was recorded.
    """

    run: dict[str, Any]
    state: dict[str, Any]
    usage: Usage
    start: Recorded | None
    login: str | None
    brought_by: str
    state_by: str | None


Newest: TypeAlias = tuple[str, str, dict[str, str]]  # a project, a run in it, and its newest event


def find_runs(server: Server, projects: Sequence[str]) -> Iterator[Found]:
    """Yield the runs of projects, that with the newest event first; raises as `Server.transaction`."""
    newest: list[Newest] = []
    for project in projects:
        for run_id, *last in server.ask("newest_of_runs", NEWEST, project=project):
            newest.append((project, run_id, dict(zip([*NEWEST][1:], last, strict=True))))
    newest.sort(key=lambda one: (one[2]["id"], *one[:2]), reverse=True)
    rest = iter(newest)
    while page := list(islice(rest, PAGE)):
        yield from _read_page(server, page)


def _read_page(server: Server, page: Sequence[Newest]) -> Iterator[Found]:
    """Yield these runs, with their sessions and what their newest state says."""
    found: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    states: dict[tuple[str, str], tuple[dict[str, Any], str | None]] = defaultdict(lambda: ({}, None))
    projects = {project for project, _, _ in page}
    for project in projects:
        asked: dict[str, Any] = {"project": project, "runs": [run_id for of, run_id, _ in page if of == project]}
        with server.transaction() as connection:
            rows = ask(connection, "session_events", {"run_id": str, **OF_SESSIONS}, **asked)
            for run_id, of_run in groupby(rows, key=lambda row: row[0]):
                found[project, run_id] = _decode([row[1:] for row in of_run])
            for run_id, state, login in ask(connection, "newest_states", OF_STATES, **asked):
                states[project, run_id] = state or {}, login
    runs = [_summarize(*one, found[one[:2]], states[one[:2]][0]) for one in page]
    named = [(*one[:2], (start or one[2])["id"]) for one, (_, start) in zip(page, runs, strict=True)]
    origins: dict[tuple[str, str, str], Origin] = {}
    for project in projects:
        asked_of = [one[1:] for one in named if one[0] == project]
        origins |= {(project, *name): origin for name, origin in find_origins(server, project, asked_of).items()}
    for one, (run, start) in zip(named, runs, strict=True):
        if one not in origins:
            raise absurd_answer("who_brought")
        state, state_by = states[one[:2]]
        yield Found(run, state, Usage(found[one[:2]]), start, origins[one].login, origins[one].brought_by, state_by)


def _decode(rows: Sequence[tuple[Any, ...]]) -> list[Recorded]:
    """Decode the rows of a run; malformed ones are left out."""
    events = []
    for row in rows:
        try:
            events.append(decode_row(row))
        except IntegrityError:
            continue
    return events


def _summarize(
    project: str, run_id: str, last: dict[str, str], events: Sequence[Recorded], state: dict[str, Any]
) -> tuple[dict[str, Any], Recorded | None]:
    blocks = fold(events)
    sessions = list(summarize_sessions(blocks, SessionFacts(events)))
    machines = machines_of(sessions)
    starts = {event.get("session_id"): one for one in events if (event := dict(one["event"]))["type"] == STARTED}
    run = {
        "project": project,
        "run_id": run_id,
        "work_id": _text(state.get("work_id")) or _newest_of(events, "work_id"),
        "status": _text(state.get("status")),
        "phase": _text(state.get("current_phase")) or _newest_of(events, "phase"),
        "machine": machines[-1] if machines else None,
        "agent": sessions[-1]["agent"] if sessions else None,
        "machines": sorted(set(machines)),
        "writers": sorted({last["writer"], *[recorded["writer"] for recorded in events]}),
        "sessions": len(session_history(blocks)),
        "open_sessions": open_sessions(blocks),
        "abandoned": sum([session["end_reason"] == "abandoned" for session in sessions]),
        "compactions": count_compactions(sessions),
        "last_event": last,
    }
    return run, starts.get(newest_open(blocks) or "".join([one["session_id"] for one in sessions[-1:]]))


def _newest_of(events: Iterable[Recorded], name: str) -> str | None:
    """Return a text that the newest event which has one names."""
    texts = [_text(dict(recorded["event"]).get(name)) for recorded in events]
    return next((found for found in reversed(texts) if found), None)


def _text(value: object) -> str | None:
    return str(value)[:LONGEST] if isinstance(value, str) or type(value) is int else None
