"""Change a ledger behind the back of its triggers: they are dropped, and created again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from faber_ledger.ledger.file import FORMAT_1, statements

TRIGGERS = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER")]


def forge(ledger: Path, *changes: str) -> None:
    """Execute SQL statements that the triggers of a ledger would refuse."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for text in TRIGGERS:
            connection.execute(f"DROP TRIGGER {text.split()[2]}")
        for change in changes:
            connection.execute(change)
        for text in TRIGGERS:
            connection.execute(text)
