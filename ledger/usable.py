"""Which payloads of a log must not be shown although its file has them, and a copy of the log without these.

A redaction hides what it removes wherever the payload still is, as a peer may have left it; and where nothing has
judged a file yet, as in a fresh clone, a payload that no reader can use is hidden, too.
"""

from __future__ import annotations

from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.gate import examine, find_payload_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ANY_REDACTION, ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = tuple[Any, ...]


def hide_unusable(log: Log) -> Log:
    """Return a copy of a log in memory without such payloads, and close the log; the log itself if it has none."""
    gone: list[str] = []
    if log.connection.execute(ANY_REDACTION).fetchone() is not None:
        from faber_ledger.ledger.effective import effective_redactions
        from faber_ledger.ledger.redaction import still_holds_payload
        from faber_ledger.ledger.union import find_removed

        if still_holds_payload(log.connection, effective_redactions(log.connection).gone):
            gone = [name for name in find_removed([log]).gone if still_holds_payload(log.connection, [name])]
    unusable = list_unusable(log)
    if not gone and not unusable:
        return log
    from faber_ledger.ledger.redaction import restore_rows, strip_in_place

    memory = sqlite3.connect(":memory:", isolation_level=None)
    log.connection.backup(memory)
    memory.execute("BEGIN")
    restore_rows(memory, unusable)
    strip_in_place(memory, gone)
    memory.execute("COMMIT")
    log.close()
    return Log(memory, log.path)


def list_unusable(log: Log) -> list[Row]:
    """Return the intact rows whose payload no reader can use, each without it."""
    found = []
    for row in map(tuple, log.connection.execute(f"{ROW} WHERE payload IS NOT NULL")):
        try:
            if find_payload_fault(row) is None:
                continue
        except TypeError:
            continue  # a value of another type, which whoever reads the row names
        examined = examine(row)
        if examined.fault is None and examined.dropped is not None:
            found.append(examined.row)
    return found
