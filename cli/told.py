"""What `show` tells of an event, a session and an artifact: data, and lines for people."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.loaded_content import kept_contents
from faber_ledger.cli.log import line_of
from faber_ledger.cli.replay import session_lines
from faber_ledger.ledger.log import READ, ROW, Log
from faber_ledger.ledger.queries import Wanted, events
from faber_ledger.ledger.redaction import redactions_in, standing
from faber_ledger.ledger.shapes import is_foldable
from faber_ledger.ledger.union import HASH, hash_of, parents_of
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.difference import changes
from faber_ledger.projections.fold import Projector, fold
from faber_ledger.projections.history import told_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from faber_ledger.context.project import Run

    Teller = Callable[[Run, str], tuple[dict[str, Any], list[str]]]

NEIGHBOUR = "SELECT seq, id, type FROM event WHERE"


def told_event(run: Run, name: str) -> tuple[dict[str, Any], list[str]]:
    """Tell an event: its envelope, what it says, its place among the others, its hashes, and what it changed."""
    with Log.read(run.ledger_path) as log:
        row = log.connection.execute(f"{ROW} WHERE id = ?", (name,)).fetchone()
        parents = [
            parent
            for digest in parents_of(row)
            for parent in log.connection.execute(f"{NEIGHBOUR} hash = ?", (digest,)).fetchall()
        ]
        children = log.connection.execute(
            f"{NEIGHBOUR} seq > ? AND instr(parents, ?) ORDER BY seq, id", (row[0], row[HASH])
        ).fetchall()
        changed = _changes(log, name)
        recorded = log.decoded((*row[:8], row[10]))
        by = [one.id for one in standing(redactions_in(log.connection)).get(name, [])]
    data = {
        "kind": "event",
        "event": recorded,
        "parents": [dict(zip(("seq", "id", "type"), one, strict=True)) for one in parents],
        "children": [dict(zip(("seq", "id", "type"), one, strict=True)) for one in children],
        "hash": row[HASH].hex(),
        "hash_holds": hash_of(row) == row[HASH],
        "is_redacted": row[10] is None,
        "redacted_by": by,
        "changes": changed,
    }
    members = {name: value for name, value in recorded.items() if name not in ("event", "redacted")}
    holds = "" if data["hash_holds"] else ", which does not match what it says: run `faber-ledger verify`"
    return data, [
        line_of(recorded),
        "",
        *[f"{name:<10}  {_text(value)}" for name, value in members.items()],
        f"{'hash':<10}  {data['hash']}{holds}",
        *[f"{'after':<10}  {seq} {other} ({kind})" for seq, other, kind in parents],
        *[f"{'before':<10}  {seq} {other} ({kind})" for seq, other, kind in children],
        "",
        "it says:" if row[10] is not None else f"its payload was redacted by {', '.join(by) or 'nothing'}; what stays:",
        *[f"  {name}: {_text(value)}" for name, value in recorded["event"].items() if name != "type"],
        "",
        "it changed:" if changed else "it changed nothing in state.json",
        *[f"  {one['field']}: {_text(one['before'])} -> {_text(one['after'])}" for one in changed],
    ]


def _changes(log: Log, name: str) -> list[dict[str, Any]]:
    """Give what an event changed in the blocks."""
    projector = Projector(shape.empty())
    for recorded in log.stream():
        if recorded["id"] == name:
            before = copy.deepcopy(projector.blocks)
            projector.apply(recorded)
            found = changes(before, projector.blocks)
            return [{"field": field, "before": one, "after": other} for field, one, other in found]
        projector.apply(recorded)
    return []


def told_session(run: Run, session_id: str) -> tuple[dict[str, Any], list[str]]:
    """Tell a session: where and how long it ran, what it came to, and its events."""
    with Log.read(run.ledger_path) as log:
        told = next((one for one in told_sessions(fold(log.stream())) if one["session_id"] == session_id), None)
    found = list(events(run.ledger_path, Wanted(session=session_id)))
    clients = sorted({recorded["client"] for recorded in found if recorded["client"]})
    writers = sorted({recorded["writer"] for recorded in found})
    data = {"kind": "session", "session": told, "clients": clients, "writers": writers, "events": found}
    return data, [
        *(session_lines(told) if told is not None else [session_id]),
        f"  the client's session: {', '.join(clients) or 'unknown'}",
        f"  written by: {', '.join(writers)}",
        "",
        *[line_of(recorded) for recorded in found],
    ]


def told_artifact(run: Run, artifact_id: str) -> tuple[dict[str, Any], list[str]]:
    """Tell an artifact: each load with its digest, whether that content is still to be had, failures and skips."""
    with Log.read(run.ledger_path) as log:
        rows = log.connection.execute(
            f"{READ} WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped')"
            " AND (payload IS NULL OR json_extract(payload, '$.artifact_id') = ?) ORDER BY seq, id",
            (artifact_id,),
        )
        decoded = [log.decoded(row) for row in rows]
        found = [one for one in decoded if one["event"].get("artifact_id") == artifact_id]
    loads = [{"at": one["at"], "event_id": one["id"], **one["event"]} for one in found if is_foldable(one)]
    loads = [load for load in loads if load["type"] == "artifact_loaded" and isinstance(load.get("sha256"), str)]
    contents = _contents(run, loads)
    data = {
        "kind": "artifact",
        "artifact_id": artifact_id,
        "contents": contents,
        "loads": loads,
        "failed": [one for one in found if _kind(one) == "failed"],
        "skipped": [one for one in found if _kind(one) == "skipped"],
    }
    counts = f"{len(loads)} loads, {len(data['failed'])} failed, {len(data['skipped'])} skipped"
    return data, [f"{artifact_id}: {counts}", "", *_content_lines(contents), *[line_of(one) for one in found]]


def _contents(run: Run, loads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each content that was loaded, in the order of the first loads, and where it is to be had."""
    contents: dict[tuple[str, str], dict[str, Any]] = {}
    for load in loads:
        content = contents.setdefault(
            (load["source"], load["sha256"]),
            {
                "sha256": load["sha256"],
                "source": load["source"],
                "size_bytes": load["size_bytes"],
                "first_at": load["at"],
                "loads": 0,
                "found_in": None,
            },
        )
        content["last_at"] = load["at"]
        content["loads"] += 1
    for source in dict.fromkeys([source for source, _ in contents]):
        wanted = {digest for other, digest in contents if other == source}
        for digest, kept in kept_contents(run.root, source, wanted).items():
            contents[source, digest]["found_in"] = kept.where
    return list(contents.values())


def _content_lines(contents: list[dict[str, Any]]) -> Iterator[str]:
    for content in contents:
        span = content["first_at"] + ("" if content["loads"] == 1 else f" to {content['last_at']}")
        times = f"{content['loads']} load{'' if content['loads'] == 1 else 's'}"
        where = content["found_in"] or "nowhere any more"
        yield f"sha256 {content['sha256'][:12]}  {content['size_bytes']} bytes  {span}  {times}  to be had in: {where}"
    yield ""


def _kind(recorded: Any) -> str:
    kind: str = recorded["event"]["type"]
    return kind.removeprefix("artifact_")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


TELLERS: dict[str, Teller] = {"event": told_event, "session": told_session, "artifact": told_artifact}
