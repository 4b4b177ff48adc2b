"""Find the ids in a log that begin with a prefix, for a shell to complete; bounded, and quick in the longest log."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.log import Log

END = 10
NEWEST = 1000
EVENTS = "SELECT id, type || ' at ' || at FROM event WHERE id >= ? AND id < ?"
SESSIONS = (
    "SELECT session_id, 'session of ' || at FROM event"
    " WHERE type = 'session_started' AND session_id >= ? AND session_id < ?"
)
ARTIFACTS = (
    "SELECT DISTINCT json_extract(payload, '$.artifact_id') FROM (SELECT type, payload FROM event ORDER BY seq DESC, id"
    f" DESC LIMIT {NEWEST}) WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped')"
)


def events_with(log: Log, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the events whose id begins with `prefix`, each with a description.

    If there are many, only the first and the last: what these have in common, which a shell completes, all have.
    """
    yield from _both_ends(log, EVENTS, "id", prefix.upper())


def sessions_with(log: Log, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the sessions whose id begins with `prefix`, as `events_with` does for events."""
    yield from _both_ends(log, SESSIONS, "session_id", prefix)


def artifacts_with(log: Log, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the artifacts of the newest events whose id begins with `prefix`."""
    for (name,) in log.connection.execute(ARTIFACTS):
        if isinstance(name, str) and name.startswith(prefix):
            yield name, "artifact"


def _both_ends(log: Log, question: str, column: str, prefix: str) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for order in ("ASC", "DESC"):
        bounded = f"{question} ORDER BY {column} {order} LIMIT {END}"
        found |= dict(log.connection.execute(bounded, (prefix, f"{prefix}\U0010ffff")).fetchall())
    yield from sorted(found.items())
