"""Which rows of a run's file must not be used as they are: the gate refuses them, or their payload.

A file with such rows never counts as judged, so that every hook compares it with the mirror, which has none. A file
that is no sound log as a whole cannot be opened, and what passes of it is taken.
"""

from __future__ import annotations

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.gate import examine, is_typed_whole
from faber_ledger.ledger.row import HASH, ID, SEQ, is_place, place_of
from faber_ledger.ledger.table import open_table
from faber_ledger.ledger.union import hash_in, insert_rows, missing_rows, rows_named, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.ledger.union import Passing
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


def find_refused(log: Log, mirror: Log, passing: Passing) -> list[Row]:
    """Return the rows of a run's file that must not be used; `passing` is what the mirror lacked of it, and was taken.

    The place of a refused event may be used if the mirror has it, too.
    """
    found = [one.row for one in passing.refused if not _has_place(mirror, one.row)]
    known = set(map(repr, found))
    return found + [row for row in _unfit_copies(log, mirror) if repr(row) not in known]


def take_passing(run: Run, log: Log) -> None:
    """Insert into an open log what passes of a run's file, which is no sound log.

    Nothing if that cannot be read to its end.
    """
    try:
        with open_table(run.ledger_path) as other:
            insert_rows(log, missing_rows(log, other, keeps=True))
    except (LedgerError, OSError, UnicodeError, sqlite3.Error):
        pass  # `insert_rows` has taken back what it inserted


def _has_place(mirror: Log, row: Row) -> bool:
    return is_place(row) and hash_in(mirror, row[ID]) == row[HASH]


def _unfit_copies(log: Log, mirror: Log) -> Iterator[Row]:
    """Yield the rows of a file that are other than the mirror's, or not there, and do not pass as they are.

    One that is left of an event which the mirror has whole does not count: the event is put back in it.
    """
    theirs = filter(is_typed_whole, rows_of(mirror))
    other = next(theirs, None)
    for row in filter(is_typed_whole, rows_of(log)):
        while other is not None and (other[SEQ], other[ID]) < (row[SEQ], row[ID]):
            other = next(theirs, None)
        if row != other and is_unfit(row) and not _is_left_of(row, rows_named(mirror, row[ID])):
            yield row


def _is_left_of(row: Row, events: list[Row]) -> bool:
    """Return whether a row is what a place would keep of one of these events, under the event's id."""
    return any([row == (row[SEQ], row[ID], *place_of(event)[ID + 1 :]) for event in events if event[SEQ] == row[SEQ]])


def is_unfit(row: Row) -> bool:
    """Return whether a row must not be used as it is: it is refused, or without its payload only."""
    if is_place(row):
        return False
    found = examine(row)
    return found.fault is not None or found.dropped is not None
