"""Which payloads redactions remove, and how a payload is removed from a log's file.

A redaction removes the whole payload of one event; the event keeps its envelope, its `hash` and the salted hash of its
payload, so that every later event stays valid. Of the redactions and undos of an event the last in the log's order
counts, but a redaction by the event's own writer is undone by that writer alone. Neither kind can be redacted.
"""

from __future__ import annotations

from faber_ledger.ledger.encoding import COLUMNS, HASH, ID, PAYLOAD, SALT, TYPE, loads, payload_hash
from faber_ledger.ledger.file import FORMAT_1, statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from faber_ledger.ledger.encoding import Row

REDACTED, UNDONE = "event_redacted", "redaction_undone"
# Words of a closed vocabulary, which reveal nothing.
WORDS = frozenset(
    [
        *("frame", "architect", "build", "evaluate", "release"),
        *("startup", "resume", "clear", "compact", "compaction", "normal", "manual", "abandoned", "auto"),
        *("session_start", "phase_start", "phase_transition", "compaction_detected"),
        *("inline", "outline", "pointer", "deferred", "repeated", "subagent", "note", "summary", "decision"),
        *("pending", "in_progress", "paused", "awaiting_feedback", "completed", "failed", "cancelled"),
    ]
)
KINDS = (REDACTED, UNDONE)
EVERY = f"SELECT id, type, writer, payload FROM event WHERE type IN {KINDS} ORDER BY seq, id"
NEVER_UPDATED = next(text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_is_never_updated"))


class Redaction:
    """A redaction of an event, or an undo of one (`is_undo`): its own id and writer, and the event's id, `target`."""

    def __init__(self, name: str, kind: str, writer: str, target: str) -> None:
        self.id = name
        self.is_undo = kind == UNDONE
        self.writer = writer
        self.target = target


def redaction_of(name: str, kind: str, writer: str, payload: str | None) -> Redaction | None:
    """Read a redaction or an undo; None if it is not what this program writes: then it has no effect."""
    try:
        read = loads(payload or "")
        target, reason = read["event_id"], read["reason"]
        if set(read) == {"event_id", "reason"} and isinstance(target, str) and isinstance(reason, str | None):
            return Redaction(name, kind, writer, target)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return None


def redactions_in(connection: sqlite3.Connection) -> list[Redaction]:
    """Return the redactions and undos of a log that are what this program writes, in the log's order."""
    return [one for row in connection.execute(EVERY).fetchall() if (one := redaction_of(*row)) is not None]


def effective_redactions(connection: sqlite3.Connection) -> dict[str, Redaction]:
    """Return the events of a log whose payload is redacted, each with the redaction that counts."""
    own: dict[str, Redaction] = {}
    of_others: dict[str, Redaction] = {}
    question = "SELECT type, writer FROM event WHERE id = ?"
    for row in connection.execute(EVERY).fetchall():  # a hook's start pays for each call
        one = redaction_of(*row)
        if one is None:
            continue
        target = connection.execute(question, (one.target,)).fetchone()
        if target is None or target[0] in KINDS:
            continue
        is_own = target[1] == one.writer
        if one.is_undo:
            of_others.pop(one.target, None)
            if is_own:
                own.pop(one.target, None)
        else:
            (own if is_own else of_others)[one.target] = one
    return {**of_others, **own}


def rows_to_strip(connection: sqlite3.Connection) -> list[Row]:
    """Return the rows of a log that still have a payload although it is redacted."""
    question = f"SELECT {', '.join(COLUMNS)} FROM event WHERE id = ? AND payload IS NOT NULL"
    return [row for name in effective_redactions(connection) for row in connection.execute(question, (name,))]


def restore_rows(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Put the payloads of these rows back into a log's open transaction; raises sqlite3.Error."""
    names = [*COLUMNS][TYPE:HASH]
    connection.execute("DROP TRIGGER event_is_never_updated")
    connection.executemany(
        f"UPDATE event SET {', '.join([f'{name} = ?' for name in names])} WHERE id = ?",
        [(*row[TYPE:HASH], row[ID]) for row in rows],
    )
    connection.execute(NEVER_UPDATED)


def without_payload(row: Row) -> Row:
    """Replace a row's salt and payload by the payload's hash."""
    if row[PAYLOAD] is None or row[SALT] is None:
        return row
    return (*row[:SALT], None, None, payload_hash(row[SALT], row[PAYLOAD]), *row[12:])


def strip_in_place(connection: sqlite3.Connection, gone: Iterable[str]) -> None:
    """Remove these events' payloads from a log in its open transaction.

    Freed pages may still hold them: after the commit, the caller runs VACUUM, which writes the file again.
    """
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("DROP TRIGGER event_is_never_updated")
    question = "SELECT salt, payload FROM event WHERE id = ? AND salt IS NOT NULL AND payload IS NOT NULL"
    change = "UPDATE event SET salt = NULL, payload = NULL, payload_hash = ? WHERE id = ?"
    for name in gone:
        for salt, payload in connection.execute(question, (name,)).fetchall():
            connection.execute(change, (payload_hash(salt, payload), name))
    connection.execute(NEVER_UPDATED)


def texts_of(value: Any) -> set[str]:
    """Return the texts in a value, without the names of its members and the words of a closed vocabulary."""
    if isinstance(value, str):
        return {value} - WORDS
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for one in inner for text in texts_of(one)}
