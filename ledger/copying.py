"""Copy rows from one log's file into another log within SQLite: for many rows a fraction of the time of Python's."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import uri_of
from faber_ledger.ledger.union import ID_IS_NEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.log import Log
    from faber_ledger.ledger.union import Position

COPY = "INSERT INTO main.event SELECT * FROM whole.event AS theirs WHERE (seq, id) >= (?, ?)"
COPY_LACKED = f"{COPY} AND NOT EXISTS (SELECT 1 FROM main.event AS ours WHERE ours.id = theirs.id)"


def commit_with_lacked(log: Log, path: str, inode: int | None, first: Position) -> None:
    """Insert the committed rows of the log at `path` from a position on that `log` lacks, in its transaction; commit.

    Then both have the same events, if `log` lacked no others. `inode` is the number of the file that was judged. Raises
    LedgerError for another file, and sqlite3.Error; nothing is committed then.
    """
    connection = log.connection
    connection.execute("ATTACH DATABASE ? AS whole", (uri_of(path, "ro"),))
    connection.execute("SELECT count(*) FROM whole.head").fetchone()  # which opens the file
    if os.stat(path).st_ino != inode:
        raise LedgerError(f"another program has replaced {path}", hint="run `faber-ledger doctor`")
    has_events = connection.execute("SELECT 1 FROM main.event LIMIT 1").fetchone() is not None
    connection.execute("DROP TRIGGER main.event_id_is_new")  # as `insert_rows` does
    connection.execute(COPY_LACKED if has_events else COPY, first)
    connection.execute(ID_IS_NEW)
    connection.execute("DELETE FROM main.head")
    connection.execute("INSERT INTO main.head (seq, hash) SELECT seq, hash FROM whole.head")
    log.commit()
    connection.execute("DETACH DATABASE whole")
