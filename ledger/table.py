"""Whether a ledger's indexes fit its table of events, and what that table says where they do not.

Whoever may write a file's schema may leave rows out of an index, give two events one id, or put a row out of order, and
the file still has a ledger's schema. Only a file that another program has written is looked at.
"""

from __future__ import annotations

from faber_ledger.ledger.errors import IndexesLie
from faber_ledger.ledger.file import FORMAT_1, UNREADABLE, is_busy, locked_error, sqlite3, statements
from faber_ledger.ledger.gate import examine, is_typed_whole
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import COLUMNS, HASH, ID, INSERT, ROW, SEQ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Row = tuple[Any, ...]

(HEAD_TABLE,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE TABLE head ")]


def check_indexes(log: Log) -> None:
    """Let SQLite compare a log's indexes and order with its rows; raises IndexesLie, and Locked."""
    try:
        (fault,) = log.connection.execute("PRAGMA integrity_check(1)").fetchone()
    except UNREADABLE as error:
        if isinstance(error, sqlite3.DatabaseError) and is_busy(error):
            raise locked_error(log.path) from error
        fault = str(error)
    if fault != "ok":
        hint = "run `faber-ledger verify`, which names everything that is wrong, and what to run"
        raise IndexesLie(f"{log.path} is damaged: {fault.splitlines()[-1]}", hint=hint)


def open_table(path: str) -> Log:
    """Open a log for reading, however incomplete; where its indexes lie, what its table says, in memory.

    Raises as `Log.read`, and sqlite3.Error where it cannot be read to its end.
    """
    log = Log.read(path, allow_incomplete=True)
    try:
        check_indexes(log)
        return log
    except IndexesLie:
        with log:
            return _copy_table(log)
    except BaseException:
        log.close()
        raise


def _copy_table(log: Log) -> Log:
    """Copy a log's rows to memory, in order, into a table that takes any row; its heads are not copied."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        memory.execute(f"CREATE TABLE event ({', '.join(COLUMNS)})")  # without types, so that each value stays itself
        memory.execute(HEAD_TABLE)
        memory.executemany(INSERT, _sound_rows(log))
        memory.execute("CREATE INDEX event_place ON event (seq, id)")
        memory.execute("CREATE INDEX event_id ON event (id)")
    except BaseException:
        memory.close()
        raise
    return Log(memory, log.path)


def _sound_rows(log: Log) -> Iterator[Row]:
    """Yield the rows as the table has them; of several intact events under one id the first alone."""
    intact: dict[str, tuple[int, bytes]] = {}
    # The signs keep SQLite from taking an index, or the table itself, for sorted.
    for row in map(tuple, log.connection.execute(f"{ROW} NOT INDEXED ORDER BY +seq, +id")):
        if is_typed_whole(row) and examine(row).fault is None:
            place = (row[SEQ], row[HASH])
            if intact.setdefault(row[ID], place) != place:
                continue
        yield row
