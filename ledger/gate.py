"""The gate: the one check that every event passes before it enters a log, whichever way it comes.

An event passes if its envelope has the form that every ledger writes, its hash holds, each of its parents is there and
has passed, and its seq is the one that they imply. So everybody ends with the same events, in whatever order they come.
An event that only lacks a parent waits outside; any other one is refused, and named. A payload never refuses its event:
one that readers could not use is dropped.
"""

from __future__ import annotations

import re
from itertools import product

from faber_ledger.ledger import encoding
from faber_ledger.ledger.encoding import AT, HASH, ID, PARENTS, PAYLOAD, PAYLOAD_HASH, SALT, SEQ, TYPE, WRITER
from faber_ledger.ledger.errors import UnionConflict
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.file import LARGEST_PAYLOAD
from faber_ledger.ledger.log import is_too_long

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from faber_ledger.ledger.encoding import Row


ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
KIND = re.compile("[a-z_]{1,64}")
# Every year that a clock may show.
TIME = re.compile(
    r"-?[0-9]{1,12}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
# Control and invisible characters, as fixed ranges: what Python itself calls printable differs from version to version.
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
HINT_CONFLICT = "both are sound: ask who wrote the other one, and keep the ledger that has the right one"
NO_ID, NO_TIME = "its id is not a ULID", "its time is not a time"
HIGHEST_VERSION = 999_999_999
LONGEST_TEXT = 4096  # characters of a session, client or writer id
WHOLE = frozenset(product(*encoding.COLUMNS.values()))  # the types of a row, column by column


class Refused:
    """An event that did not pass, and why; `row` is as it was read. An event that only lacks a parent `is_waiting`."""

    def __init__(self, row: Row, why: str, *, is_waiting: bool = False) -> None:
        self.id, self.hash, self.seq = row[ID], row[HASH], row[SEQ]
        self.why = why
        self.is_waiting = is_waiting
        self.row = row


class Gate:
    """The check of a log's events, in `(seq, id)` order, after those whose seq `seqs` has by their hash.

    `refused` are the events that did not pass. `dropped` names each event that passed without its payload, which no
    copy had in a usable form, and why.
    """

    def __init__(self, seqs: dict[bytes, int]) -> None:
        self.seqs = seqs
        self.refused: list[Refused] = []
        self.dropped: list[tuple[str, str]] = []

    def check(self, found: Iterable[Examined]) -> Row | None:
        """Return the copy of one event that enters the log, None if it is refused; raises UnionConflict.

        It is an intact copy, of several one with a usable payload. It may have lost its own.
        """
        passing: list[Examined] = []
        for one in found:
            refused = self.find_refusal(one)
            if refused is None:
                passing.append(one)
            elif not any([other.hash == refused.hash and other.why == refused.why for other in self.refused[-4:]]):
                self.refused.append(refused)
        if not passing:
            return None
        if len({one.row[HASH] for one in passing}) > 1:
            raise conflict_of([one.copy for one in passing])
        best = next((one for one in passing if one.row[PAYLOAD] is not None), passing[0])
        row = best.row
        if row[PAYLOAD] is None:
            self.dropped += [(row[ID], one.dropped) for one in passing if one.dropped is not None][:1]
        self.seqs[row[HASH]] = row[SEQ]
        return row

    def find_refusal(self, one: Examined) -> Refused | None:
        """Return why an event does not enter the log, after those before it; None if it does."""
        row = one.row
        if one.fault is not None:
            return Refused(row, one.fault)
        parents = encoding.split_hashes(row[PARENTS])
        if len(parents) > 1 and parents != sorted(set(parents)):
            return Refused(row, "its parents are not in order, or one is there twice")
        seqs = [self.seqs.get(parent) for parent in parents]
        if None in seqs:
            missing = parents[seqs.index(None)]
            return Refused(row, f"its parent {missing.hex():.12} is not here", is_waiting=True)
        due = 1 + max([seq for seq in seqs if seq is not None], default=0)
        if row[SEQ] != due:
            return Refused(row, f"its seq is {row[SEQ]}, and after its parents it must be {due}")
        return None


class Examined:
    """One row, examined without a look at any other: its fault (None: it is intact), and why its payload is dropped.

    `row` is as it enters a log, `copy` as it was read.
    """

    def __init__(self, copy: Row, row: Row, fault: str | None, dropped: str | None = None) -> None:
        self.copy = copy
        self.row = row
        self.fault = fault
        self.dropped = dropped


def examine(row: Row) -> Examined:
    """Find what is wrong with one event in itself: the form of its envelope, its hash, its payload."""
    if not is_typed_whole(row):
        return Examined(row, row, "a value has another type than any ledger writes")
    fault = find_form_fault(row)
    settled, dropped = _settle_payload(row)
    if settled is None:
        return Examined(row, row, fault or "its hash does not match what it says: it was changed after it was written")
    return Examined(row, settled, fault, dropped)


def is_typed_whole(row: Row) -> bool:
    """Return whether each value of a row is of its column's types, its hashes complete, and its seq above 0."""
    return tuple(map(type, row)) in WHOLE and row[SEQ] > 0 and len(row[HASH]) == 32 and len(row[PARENTS]) % 32 == 0


def find_form_fault(row: Row) -> str | None:
    """Return what in an event's envelope no ledger writes, or None; `row` begins with the columns up to the client."""
    seq, name, kind, version, at, writer, session_id, client = row[:PARENTS]
    if type(seq) is not int or type(version) is not int:
        return "a value has another type than any ledger writes"
    if type(name) is not str or not ULID.fullmatch(name):
        return NO_ID
    if type(kind) is not str or not KIND.fullmatch(kind):
        return "its type is not a name of small letters"
    if not 1 <= version <= HIGHEST_VERSION:
        return f"its version is not a number from 1 to {HIGHEST_VERSION}"
    if type(at) is not str or not TIME.fullmatch(at):
        return NO_TIME
    for text, what in ((writer, "writer"), (session_id, "session"), (client, "client")):
        if text is not None and (type(text) is not str or len(text) > LONGEST_TEXT or HIDDEN.search(text)):
            return f"its {what} id is too long, or has characters that cannot be seen"
    return None if writer else "its writer id is missing"


def _settle_payload(row: Row) -> tuple[Row | None, str | None]:
    """Return the row as it enters a log, perhaps without its payload, and why; None if its hash does not hold."""
    salt, payload, stored = row[SALT], row[PAYLOAD], row[PAYLOAD_HASH]
    own = _hash_payload(salt, payload)
    digest = stored if stored is not None else own
    if digest is None or len(digest) != 32 or not _is_hash(row, digest):
        return None, None
    if payload is None and salt is None:
        return row, None
    if own != digest:
        dropped: str | None = "it does not match its hash"
    else:
        dropped = find_payload_fault(row)
    if dropped is None:
        return (row if stored is None else (*row[:PAYLOAD_HASH], None, row[HASH])), None
    return (*row[:SALT], None, None, digest, row[HASH]), dropped


def _hash_payload(salt: bytes | None, payload: str | None) -> bytes | None:
    if payload is None or salt is None or len(salt) != encoding.SALT_BYTES:
        return None
    try:
        return encoding.payload_hash(salt, payload)
    except UnicodeEncodeError:
        return None


def _is_hash(row: Row, digest: bytes) -> bool:
    try:
        is_same: bool = encoding.hash_with(row, digest) == row[HASH]
    except UnicodeEncodeError:
        return False
    return is_same


def find_payload_fault(row: Row) -> str | None:
    """Return why no reader could use a payload, or None."""
    if is_too_long(row[PAYLOAD]):
        return f"it is longer than {LARGEST_PAYLOAD}"
    payload = encoding.parse_payload(row[PAYLOAD])
    if payload is None:
        return "it is not a canonical JSON object"
    if not has_required(row[TYPE], row[encoding.VERSION], encoding.recorded_of(row, payload)["event"]):
        return f"it lacks what a {row[TYPE]} needs"
    return None


def shown_id(name: object) -> str:
    """Return an event's id as it may be printed: a refused event's id may be any value."""
    return name if isinstance(name, str) and ULID.fullmatch(name) else ascii(name)[:80]


def lines_left_out(refused: Iterable[Refused], dropped: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Name each event that is left out, or stays without its payload, and why."""
    for one in refused:
        yield f"event {shown_id(one.id)} is left out: {one.why}"
    for name, why in dropped:
        yield f"event {shown_id(name)} stays without its payload: {why}"


def conflict_of(rows: Collection[Row]) -> UnionConflict:
    """Return the error for one event id with several contents."""
    contents = [
        f"  {row[HASH].hex()[:12]}: {row[TYPE]} at {row[AT]} by {row[WRITER]}: {row[PAYLOAD]!s:.500}" for row in rows
    ]
    name = next(iter(rows))[ID]
    message = f"event {name} is in these logs with {len(rows)} contents:"
    return UnionConflict(message, hint=HINT_CONFLICT, lines=contents)
