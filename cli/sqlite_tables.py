"""The tables that `export --sqlite` writes, each column with its words for Datasette: told once, here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Table(NamedTuple):
    """A table: what it holds, its columns as (type, words), its key, and the columns that are asked for."""

    words: str
    columns: dict[str, tuple[str, str]]
    key: str
    indexed: tuple[str, ...] = ()


RUN = ("TEXT NOT NULL REFERENCES runs (run_id)", "The run")
EVENT = ("TEXT NOT NULL", "The event's id, a ULID")
SEQ = ("INTEGER NOT NULL", "The event's position; two machines that wrote apart may share one")
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
            "redacted": ("INTEGER NOT NULL", "1 if its payload was taken out, else 0"),
            "payload": ("TEXT NOT NULL", "All else that it says, as JSON; what may stay of it, once it is redacted"),
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
            "sha256": ("TEXT", "The SHA-256 of the content that the agent was given"),
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
    """Give the statements that make the tables."""
    for name, table in TABLES.items():
        columns = [f'"{column}" {kind}' for column, (kind, _) in table.columns.items()]
        yield f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({table.key}))"
        for column in table.indexed:
            yield f"CREATE INDEX {name}_{column} ON {name} ({column})"
