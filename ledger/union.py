"""The union of logs: the set of their immutable events in `(seq, id)` order.

Commutative, associative and idempotent: however clones exchange their logs, all end with the same one. It does not look
at the merge base, because cherry-pick, revert and `stash pop` all present honest logs that lack an event. It refuses
only what cannot be true: one id with two hashes, or an event that does not match its hash. A payload that any of the
logs still has stays, unless an effective redaction removes it.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import sqlite3
from contextlib import closing
from operator import itemgetter

from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.effective import effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError, UnionConflict
from faber_ledger.ledger.event_types import is_known
from faber_ledger.ledger.file import FORMAT_1, HIGHEST_SEQ, statements
from faber_ledger.ledger.foreign import HINT_GET_AGAIN, check_types, open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import without_payload
from faber_ledger.ledger.row import (
    HASH,
    ID,
    INSERT,
    PARENTS,
    PAYLOAD,
    ROW,
    SEQ,
    SESSION,
    TYPE,
    VERSION,
    compute_hash,
    event_of,
    is_too_long,
    parents_of,
    parse_payload,
    split_hashes,
)
from faber_ledger.ledger.whole_file import move_into_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    Row = tuple[Any, ...]
    Check = Callable[[Any], list[str]]

_position = itemgetter(SEQ, ID)
NAMING = ("run_started", "run_adopted")
(IDS,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE UNIQUE INDEX event_id ")]
(ID_IS_NEW,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_id_is_new")]
HINT_VERIFY_EACH = "run `faber-ledger verify` on each of the logs"


def write_union(paths: Sequence[str], out: str, check_event: Check | None = None) -> int:
    """Unite the logs at `paths` into a fresh file at `out`, put in place at once, and return the number of its events.

    The file's bytes depend on the events and on the version of SQLite alone. `check_event` returns what is wrong
    with an event's shape; it is called for events that not every log has. Raises UnionConflict, IntegrityError for an
    event that was changed or does not fit its shape, and as `open_untrusted`; `out` is unchanged then.
    """
    temporary = out + ".tmp"
    remove_database(temporary)
    logs: list[Log] = []
    try:
        for path in paths:
            logs.append(open_untrusted(path))
        _check_one_run(logs)
        gone = effective_redactions(*[log.connection for log in logs]).gone
        count = write_rows(merge_rows([rows_of(log) for log in logs], gone, check_event), temporary)
        move_into_place(temporary, out)
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"one of these logs cannot be read to its end: {error}", hint=HINT_GET_AGAIN) from error
    finally:
        for log in logs:
            log.close()
        remove_database(temporary)
    return count


def runs_in(log: Log) -> set[str]:
    """Return the ids of the runs whose start a log holds."""
    named = set()
    for (payload,) in log.connection.execute(f"SELECT payload FROM event WHERE type IN {NAMING}"):
        try:
            found = json.loads(payload or "{}")
        except (ValueError, TypeError, RecursionError):
            continue  # reported by the check of the event
        if isinstance(found, dict) and isinstance(found.get("run_id"), str):
            named.add(found["run_id"])
    return named


def _check_one_run(logs: list[Log]) -> None:
    """Raise UnionConflict for the logs of two different runs."""
    known = [(log, named) for log in logs if (named := runs_in(log))]
    for (_, one), (_, other) in itertools.combinations(known, 2):
        if not one & other:
            raise UnionConflict(
                f"these are the logs of two runs: {min(one):.80} and {min(other):.80}",
                hint="unite only ledgers of the same run",
            )


def merge_rows(
    streams: Sequence[Iterable[Row]], gone: Collection[str] = (), check_event: Check | None = None
) -> Iterator[Row]:
    """Merge streams of rows, each in `(seq, id)` order, into one; raises UnionConflict and IntegrityError.

    The events named in `gone` lose their payloads; they must be known before, since a redaction comes after its event.
    """
    with closing(Positions()) as seqs:
        for _, group in itertools.groupby(_in_order(streams), key=_position):
            same = list(group)
            row, payload = _choose_copy(same)
            _check_place(row, seqs)
            # An event that every log has was checked before; checking those of two long logs would be most of the work.
            if check_event is not None and not 1 < len(streams) == same.count(row):
                _check_shape(row, payload, check_event)
            yield without_payload(row) if row[ID] in gone else row


def _in_order(streams: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Merge the streams, and check that each is in order: in a forged file even an index may be wrong."""
    before = (0, "")
    for row in heapq.merge(*streams, key=_position):
        position = _position(row)
        if position < before:
            raise IntegrityError(f"event {row[ID]} is out of order in the file that holds it", hint=HINT_GET_AGAIN)
        before = position
        yield row


def rows_of(log: Log) -> Iterator[Row]:
    """Yield a log's rows as they are stored, in `(seq, id)` order."""
    # Not the cursor itself: an abandoned merge closes its streams, and a cursor of a closed file cannot be closed.
    return map(tuple, log.connection.execute(f"{ROW} ORDER BY seq, id"))


def missing_rows(log: Log, other: Log) -> Iterator[Row]:
    """Yield the rows of `other` that `log` lacks, each checked as a union does; raises UnionConflict, IntegrityError.

    Events that both have are compared by their hashes alone: a hook waits for this after every `git pull`. Each row may
    be inserted into `log` as it is yielded.
    """
    check_types(log)
    check_types(other)
    is_new = not log.heads()
    with closing(positions_in(log)) as seqs:
        for row in rows_of(other):
            known = None if is_new else hash_in(log, row[ID])
            if known is None:
                _choose_copy([row])
                yield _check_place(row, seqs)
            elif known != row[HASH]:
                ours = log.connection.execute(f"{ROW} WHERE id = ?", (row[ID],)).fetchone()
                _choose_copy([ours, row])


def positions_in(log: Log) -> Positions:
    """Return the positions of a log's events; the caller closes them."""
    seqs = Positions()
    for seq, digest in log.connection.execute("SELECT seq, hash FROM event ORDER BY seq, id"):
        seqs[digest] = seq
    return seqs


def hash_in(log: Log, name: str) -> bytes | None:
    """Return the hash of the event with this id in a log, or None."""
    found = log.connection.execute("SELECT hash FROM event WHERE id = ?", (name,)).fetchone()
    return found[0] if found else None


def insert_rows(log: Log, rows: Iterable[Row]) -> None:
    """Insert rows that a log lacks in its open transaction, and find its heads again.

    For a log without events, each row comes before its children, and `rows` looks up no id in the log. All rows or
    none: raises sqlite3.Error, and the transaction is as it was, or gone, since SQLite rolls it back if the disk is
    full or fails.
    """
    log.connection.execute("SAVEPOINT insert_rows")
    log.forget_redactions()
    try:
        if not log.heads():
            # Made at the end, this index takes a fraction of the time. A union of files keeps it: git stores less of
            # pages in the order that appends leave them in. SQLite refuses it while another statement is open on this
            # connection: `rows` must not have begun to read the log.
            log.connection.execute("DROP INDEX event_id")
            _fill(log, rows)
            log.connection.execute(IDS)
        else:
            log.connection.executemany(INSERT, rows)
            heads: dict[bytes, int] = {}
            for place in log.connection.execute("SELECT seq, parents, hash FROM event ORDER BY seq, id"):
                _pass(heads, *place)
            found = [(seq, digest) for digest, seq in heads.items()]
            if sorted(found) != sorted(log.heads()):  # without any row, the file keeps its bytes
                log.set_heads(found)
    except BaseException:
        if log.connection.in_transaction:
            log.connection.execute("ROLLBACK TO insert_rows")
            log.connection.execute("RELEASE insert_rows")
        raise
    log.connection.execute("RELEASE insert_rows")


def _fill(log: Log, rows: Iterable[Row]) -> int:
    """Insert the first rows of a log, each before its children, and return how many.

    Raises sqlite3.IntegrityError if two have one id.
    """
    heads: dict[bytes, int] = {}

    def pass_each() -> Iterator[Row]:
        for row in rows:
            _pass(heads, row[0], row[PARENTS], row[HASH])
            yield row

    # This trigger takes half the time of many rows, and only stops an `INSERT OR REPLACE`: for a plain `INSERT` the
    # index refuses a known id. No other process sees the log without the trigger: all of this is one transaction.
    log.connection.execute("DROP TRIGGER event_id_is_new")
    count = log.connection.executemany(INSERT, pass_each()).rowcount
    log.connection.execute(ID_IS_NEW)
    log.set_heads([(seq, digest) for digest, seq in heads.items()])
    return count


def _choose_copy(same: list[Row]) -> tuple[Row, dict[str, Any] | None]:
    """Return a copy of one event that has its payload, and the payload parsed; redactions are applied later."""
    intact = [row for row in dict.fromkeys(same) if compute_hash(row) == row[HASH]]
    if not intact:
        raise IntegrityError(
            f"event {same[0][ID]} is not what its hash says: it was changed after it was written",
            hint=HINT_VERIFY_EACH,
        )
    if len({row[HASH] for row in intact}) > 1:
        raise _conflict(intact)
    return max([(row, _parse_payload(row)) for row in intact], key=lambda copy: copy[1] is not None)


def _parse_payload(row: Row) -> dict[str, Any] | None:
    """Return a row's payload, None if it has none; raises IntegrityError if a later reader could not read it.

    One unreadable event would stop the log for good.
    """
    text = row[PAYLOAD]
    payload = None if text is None else parse_payload(text)
    if text is not None and (payload is None or is_too_long(text)):
        raise IntegrityError(
            f"event {row[ID]} has a payload that is not a canonical JSON object, which no ledger writes",
            hint=HINT_VERIFY_EACH,
        )
    return payload


def _check_shape(row: Row, payload: dict[str, Any] | None, check_event: Check) -> None:
    """Raise IntegrityError if a payload does not fit its type; types that only a newer program knows may pass."""
    if payload is None or not is_known(row[TYPE], row[VERSION]):
        return
    problems = check_event(event_of(row[TYPE], row[SESSION], payload))
    if problems:
        raise IntegrityError(
            f"event {row[ID]} is not a {row[TYPE]} as any ledger writes it: {problems[0]}", hint=HINT_VERIFY_EACH
        )


def _check_place(row: Row, seqs: Positions) -> Row:
    """Return the row once its seq is the one that its parents imply; a forged seq could stop every later append."""
    parents = parents_of(row)
    known = [seqs[parent] for parent in parents if parent in seqs]
    due = 1 + max(known, default=0)
    if row[SEQ] != due and (len(known) == len(parents) or not due < row[SEQ] <= HIGHEST_SEQ):
        raise IntegrityError(
            f"event {row[ID]} has seq {row[SEQ]}, and after its parents it must be {due}", hint=HINT_VERIFY_EACH
        )
    seqs[row[HASH]] = row[SEQ]
    return row


def _conflict(rows: list[Row]) -> UnionConflict:
    contents = "\n".join(
        [f"  {row[HASH].hex()[:12]}: {row[2]} at {row[4]} by {row[5]}: {row[PAYLOAD]!s:.500}" for row in rows]
    )
    return UnionConflict(
        f"event {rows[0][ID]} is in these logs with {len(rows)} contents:\n{contents}",
        hint="one of the logs was changed by hand: run `faber-ledger verify` on each, and keep the one that verifies",
    )


def write_rows(rows: Iterable[Row], path: str) -> int:
    """Write rows, each before its children, as a new log, and return how many.

    Raises UnionConflict, and LedgerError for a log that has events.
    """
    with Log.open(path) as log:
        if log.heads():
            raise LedgerError(f"{path} has events already", hint="name a file that does not exist yet")
        try:
            count = _fill(log, rows)
        except sqlite3.IntegrityError as error:
            raise UnionConflict(f"one event id has two positions: {error}", hint=HINT_VERIFY_EACH) from error
        log.commit()
    return count


def _pass(heads: dict[bytes, int], seq: int, parents: bytes, digest: bytes) -> None:
    """Add one event to the heads and remove its parents."""
    if heads.pop(parents, None) is None:  # nearly every event has one parent, the event before it
        for parent in split_hashes(parents):
            heads.pop(parent, None)
    heads[digest] = seq


def remove_database(path: str) -> None:
    """Remove what a killed writer left at `path`: a database, and its journal."""
    for name in (path + JOURNAL_ENDING, path):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass
