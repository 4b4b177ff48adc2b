"""Find the event, session or artifact of one run's log that a word stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from faber_ledger.ledger.queries import OpenLog, escape_pattern

if TYPE_CHECKING:
    from sqlite3 import Connection

EVENTS = "SELECT seq, id, type, at FROM event"
SESSIONS = "SELECT DISTINCT session_id FROM event WHERE session_id IS NOT NULL"
ARTIFACT_ID = "json_extract(payload, '$.artifact_id')"
ARTIFACTS = (
    f"SELECT DISTINCT {ARTIFACT_ID} FROM event WHERE type IN ('artifact_loaded', 'artifact_failed', 'artifact_skipped')"
)
MAX_MATCHES = 6
LIMIT = f"LIMIT {MAX_MATCHES + 1}"


class Match(NamedTuple):
    """Something that a word may mean: its kind (event, session or artifact), its full id, and a description."""

    kind: str
    id: str
    words: str = ""


def find_matches(open_log: OpenLog, text: str) -> list[Match]:
    """Return what `text` may mean in a log; only exact ids and positions if there are any.

    The text is an event's seq or id, a session's id, its last part or its client's id, or an artifact's id; all but a
    seq may be abbreviated to a prefix. Returns at most 7 of each kind; raises as `open_log`.
    """
    with open_log() as log:
        exact = _find(log.connection, text, whole=True)
        return exact or (_find(log.connection, text, whole=False) if text else [])


def is_client(open_log: OpenLog, text: str) -> bool:
    """Return whether a text is a client's own session id in a log; raises as `open_log`."""
    with open_log() as log:
        found = log.connection.execute("SELECT 1 FROM event WHERE client = ? LIMIT 1", (text,))
        return found.fetchone() is not None


def _texts(connection: Connection, question: str, *values: object) -> list[str]:
    """Return the first column of a question's rows where it is text."""
    return [value for (value,) in connection.execute(question, values) if isinstance(value, str)]


def find_similar(open_log: OpenLog, text: str) -> list[Match]:
    """Return sessions and artifacts spelled like `text`, else the nearest events; raises as `open_log`."""
    import difflib  # at its use: only a mistyped word needs it

    with open_log() as log:
        names = _texts(log.connection, SESSIONS)
        sessions = {name.casefold().rpartition("-")[2]: name for name in names}
        sessions |= {name.casefold(): name for name in names}
        artifacts = {name.casefold(): name for name in _texts(log.connection, ARTIFACTS)}
        found = []
        for kind, known in (("artifact", artifacts), ("session", sessions)):
            close = difflib.get_close_matches(text.casefold(), known, n=3, cutoff=0.5)
            found += [Match(kind, name) for name in dict.fromkeys([known[name] for name in close])]
        if found:
            return found
        if text.isdecimal():
            return _events(log.connection, "ORDER BY seq DESC LIMIT 1")
        below = _events(log.connection, "WHERE id <= ? ORDER BY id DESC LIMIT 1", text.upper())
        return [*below, *_events(log.connection, "WHERE id > ? ORDER BY id LIMIT 1", text.upper())]


def _find(connection: Connection, text: str, *, whole: bool) -> list[Match]:
    upper, pattern = text.upper(), escape_pattern(text)
    if text.isdecimal() and len(text) <= 16 and whole:
        events = _events(connection, f"WHERE seq = ? {LIMIT}", int(text))
    elif whole:
        events = _events(connection, "WHERE id = ?", upper)
    else:
        events = _events(connection, f"WHERE id >= ? AND id < ? {LIMIT}", upper, f"{upper}a")
    if whole:
        wanted = f"{SESSIONS} AND (session_id = ? OR session_id LIKE ? ESCAPE '/' OR client = ?) {LIMIT}"
        sessions = _texts(connection, wanted, text, f"%-{pattern}", text)
        artifacts = _texts(connection, f"{ARTIFACTS} AND {ARTIFACT_ID} = ? {LIMIT}", text)
    else:
        wanted = f"{SESSIONS} AND (session_id LIKE ?1 ESCAPE '/' OR client LIKE ?1 ESCAPE '/') {LIMIT}"
        sessions = _texts(connection, wanted, f"{pattern}%")
        artifacts = _texts(connection, f"{ARTIFACTS} AND {ARTIFACT_ID} LIKE ? ESCAPE '/' {LIMIT}", f"{pattern}%")
    return [*events, *[Match("session", name) for name in sessions], *[Match("artifact", name) for name in artifacts]]


def _events(connection: Connection, which: str, *values: object) -> list[Match]:
    rows = connection.execute(f"{EVENTS} {which}", values)
    return [Match("event", name, f"{seq}, {kind} at {at}") for seq, name, kind, at in rows]
