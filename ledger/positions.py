"""The seq of each event of a log by its hash, in memory that does not grow with the log.

A parent is nearly always one of the newest events, which are kept in memory. All others go to a table on disk, in a
temporary database of SQLite, which gets its index when one of them is first looked up. The older events of a log to
which others are added are read when one of them is looked up, which most fetches never do.
"""

from __future__ import annotations

import sqlite3
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

AT_HAND = 5_000


class Positions:
    """The seq of each event by its hash; `read_before` returns those before the first one. Close it after use."""

    def __init__(self, read_before: Callable[[], Iterable[tuple[bytes, int]]] | None = None) -> None:
        self._read_before = read_before
        self._before: Positions | None = None
        self._newest: dict[bytes, int] = {}
        self._older: sqlite3.Connection | None = None
        self._is_indexed = False

    def __setitem__(self, digest: bytes, seq: int) -> None:
        self._newest.pop(digest, None)
        self._newest[digest] = seq
        if len(self._newest) >= 2 * AT_HAND:
            self._put_away()

    def update(self, found: Iterable[tuple[bytes, int]]) -> None:
        """Add events, each as its hash and its seq."""
        found = iter(found)
        while some := [*islice(found, AT_HAND)]:
            self._newest.update(some)
            while len(self._newest) >= 2 * AT_HAND:
                self._put_away()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._newest or self._find_older(digest) is not None

    def get(self, digest: bytes) -> int | None:
        """Return the seq of an event, or None."""
        seq = self._newest.get(digest)
        return self._find_older(digest) if seq is None else seq

    def close(self) -> None:
        """Remove what is kept on disk."""
        if self._older is not None:
            self._older.close()
        if self._before is not None:
            self._before.close()

    def _put_away(self) -> None:
        if self._older is None:
            self._older = sqlite3.connect("", isolation_level=None)
            self._older.execute("CREATE TABLE position (hash, seq)")
            self._older.execute("BEGIN")
        oldest = list(islice(self._newest.items(), AT_HAND))
        self._older.executemany("INSERT INTO position VALUES (?, ?)", oldest)
        for digest, _ in oldest:
            del self._newest[digest]

    def _find_older(self, digest: bytes) -> int | None:
        seq = self._find_put_away(digest)
        if seq is not None or self._read_before is None:
            return seq
        if self._before is None:
            self._before = Positions()
            self._before.update(self._read_before())
        return self._before.get(digest)

    def _find_put_away(self, digest: bytes) -> int | None:
        if self._older is None:
            return None
        if not self._is_indexed:
            self._older.execute("CREATE INDEX position_hash ON position (hash)")
            self._is_indexed = True
        row = self._older.execute("SELECT seq FROM position WHERE hash = ? ORDER BY rowid DESC", (digest,)).fetchone()
        return row[0] if row else None
