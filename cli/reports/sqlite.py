"""A full, one-way export of runs to tables for `sqlite3` and Datasette."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.output_file import replace_file
from faber_ledger.cli.ui.words import ran_seconds
from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.ledger.foreign import check_types
from faber_ledger.projections.fold import Projector, empty
from faber_ledger.projections.history import Agents, Compactions, summarize_sessions
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


EXPORT_ID = 0x46424C58  # "FBLX", the application id of an export, which another export may replace
TABLES = """\
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY, workflow_id TEXT, work_id TEXT, first_at TEXT, last_at TEXT, events INTEGER NOT NULL,
  sessions INTEGER NOT NULL, compactions INTEGER NOT NULL, loads INTEGER NOT NULL
);
CREATE TABLE events (
  run_id TEXT NOT NULL REFERENCES runs, seq INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL,
  version INTEGER NOT NULL, at TEXT NOT NULL, writer TEXT NOT NULL, session_id TEXT, client TEXT,
  redacted INTEGER NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (run_id, seq, id)
);
CREATE INDEX events_type ON events (type);
CREATE INDEX events_session_id ON events (session_id);
CREATE TABLE sessions (
  run_id TEXT NOT NULL REFERENCES runs, session_id TEXT NOT NULL, seq INTEGER, client TEXT, agent TEXT,
  agent_version TEXT, hostname TEXT, platform TEXT,
  started_at TEXT, ended_at TEXT, seconds INTEGER, end_reason TEXT, newly_completed TEXT,
  artifacts_loaded TEXT, PRIMARY KEY (run_id, session_id)
);
CREATE VIEW loads AS SELECT run_id, seq, id AS event_id, at, substr(type, 10) AS outcome, session_id,
  json_extract(payload, '$.artifact_id') AS artifact_id, json_extract(payload, '$.trigger') AS "trigger",
  json_extract(payload, '$.source') AS source, json_extract(payload, '$.size_bytes') AS size_bytes,
  json_extract(payload, '$.sha256') AS sha256, json_extract(payload, '$.given') AS given,
  json_extract(payload, '$.error') AS error
  FROM events WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped');
CREATE VIEW compactions AS SELECT run_id, seq, id AS event_id, at, session_id,
  json_extract(payload, '$.trigger') AS "trigger", json_extract(payload, '$.agent_id') AS agent_id,
  json_extract(payload, '$.phase') AS phase, json_extract(payload, '$.step') AS step
  FROM events WHERE type = 'compaction_completed';
"""
INSERT_RUN = """\
INSERT INTO runs SELECT :run_id, :workflow_id, :work_id, min(at), max(at), count(*),
  sum(type = 'session_started'), :compactions, sum(type = 'artifact_loaded') FROM events WHERE run_id = :run_id"""


def write_database(runs: list[Run], path: str, warn: Callable[[str], None]) -> tuple[int, int]:
    """Write the runs' tables into a new database at `path`; returns counts: events, runs.

    Raises NotWritable, LedgerError if `path` is not an earlier export, and as `Log.read`; the file then stays as it
    was.
    """
    _check_replaceable(path)
    _check_companions(path)
    count, exported = 0, [run for run in runs if not lacks_ledger(run)]
    for run in runs:
        if run not in exported:  # only with --all: a run that was named has a ledger
            warn(f"{run.run_id} is left out: its ledger is empty; see `faber-ledger verify --all`")
    with replace_file(path) as temporary:
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")  # an unfinished file is discarded
                connection.execute(f"PRAGMA application_id = {EXPORT_ID}")
                connection.executescript(f"BEGIN; {TABLES}")
                for run in exported:
                    count += _insert_run(connection, run)
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise NotWritable(
                f"cannot write {path}: {error}", hint="check the space and permissions of its folder"
            ) from error
    return count, len(exported)


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


def _insert_run(connection: sqlite3.Connection, run: Run) -> int:
    """Insert one run into all tables, in one pass over its log; returns the number of its events."""
    projector, compactions, agents = Projector(empty()), Compactions(), Agents()
    starts: dict[str, tuple[int, str | None]] = {}
    facts: dict[str, Any] = {"run_id": run.run_id, "workflow_id": None, "work_id": None, "compactions": 0}
    count = 0
    with read_log(run) as log:
        check_types(log)
        for recorded in read_verified(log):
            event = recorded["event"]
            projector.apply(recorded)
            agents.note(recorded)
            count += 1
            facts["compactions"] += compactions.is_new(dict(event))
            if event["type"] == "run_started":
                facts |= {"workflow_id": event.get("workflow_id"), "work_id": event.get("work_id")}
            if event["type"] == "session_started":
                starts.setdefault(event["session_id"], (recorded["seq"], recorded["client"]))
            _insert(connection, "events", {"run_id": run.run_id, **_event(recorded)})
    connection.execute(INSERT_RUN, {name: _cell(value) for name, value in facts.items()})
    for session in summarize_sessions(projector.blocks, agents):
        ran = ran_seconds(session)
        seconds = round(ran) if ran is not None else None
        seq, client = starts.get(session["session_id"], (None, None))
        about = {"run_id": run.run_id, "seq": seq, "client": client, "seconds": seconds}
        _insert(connection, "sessions", {**about, **session})
    return count


def _event(recorded: Recorded) -> dict[str, Any]:
    event: dict[str, Any] = dict(recorded["event"])
    said = {"type": event.pop("type"), "session_id": event.pop("session_id", None)}
    columns = {name: recorded[name] for name in ("seq", "id", "version", "at", "writer", "client")}
    redacted = int(recorded.get("redacted", False))
    return {**columns, **said, "redacted": redacted, "payload": json.dumps(event, ensure_ascii=False)}


def _cell(value: Any) -> Any:
    """Return a value as a column holds it: a number or a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int and abs(value) < 2**63:
        return value
    return json.dumps(value, ensure_ascii=False)


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    places = ", ".join([f":{name}" for name in row])
    cells = {name: _cell(value) for name, value in row.items()}
    connection.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({places})", cells)
