"""Read a log in batches and compute the hash of every event again, as a rebuild does.

A batch is hashed and parsed as one text, at a fraction of the cost of its single events. If anything in it is unusual,
it is read again event by event, by the code that hooks and `union` use, and that code decides.
"""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256  # OpenSSL's: over a whole log it saves more than loading it costs
from itertools import chain
from json.encoder import encode_basestring as quoted

from faber_ledger.ledger.encoding import (
    BATCH,
    HASH,
    HASH_DOMAIN,
    ID,
    PARENTS,
    PAYLOAD,
    ROW,
    SALT_BYTES,
    compute_hash,
    decode_row,
    is_typed,
    recorded_of,
    split_hashes,
    type_error,
)
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.log import Log, parse_payloads
from faber_ledger.ledger.positions import Positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.events import Recorded


MALFORMED = (AttributeError, TypeError, ValueError)  # raised for a value of another type, and for invalid JSON
HEAD = HASH_DOMAIN.decode() + "["


def read_verified(log: Log) -> Iterator[Recorded]:
    """Yield every event in `(seq, id)` order; raises IntegrityError for the first that is not what its hash says.

    So it does for one that does not come right after its parents, or has a value of another type in its envelope.
    """
    return chain.from_iterable(_decode_batch(rows) for rows in verified_batches(log))


def verified_batches(log: Log) -> Iterator[list[Row]]:
    """Yield the stored rows in `(seq, id)` order, some at a time; raises as `read_verified`."""
    cursor = log.connection.execute(f"{ROW} ORDER BY seq, id")
    with closing(Descent(log.connection)) as descent:
        while rows := cursor.fetchmany(BATCH):
            if compute_hashes(rows) != [row[HASH] for row in rows]:
                for row in rows:
                    _check_hash(row)
            descent.check(rows)
            yield rows


def _decode_batch(rows: list[Row]) -> Iterator[Recorded]:
    """Decode rows, redacted ones among them, each exactly as the log does; raises as `decode_row`."""
    payloads = parse_payloads([row[PAYLOAD] for row in rows])
    if payloads is None:
        return map(decode_row, [(*row[:8], row[PAYLOAD]) for row in rows])
    return map(recorded_of, rows, payloads)


def compute_hashes(rows: list[Row]) -> list[bytes]:
    """Compute the hashes of rows as `compute_hash` does, up to the first unusual one.

    Unusual rows are redacted, have a value of another type, or cannot be hashed.
    """
    hashes: list[bytes] = []
    known, text = None, ""  # writer, session and client rarely change
    try:
        for seq, name, kind, version, at, writer, session_id, client, parents, salt, payload, stored, _ in rows:
            if stored is not None or len(salt) != SALT_BYTES:
                break
            if (writer, session_id, client) != known:
                known = (writer, session_id, client)
                text = f"{quoted(writer)},{_quoted(session_id)},{_quoted(client)}"
            hashed = (  # `| 0` lets nothing but integers pass
                f"{HEAD}{seq | 0},{quoted(name)},{quoted(kind)},{version | 0},{quoted(at)},{text},"
                f'[{_hex(parents)}],"{sha256(salt + payload.encode()).hexdigest()}"]'
            )
            hashes.append(sha256(hashed.encode()).digest())
    except MALFORMED:
        pass
    return hashes


def _quoted(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _hex(parents: bytes) -> str:
    if len(parents) == 32:
        return f'"{parents.hex()}"'  # nearly every event's case
    return ",".join([f'"{parents[at : at + 32].hex()}"' for at in range(0, len(parents), 32)])


def _check_hash(row: Row) -> None:
    if not is_typed(row):
        raise type_error(row)
    try:
        is_right = compute_hash(row) == row[HASH]
    except MALFORMED:
        is_right = False
    if not is_right:
        raise IntegrityError(
            f"event {row[ID]!s:.50} is not what its hash says: it was changed after it was written",
            hint="run `faber-ledger verify`",
        )


class Descent:
    """The heads of the rows so far, which nearly always include the next row's parents. Close it after use."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._heads: dict[bytes, int] = {}
        self._all: Positions | None = None

    def check(self, rows: list[Row]) -> None:
        """Check the next rows in `(seq, id)` order; raises IntegrityError for the first that lacks a parent."""
        heads = self._heads
        for row in rows:
            before = heads.pop(row[PARENTS], None)
            if before is None:
                before = max([self._take_parent(row, parent) for parent in split_hashes(row[PARENTS])], default=0)
            if row[0] != before + 1:
                raise _place_error(row, f"has seq {row[0]}, and after its parents it must be {before + 1}")
            heads[row[HASH]] = row[0]

    def close(self) -> None:
        """Release what was looked up."""
        if self._all is not None:
            self._all.close()

    def _take_parent(self, row: Row, parent: bytes) -> int:
        """Return the seq of a parent and remove it from the heads; another clone's event may have done so before."""
        seq = self._heads.pop(parent, None)
        if seq is not None:
            return seq
        if self._all is None:
            self._all = Positions()
            for digest, place in self._connection.execute("SELECT hash, seq FROM event WHERE typeof(seq) = 'integer'"):
                self._all[digest] = place
        seq = self._all.get(parent)
        if seq is None:
            raise _place_error(row, f"comes after {parent.hex():.12}, which is not in the log: an event is missing")
        return seq


def _place_error(row: Row, what: str) -> IntegrityError:
    return IntegrityError(f"event {row[ID]!s:.50} {what}", hint="run `faber-ledger verify`")
