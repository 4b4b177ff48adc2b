"""A run's log at a glance."""

from __future__ import annotations

from typing import NamedTuple

from faber_ledger.ledger.log import Log


class Summary(NamedTuple):
    """A run's log at a glance; the last event's time and type are None for an empty log."""

    events: int
    sessions: int
    last_at: str | None
    last_type: str | None


def summarize(log: Log) -> Summary:
    """Return the number of a log's events and sessions, and its last event."""
    events = count_events(log)
    (sessions,) = log.connection.execute("SELECT count(*) FROM event WHERE type = 'session_started'").fetchone()
    for last in log.newest(1):
        return Summary(events, sessions, last["at"], last["event"]["type"])
    return Summary(events, sessions, None, None)


def count_events(log: Log) -> int:
    """Return the number of a log's events, whatever they hold."""
    # Without the inner query SQLite counts in one step, which nothing can stop, however a forged file's pages are tied.
    found: tuple[int] = log.connection.execute("SELECT count(*) FROM (SELECT 1 FROM event LIMIT -1)").fetchone()
    return found[0]
