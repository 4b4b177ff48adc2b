"""Events that no ledger writes, put into a ledger's file as somebody who can push would."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.encoding import COLUMNS, HASH, INSERT, ROW, canonical, compute_hash

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.ledger.encoding import Row

FORGED_ID = "7ZZZZZZZZZZZZZZZZZZZZZZZZ0"
HUGE = 2**53 - 1


def forged_row(ledger: Path, **changes: Any) -> Row:
    """Return a note's row after the newest event of a ledger, with columns changed; its hash holds unless given."""
    with closing(sqlite3.connect(ledger)) as connection:
        newest = connection.execute(f"{ROW} ORDER BY seq DESC, id DESC LIMIT 1").fetchone()
    note = {"kind": "note", "text": "FORGED", "phase": None, "step": None}
    row = {
        **dict(zip(COLUMNS, newest, strict=True)),
        "seq": newest[0] + 1,
        "id": FORGED_ID,
        "type": "note_recorded",
        "parents": newest[HASH],
        "salt": bytes(16),
        "payload": canonical(note),
        "payload_hash": None,
        **changes,
    }
    made = tuple(row[name] for name in COLUMNS)
    return made if "hash" in changes else (*made[:HASH], compute_hash(made))


def add_head(ledger: Path, row: Row) -> None:
    """Insert a row as a ledger's only head."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute(INSERT, row)
        connection.execute("DELETE FROM head")
        connection.execute("INSERT INTO head (seq, hash) VALUES (?, ?)", (row[0], row[HASH]))
        connection.execute("COMMIT")


def forge_event(ledger: Path, **changes: Any) -> Row:
    """Insert what `forged_row` returns as the only head, and return it."""
    row = forged_row(ledger, **changes)
    add_head(ledger, row)
    return row
