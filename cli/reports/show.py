"""What `show` prints for an event, a session or an artifact: data, and lines for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.event_words import line_of, refused_shown
from faber_ledger.cli.ui.words import change_data, change_line, session_data, session_table
from faber_ledger.ledger.encoding import HASH, PARENTS, READ, ROW, compute_hash, decode_row
from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.ledger.gate import find_form_fault, shown_id
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.queries import EventQuery, find_events
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.projections.difference import apply_event
from faber_ledger.projections.fold import Projector, empty, fold
from faber_ledger.projections.history import SessionFacts, summarize_sessions
from faber_ledger.runs.absorb import machine_of_clone
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change


Describe = Callable[[Run, str], tuple[dict[str, Any], list[str]]]


def describe_event(run: Run, name: str) -> tuple[dict[str, Any], list[str]]:
    """Describe an event: its envelope, what it says, its hash, and what it changed.

    If no ledger writes such an envelope, only the event's id is described.
    """
    with read_log(run) as log:
        row = log.connection.execute(f"{ROW} WHERE id = ?", (name,)).fetchone()
        if (why := find_form_fault(row[:PARENTS])) is not None:
            return {"kind": "event", "event": {"id": shown_id(name)}, "refused": why}, [refused_shown(name), why]
        changed = _changes(log, name)
        recorded = decode_row((*row[:8], row[10]))
        by = effective_redactions(log.connection).get(name)
        machine = _machine_of(run, log, recorded["writer"])
        redactor = by and (_machine_of(run, log, by.writer) or f"clone {by.writer}")
    data = {
        "kind": "event",
        "event": recorded,
        "hash": row[HASH].hex(),
        "hash_holds": compute_hash(row) == row[HASH],
        "is_redacted": row[10] is None,
        "redacted_by": by.id if by is not None else None,
        "changes": [change_data(change) for change in changed],
    }
    left = f"its payload was redacted on {redactor}, by event {by.id}" if by is not None else "its payload is gone"
    members = {name: value for name, value in recorded.items() if name not in ("event", "redacted")}
    members["writer"] = f"{recorded['writer']}, on {machine}" if machine else recorded["writer"]
    holds = "" if data["hash_holds"] else ", which does not match what it says: run `faber-ledger verify`"
    return data, [
        line_of(recorded),
        "",
        *[line for name, value in members.items() for line in _member_lines(f"{name:<10}  ", value)],
        f"{'hash':<10}  {data['hash']}{holds}",
        "",
        "it says:" if row[10] is not None else left,
        *[
            line
            for name, value in (recorded["event"].items() if row[10] is not None else ())
            if name != "type"
            for line in _member_lines(f"  {name}: ", value)
        ],
        "",
        "it changed:" if changed else "it changed nothing in state.json",
        *[f"  {change_line(change)}" for change in changed],
    ]


def _machine_of(run: Run, log: Log, writer: str) -> str | None:
    is_own = writer == known_writer(run.root)
    return machine_of_clone(run, log, writer) or ("this machine" if is_own else None)


def _changes(log: Log, name: str) -> list[Change]:
    """Return what an event changed in the blocks."""
    projector = Projector(empty())
    for recorded in log.stream():
        if recorded["id"] == name:
            return apply_event(projector, recorded)
        projector.apply(recorded)
    return []


def describe_session(run: Run, session_id: str) -> tuple[dict[str, Any], list[str]]:
    """Describe a session: where and how long it ran, what it completed and loaded, and its events."""
    found = list(find_events(partial(read_log, run), EventQuery(session=session_id)))
    with read_log(run) as log:
        sessions = summarize_sessions(fold(log.stream()), SessionFacts(log.stream()))
        session = next((one for one in sessions if one["session_id"] == session_id), None)
    clients = sorted({recorded["client"] for recorded in found if recorded["client"]})
    data = {
        "kind": "session",
        "session": session and session_data(session),
        "clients": clients,
        "writers": sorted({recorded["writer"] for recorded in found}),
        "events": found,
    }
    return data, [
        session_id,
        f"  the client's session: {', '.join(clients) or 'unknown'}",
        "",
        *([*session_table([session]), ""] if session is not None else []),
        *map(line_of, found),
    ]


def describe_artifact(run: Run, artifact_id: str) -> tuple[dict[str, Any], list[str]]:
    """Describe an artifact: its loads, failures and skips."""
    with read_log(run) as log:
        rows = log.connection.execute(
            f"{READ} WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped')"
            " AND (payload IS NULL OR json_extract(payload, '$.artifact_id') = ?) ORDER BY seq, id",
            (artifact_id,),
        )
        found = [one for one in map(decode_row, rows) if one["event"].get("artifact_id") == artifact_id]
    loaded, failed, skipped = (
        [one for one in found if one["event"]["type"] == f"artifact_{kind}"] for kind in ("loaded", "failed", "skipped")
    )
    data = {
        "kind": "artifact",
        "artifact_id": artifact_id,
        "loads": [load for one in loaded if (load := _load_of(one)) is not None],
        "failed": failed,
        "skipped": skipped,
    }
    summary = f"{len(loaded)} loads, {len(failed)} failed, {len(skipped)} skipped"
    return data, [f"{artifact_id}: {summary}", "", *map(line_of, found)]


def _load_of(recorded: Recorded) -> dict[str, Any] | None:
    """Return a load's data; None for one that cannot be read."""
    event: dict[str, Any] = dict(recorded["event"])
    if not is_foldable(recorded) or not isinstance(event.get("sha256"), str):
        return None
    return {"at": recorded["at"], "event_id": recorded["id"], "writer": recorded["writer"], **event}


def _member_lines(head: str, value: Any) -> list[str]:
    """Return a member as lines; the further lines of a text are indented, so that none looks like a member's first."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, *others = text.replace("\r\n", "\n").split("\n")
    return [f"{head}{first}", *[f"    | {line}" for line in others]]


DESCRIBE: dict[str, Describe] = {"event": describe_event, "session": describe_session, "artifact": describe_artifact}
