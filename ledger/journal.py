"""The journal that a killed writer left beside a log: SQLite plays it, in the file's place or in a copy of both."""

from __future__ import annotations

import os
import sqlite3
import tempfile

from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.formats import LONGEST_VALUE
from faber_ledger.ledger.log import no_ledger
from faber_ledger.ledger.sqlite import RESTORE, connected

LARGEST_COPY = 1 << 32  # bytes


def played_copy(path: str, copy: str) -> None:
    """Copy the database at `path` and the journal beside it, and let SQLite play the journal into the copy.

    Raises LedgerError and sqlite3.Error if the two do not belong together.
    """
    if os.path.getsize(path) > LARGEST_COPY:
        raise LedgerError(f"{path} is too large to be copied", hint=RESTORE)
    for suffix in ("", "-journal"):
        with open(path + suffix, "rb") as source, open(copy + suffix, "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    recovered(copy)


def recovered(path: str) -> None:
    """Let SQLite roll back what a killed writer left in its journal; raises sqlite3.Error."""
    connection = connected(path, "rw")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def played_in_memory(path: str) -> sqlite3.Connection:
    """Read a database that has a journal beside it, as it is once the journal is played; neither of them changes.

    Raises IntegrityError if the two do not belong together, and LedgerError if nothing was ever recorded in them.
    """
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        copy = os.path.join(folder, "ledger.db")
        try:
            played_copy(path, copy)
        except sqlite3.DatabaseError as error:
            raise IntegrityError(
                f"{path} and the journal beside it do not belong together: {error}",
                hint="run `faber-ledger project` to recover what can be read",
            ) from error
        with open(copy, "rb") as file:
            content = file.read()
    if not content:  # killed in its very first transaction; SQLite would take no bytes for no memory
        raise no_ledger(path)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.deserialize(content)
    return connection
