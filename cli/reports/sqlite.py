"""A full, one-way export of runs to tables for `sqlite3` and Datasette."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.ui.output_file import output_file, replace_file
from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.ledger.foreign import check_types
from faber_ledger.projections.compactions import Compactions
from faber_ledger.projections.fold import Projector, empty
from faber_ledger.projections.history import summarize_sessions
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks


EXPORT_ID = 0x46424C58  # "FBLX", the application id of an export, which another export may replace
OUTCOMES = {"artifact_loaded": "loaded", "artifact_failed": "failed", "artifact_skipped": "skipped"}
BATCH = 1000


def write_database(runs: list[Run], path: str, warn: Callable[[str], None]) -> tuple[int, int]:
    """Write the runs' tables into a new database at `path`, and its metadata beside it; returns counts: events, runs.

    Raises NotWritable, LedgerError if `path` is not an earlier export, and as `Log.read`; both files then stay as they
    were.
    """
    _check_replaceable(path)
    _check_companions(path)
    count, exported = 0, [run for run in runs if not lacks_ledger(run)]
    for run in runs:
        if run not in exported:  # only with --all: a run that was named has a ledger
            warn(f"{run.run_id} is left out: its ledger is empty; see `faber-ledger verify --all`")
    with replace_file(path) as temporary, output_file(metadata_path(path)) as metadata:
        metadata.write(json.dumps(_metadata(path), indent=2, ensure_ascii=False).encode() + b"\n")
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")  # an unfinished file is discarded
                connection.execute(f"PRAGMA application_id = {EXPORT_ID}")
                connection.execute("BEGIN")
                for statement in ddl():
                    connection.execute(statement)
                for run in exported:
                    count += _insert_run(connection, run)
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise NotWritable(
                f"cannot write {path}: {error}", hint="check the space and permissions of its folder"
            ) from error
    return count, len(exported)


def metadata_path(path: str) -> str:
    """Return the path of a database's metadata for Datasette: `audit.metadata.json` for `audit.db`."""
    return f"{os.path.splitext(path)[0]}.metadata.json"


def _check_replaceable(path: str) -> None:
    """Raise LedgerError if the file at `path` is not an earlier export: it may be a ledger."""
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError:
        return  # writing it will say so
    if header and header[68:72] != EXPORT_ID.to_bytes(4, "big"):
        raise LedgerError(f"{path} is not an export, and is not replaced", hint="name another file")


def _check_companions(path: str) -> None:
    """Raise LedgerError if a journal or a log of another database is beside `path`: SQLite would play it into ours.

    A repository can bring one along: it would be played by whoever opens the export, and can delete a file.
    """
    target = os.path.realpath(path)
    for name in [target + suffix for suffix in (JOURNAL_ENDING, "-wal", "-shm")]:
        if os.path.lexists(name):
            raise LedgerError(
                f"{name} is there, and whoever opens {path} would let SQLite play it",
                hint=f"move {name} away, or name another file, then run the command again",
            )


def _metadata(path: str) -> dict[str, Any]:
    """Return what Datasette shows about the database, which it identifies by its file's name."""
    name = os.path.splitext(os.path.basename(path))[0]
    return {"databases": {name: METADATA}}


def _insert_run(connection: sqlite3.Connection, run: Run) -> int:
    """Insert one run into all tables, in one pass over its log; returns the number of its events."""
    run_id, projector = run.run_id, Projector(empty())
    work: tuple[str | None, str | None] = (None, None)
    starts: dict[str, tuple[int, str | None]] = {}
    counted = {"session_started": 0, "compactions": 0, "artifact_loaded": 0}
    compactions = Compactions()
    first = last = None
    pending: list[Recorded] = []
    count = 0
    with read_log(run) as log:
        check_types(log)
        for recorded in read_verified(log):
            event, kind = recorded["event"], recorded["event"]["type"]
            projector.apply(recorded)
            count += 1
            first, last = first or recorded["at"], recorded["at"]
            if kind in counted:
                counted[kind] += 1
            counted["compactions"] += compactions.is_new(dict(event))
            if event["type"] == "run_started":
                work = (event.get("workflow_id"), event.get("work_id"))
            if event["type"] == "session_started":
                starts.setdefault(event["session_id"], (recorded["seq"], recorded["client"]))
            pending.append(recorded)
            if len(pending) == BATCH:
                _flush(connection, run_id, pending)
    _flush(connection, run_id, pending)
    _insert(connection, "runs", [(run_id, *work, first, last, count, *counted.values())])
    _insert(connection, "sessions", _sessions(run_id, projector.blocks, starts))
    return count


def _flush(connection: sqlite3.Connection, run_id: str, pending: list[Recorded]) -> None:
    _insert(connection, "events", [_event(run_id, recorded) for recorded in pending])
    for table, kinds in (("loads", OUTCOMES), ("compactions", ["compaction_completed"])):
        _insert(connection, table, [_details(table, run_id, one) for one in pending if one["event"]["type"] in kinds])
    pending.clear()


def _event(run_id: str, recorded: Recorded) -> tuple[Any, ...]:
    event: dict[str, Any] = dict(recorded["event"])
    kind, session_id = event.pop("type"), event.pop("session_id", None)
    envelope = [recorded[name] for name in ("version", "at", "writer")]
    payload = json.dumps(event, ensure_ascii=False)
    said = (session_id, recorded["client"], int(recorded.get("redacted", False)), payload)
    return (run_id, recorded["seq"], recorded["id"], kind, *envelope, *said)


def _details(table: str, run_id: str, recorded: Recorded) -> tuple[Any, ...]:
    """Return an event as a row of a table whose columns after the first four have the names of its members."""
    event: dict[str, Any] = {"outcome": OUTCOMES.get(recorded["event"]["type"]), **recorded["event"]}
    names = [*TABLES[table].columns][4:]
    return (run_id, recorded["seq"], recorded["id"], recorded["at"], *[_cell(event.get(name)) for name in names])


def _sessions(run_id: str, blocks: Blocks, starts: dict[str, tuple[int, str | None]]) -> Iterator[tuple[Any, ...]]:
    for session in summarize_sessions(blocks):
        started, ended = seconds_of(session["started_at"]), seconds_of(session["ended_at"])
        row = (
            run_id,
            session["session_id"],
            *starts.get(session["session_id"], (None, None)),
            session["hostname"],
            session["platform"],
            session["started_at"],
            session["ended_at"],
            round(ended - started) if started is not None and ended is not None else None,
            session["end_reason"],
            session["newly_completed"],
            session["artifacts_loaded"],
        )
        yield tuple([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    """Return a value as a column holds it: a number or a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int and abs(value) < 2**63:
        return value
    return json.dumps(value, ensure_ascii=False)


def _insert(connection: sqlite3.Connection, table: str, rows: Any) -> None:
    places = ", ".join("?" * len(TABLES[table].columns))
    connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({places})", rows)


class Table(NamedTuple):
    """A table: what it holds, its columns as (type, description), its key, and its indexed columns."""

    words: str
    columns: dict[str, tuple[str, str]]
    key: str
    indexed: tuple[str, ...] = ()


RUN = ("TEXT NOT NULL REFERENCES runs (run_id)", "The run")
EVENT = ("TEXT NOT NULL", "The event's id, a ULID")
SEQ = ("INTEGER NOT NULL", "The event's position; two machines that wrote separately may both use it")
AT = ("TEXT NOT NULL", "When it was recorded: UTC, ISO 8601")
SESSION = ("TEXT", "The session's id")

TABLES = {
    "runs": Table(
        "One row a run",
        {
            "run_id": ("TEXT NOT NULL", "The run's id"),
            "workflow_id": ("TEXT", "The workflow that it carries out"),
            "work_id": ("TEXT", "The work item, for example an issue's number"),
            "first_at": ("TEXT", "When its first event was recorded"),
            "last_at": ("TEXT", "When its last event was recorded"),
            "events": ("INTEGER NOT NULL", "How many events its log has"),
            "sessions": ("INTEGER NOT NULL", "How many sessions started"),
            "compactions": (
                "INTEGER NOT NULL",
                "How many compactions of the main conversation there were, as the timeline counts them",
            ),
            "loads": ("INTEGER NOT NULL", "How many artifacts were given to the agent"),
        },
        "run_id",
    ),
    "events": Table(
        "Every event, in the order (seq, id)",
        {
            "run_id": RUN,
            "seq": SEQ,
            "id": EVENT,
            "type": ("TEXT NOT NULL", "What happened"),
            "version": ("INTEGER NOT NULL", "The version of the type's shape"),
            "at": AT,
            "writer": ("TEXT NOT NULL", "The clone that recorded it"),
            "session_id": SESSION,
            "client": ("TEXT", "The client's own session id"),
            "redacted": ("INTEGER NOT NULL", "1 if its payload was removed, else 0"),
            "payload": ("TEXT NOT NULL", "The rest of what it says, as JSON; once it is redacted, only what may stay"),
        },
        "run_id, seq, id",
        ("type", "session_id"),
    ),
    "sessions": Table(
        "One row a session",
        {
            "run_id": RUN,
            "session_id": ("TEXT NOT NULL", "The session's id"),
            "seq": ("INTEGER", "The position of the event that started it; empty for a session of an older tool"),
            "client": ("TEXT", "The client's own session id"),
            "hostname": ("TEXT", "The machine"),
            "platform": ("TEXT", "Its operating system"),
            "started_at": ("TEXT", "When it started: UTC, ISO 8601"),
            "ended_at": ("TEXT", "When it ended; empty while it is open"),
            "seconds": ("INTEGER", "How long it ran"),
            "end_reason": ("TEXT", "Why it ended"),
            "newly_completed": ("TEXT", "The phases that it completed, as a JSON list"),
            "artifacts_loaded": ("TEXT", "The artifacts that it was given, as a JSON list"),
        },
        "run_id, session_id",
        ("hostname",),
    ),
    "loads": Table(
        "One row for each time that an artifact was loaded, failed to load, or was skipped",
        {
            "run_id": RUN,
            "seq": SEQ,
            "event_id": EVENT,
            "at": AT,
            "outcome": ("TEXT NOT NULL", "loaded, failed or skipped"),
            "session_id": SESSION,
            "artifact_id": ("TEXT", "The artifact"),
            "trigger": ("TEXT", "What made it load"),
            "source": ("TEXT", "Where it came from"),
            "size_bytes": ("INTEGER", "The size of the file"),
            "sha256": ("TEXT", "`keyed:` and the HMAC of the content that the agent was given, with the clone's key"),
            "given": ("TEXT", "How it was given: inline, outline, pointer or deferred"),
            "error": ("TEXT", "Why it failed"),
        },
        "run_id, seq, event_id",
        ("artifact_id", "session_id"),
    ),
    "compactions": Table(
        "One row for each time that the client compacted a conversation",
        {
            "run_id": RUN,
            "seq": SEQ,
            "event_id": EVENT,
            "at": AT,
            "session_id": ("TEXT", "The session's id; empty for a subagent's"),
            "trigger": ("TEXT", "auto or manual"),
            "agent_id": ("TEXT", "The subagent whose conversation it was; empty for the main one"),
            "phase": ("TEXT", "The phase at that time"),
            "step": ("TEXT", "The step at that time"),
        },
        "run_id, seq, event_id",
    ),
}

METADATA: dict[str, Any] = {
    "description": "What happened to the agent's sessions in FABER runs, exported by faber-ledger",
    "tables": {
        name: {
            "description": table.words,
            "columns": {column: words for column, (_, words) in table.columns.items()},
        }
        for name, table in TABLES.items()
    },
}


def ddl() -> Iterator[str]:
    """Yield the statements that create the tables."""
    for name, table in TABLES.items():
        columns = [f'"{column}" {kind}' for column, (kind, _) in table.columns.items()]
        yield f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({table.key}))"
        for column in table.indexed:
            yield f"CREATE INDEX {name}_{column} ON {name} ({column})"
