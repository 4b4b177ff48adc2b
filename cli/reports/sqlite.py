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
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.ledger.verify import read_verified
from faber_ledger.projections.fold import Projector, empty
from faber_ledger.projections.history import Agents, summarize_sessions
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


TABLES = """\
CREATE TABLE events (
  run_id TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL,
  version INTEGER NOT NULL, at TEXT NOT NULL, writer TEXT NOT NULL, session_id TEXT, client TEXT,
  redacted INTEGER NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (run_id, seq, id)
);
CREATE INDEX events_type ON events (type);
CREATE INDEX events_session_id ON events (session_id);
CREATE TABLE sessions (
  run_id TEXT NOT NULL, session_id TEXT NOT NULL, agent TEXT, agent_version TEXT, hostname TEXT, platform TEXT,
  started_at TEXT, ended_at TEXT, seconds INTEGER, end_reason TEXT, newly_completed TEXT, artifacts_loaded TEXT,
  PRIMARY KEY (run_id, session_id)
);
CREATE VIEW runs AS SELECT run_id,
  max(CASE type WHEN 'run_started' THEN json_extract(payload, '$.workflow_id') END) AS workflow_id,
  max(CASE type WHEN 'run_started' THEN json_extract(payload, '$.work_id') END) AS work_id,
  min(at) AS first_at, max(at) AS last_at, count(*) AS events, sum(type = 'session_started') AS sessions,
  sum(type = 'artifact_loaded') AS loads FROM events GROUP BY run_id;
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


def write_database(runs: list[Run], path: str, warn: Callable[[str], None]) -> tuple[int, int]:
    """Write the runs' tables into a new database at `path`; returns counts: events, runs.

    Raises NotWritable, LedgerError if a file is there, and as `Log.read`; no file is left behind then.
    """
    _check_is_new(path)
    count, exported = 0, [run for run in runs if not lacks_ledger(run)]
    for run in runs:
        if run not in exported:  # only with --all: a run that was named has a ledger
            warn(f"{run.run_id} is left out: its ledger is empty; see `faber-ledger verify --all`")
    with replace_file(path) as temporary:
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = OFF")  # an unfinished file is discarded
                connection.executescript(f"BEGIN; {TABLES}")
                for run in exported:
                    count += _insert_run(connection, run)
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise NotWritable(
                f"cannot write {path}: {error}", hint="check the space and permissions of its folder"
            ) from error
    return count, len(exported)


def _check_is_new(path: str) -> None:
    """Raise LedgerError if `path` is there, which may be a ledger, or a journal that SQLite would play into ours.

    A repository can bring one along: it would be played by whoever opens the export, and can delete a file.
    """
    target = os.path.realpath(path)
    for name in [target + suffix for suffix in ("", JOURNAL_ENDING, "-wal", "-shm")]:
        if os.path.lexists(name):
            raise LedgerError(f"{name} is there already", hint=f"move {name} away, or name another file")


def _insert_run(connection: sqlite3.Connection, run: Run) -> int:
    """Insert one run into all tables, in one pass over its log; returns the number of its events."""
    projector, agents, count = Projector(empty()), Agents(), 0
    with read_log(run) as log:
        for recorded in read_verified(log):
            projector.apply(recorded)
            agents.note(recorded)
            count += 1
            _insert(connection, "events", {"run_id": run.run_id, **_event(recorded)})
    for session in summarize_sessions(projector.blocks, agents):
        ran = ran_seconds(session)
        about = {"run_id": run.run_id, "seconds": round(ran) if ran is not None else None}
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
