"""Whether each event of a log comes right after its parents: one that somebody took out of the middle is missed."""

from __future__ import annotations

from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.row import HASH, ID, PARENTS, pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    Row = tuple[Any, ...]


class Descent:
    """The heads of the rows so far, which nearly every next row's parents are. To be closed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._heads: dict[bytes, int] = {}
        self._all: Positions | None = None

    def check(self, rows: list[Row]) -> None:
        """Take in the next rows in `(seq, id)` order; raises IntegrityError for the first that lacks a parent."""
        heads = self._heads
        for row in rows:
            before = heads.pop(row[PARENTS], None)
            if before is None:
                before = max([self._passed(row, parent) for parent in pieces(row[PARENTS])], default=0)
            if row[0] != before + 1:
                raise _misplaced(row, f"has seq {row[0]}, and after its parents it must be {before + 1}")
            heads[row[HASH]] = row[0]

    def close(self) -> None:
        """Let go of what was looked up."""
        if self._all is not None:
            self._all.close()

    def _passed(self, row: Row, parent: bytes) -> int:
        """Give where a parent stands, a head no longer; one that another clone's event had as its parent is none."""
        seq = self._heads.pop(parent, None)
        if seq is not None:
            return seq
        if self._all is None:
            self._all = Positions()
            for digest, place in self._connection.execute("SELECT hash, seq FROM event WHERE typeof(seq) = 'integer'"):
                self._all[digest] = place
        if parent not in self._all:
            raise _misplaced(row, f"comes after {parent.hex():.12}, which is not in the log: an event is missing")
        return self._all[parent]


def _misplaced(row: Row, what: str) -> IntegrityError:
    return IntegrityError(f"event {row[ID]!s:.50} {what}", hint="run `faber-ledger verify`")
