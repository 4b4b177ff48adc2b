"""The union of logs: the set of their immutable events in `(seq, id)` order.

Commutative, associative and idempotent over the events that pass the gate: however clones exchange their logs, all end
with the same one. It does not look at the merge base, because cherry-pick, revert and `stash pop` all present honest
logs that lack an event. A payload that any of the logs still has stays, unless it is redacted.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sqlite3
from contextlib import suppress
from operator import itemgetter

from faber_ledger.ledger import JOURNAL_ENDING, encoding
from faber_ledger.ledger.disk import keep_owner, sync_directory
from faber_ledger.ledger.encoding import AT, HASH, ID, INSERT, PARENTS, PAYLOAD, ROW, SEQ, TYPE, WRITER
from faber_ledger.ledger.errors import IntegrityError, LedgerError, UnionConflict
from faber_ledger.ledger.file import FORMAT_1, HINT_RESTORE, statements
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.gate import HINT_CONFLICT, Gate, Refused, examine, is_typed_whole, lines_left_out, shown_id
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import effective_redactions, without_payload
from faber_ledger.ledger.roots import ADOPTED, STARTED, find_foreign_roots, roots_in, runs_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any

    from faber_ledger.ledger.encoding import Row

    Position = tuple[Any, Any]  # seq and id

_position = itemgetter(SEQ, ID)
OTHER_CONTENT = "the log has another event with its id"
OTHER_RUN = "it is the first event of another run"
HINT_VERIFY_EACH = "run `faber-ledger verify` on each of the logs"


def write_union(paths: Sequence[str], out: str) -> tuple[int, list[str]]:
    """Unite the logs at `paths` into a fresh file at `out`, put in place at once.

    Returns its number of events, and a line for each event that the gate refused, or let pass without a payload. The
    file's bytes depend on the events and on the version of SQLite alone. Raises UnionConflict, and as `open_untrusted`;
    `out` is unchanged then.
    """
    whole, temporary = out + ".whole.tmp", out + ".tmp"
    remove_database(whole)
    remove_database(temporary)
    logs: list[Log] = []
    try:
        for path in paths:
            logs.append(open_untrusted(path))
        check_one_run(logs)
        merged = Passing(logs)
        count = write_rows(merged, temporary)
        with Log.read(temporary) as united:
            gone = effective_redactions(united.connection)
            if gone:  # written again, so that no freed page holds a payload
                write_rows([without_payload(row) if row[ID] in gone else row for row in rows_of(united)], whole)
        if gone:
            os.replace(whole, temporary)
        move_into_place(temporary, out)
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"one of these logs cannot be read to its end: {error}", hint=HINT_RESTORE) from error
    finally:
        for log in logs:
            log.close()
        remove_database(whole)
        remove_database(temporary)
    return count, [*lines_left_out(merged.refused, merged.dropped)]


def runs_in(log: Log) -> set[str]:
    """Return the ids of the runs whose start a log holds."""
    return runs_named(roots_in(log.connection).values())


def check_one_run(logs: Sequence[Log]) -> None:
    """Raise UnionConflict if one of the logs begins another run than one of the others."""
    for one, other in itertools.permutations(logs, 2):
        foreign = find_foreign_roots(one, other)
        if foreign:
            roots = [(row, log.path) for log in (one, other) for row in roots_in(log.connection).values()]
            named = sorted(runs_named([row for row, _ in roots])) or ["one without a name"]
            lines = [f"  {row[HASH].hex():.12}: at {row[AT]} by {row[WRITER]}, in {name}" for row, name in roots][:5]
            what = f"two runs were started under one id, {named[0]:.80}, and are in these logs:"
            if len(named) > 1:
                what = f"these are the logs of two runs: {named[0]:.80} and {named[1]:.80}"
            raise UnionConflict(what, hint=HINT_CONFLICT, lines=lines)


class Passing:
    """The events of logs that pass the gate, each once, in `(seq, id)` order; with a base, those that it lacks.

    Once all rows were taken, `refused` and `dropped` say what the gate did with the others, and `payloads` has the rows
    of events that the base has without the payload. Events of another run than the base's are refused, and so is an
    event of which the base has another content. Each row may be inserted into the base as it is yielded. To take the
    rows raises UnionConflict and IntegrityError.
    """

    def __init__(self, logs: Sequence[Log], base: Log | None = None, others: Sequence[Row] = ()) -> None:
        self.refused: list[Refused] = []
        self.dropped: list[tuple[str, str]] = []
        self.payloads: list[Row] = []
        self._logs = logs
        self._base = base if base is not None and base.heads() else None
        self._others = others
        self._roots = roots_in(base.connection) if base is not None else None

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        start = _find_common_end(self._base, self._logs[0]) if self._base and len(self._logs) == 1 else None
        gate = Gate(self._known_parents(start))
        self.refused, self.dropped = gate.refused, gate.dropped
        streams = [self._typed_rows(rows_of(log, start), gate) for log in self._logs]
        if self._others:
            streams.append(self._typed_rows(sorted(self._others, key=_position), gate))
        for _, group in itertools.groupby(_in_order(streams), _position):
            row = self._check_copies(gate, list(group))
            if row is not None:
                yield row

    def _known_parents(self, start: Position | None) -> dict[bytes, int]:
        """Return the seqs of the base's events by their hashes; its heads alone if those after `start` name no other.

        An event that the base has, too, is added when it is met.
        """
        if self._base is None:
            return {}
        question = "SELECT parents, hash FROM event WHERE (seq, id) > (?, ?) AND typeof(parents) = typeof(hash)"
        logs = [log.connection.execute(f"{question} AND typeof(hash) = 'blob'", start or (0, "")) for log in self._logs]
        named, offered = [*zip(*itertools.chain(*logs), strict=True)] or ((), ())
        heads = dict(self._base.connection.execute("SELECT hash, seq FROM head"))
        others = b"".join({*named}.difference(heads, offered))
        if self._others or (others and not {*heads, *offered}.issuperset(encoding.split_hashes(others))):
            return dict(self._base.connection.execute("SELECT hash, seq FROM event"))
        return heads

    def _check_copies(self, gate: Gate, copies: list[Row]) -> Row | None:
        """Return the copy of one event that enters the log; None if the base has it, or it is refused."""
        if not copies[0][PARENTS] and self._is_of_other_run(copies[0]):
            gate.refused.append(Refused(copies[0], OTHER_RUN))
            return None
        known = known_in(self._base, copies[0][ID]) if self._base is not None else None
        if known is None:
            return gate.check(map(examine, dict.fromkeys(copies)))
        gate.seqs[known[1]] = known[0]
        for row in copies:
            if row[SEQ] != known[0] or row[HASH] != known[1]:
                gate.refused.append(Refused(row, examine(row).fault or OTHER_CONTENT))
            elif not known[2] and row[PAYLOAD] is not None:
                one = examine(row)
                if one.fault is None and one.dropped is None:
                    self.payloads.append(one.row)
                    break
        return None

    def _is_of_other_run(self, row: Row) -> bool:
        """Return whether an event without a parent begins another run than the base's; it may be the base's first."""
        if self._roots is None or row[HASH] in self._roots:
            return False
        kinds = [root[TYPE] for root in self._roots.values()]
        is_other = STARTED in kinds if row[TYPE] == STARTED else bool(kinds) and ADOPTED not in (*kinds, row[TYPE])
        if not is_other and examine(row).fault is None:
            self._roots[row[HASH]] = row
        return is_other

    def _typed_rows(self, rows: Iterable[Row], gate: Gate) -> Iterator[Row]:
        for row in rows:
            if is_typed_whole(row):
                yield row
            else:
                gate.check([examine(row)])  # which refuses it: it cannot be compared with others


def _find_common_end(log: Log, other: Log) -> Position | None:
    """Return a position up to which two logs have the same events and payloads, so that no other needs a look."""
    last: Position | None = None
    question = "SELECT seq, id, hash, payload IS NULL FROM event ORDER BY seq, id"
    try:
        streams = [one.connection.execute(question) for one in (log, other)]
        for row, theirs in zip(*streams, strict=False):
            if row != theirs or [*map(type, row)] != [*map(type, theirs)]:
                break
            last = (row[SEQ], row[ID])
    except sqlite3.OperationalError:  # bytes that are not text
        return None
    return last


def _in_order(streams: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Merge the streams, and check that each is in order: in a forged file an index may be wrong."""
    before: Position = (0, "")
    for row in heapq.merge(*streams, key=_position):
        position = _position(row)
        if position < before:
            raise IntegrityError(f"event {shown_id(row[ID])} is out of order in its file", hint=HINT_RESTORE)
        before = position
        yield row


def rows_of(log: Log, after: Position | None = None) -> Generator[Row]:
    """Yield a log's rows as they are stored, in `(seq, id)` order, those after a position if one is given.

    Bytes that are not text become lone surrogates.
    """
    position = after
    try:
        # Not the cursor itself: an abandoned merge closes its streams, and a cursor of a closed file cannot be closed.
        for row in map(tuple, _select_after(log, after)):
            position = row[SEQ], row[ID]
            yield row
        return
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode"):
            raise
    log.connection.text_factory = encoding.decode_any
    yield from map(tuple, _select_after(log, position))


def _select_after(log: Log, position: Position | None) -> sqlite3.Cursor:
    where = "" if position is None else " WHERE (seq, id) > (?, ?)"
    return log.connection.execute(f"{ROW}{where} ORDER BY seq, id", position or ())


def open_scratch(name: str) -> Log:
    """Return a temporary log for events that the gate has not checked; it has no triggers, and `close` removes it."""
    connection = sqlite3.connect("", isolation_level=None)
    for statement in statements(FORMAT_1):
        if statement.startswith(("CREATE TABLE event ", "CREATE UNIQUE INDEX event_id ")):
            connection.execute(statement)
    connection.execute("BEGIN")
    return Log(connection, name)


def rows_named(log: Log, name: str) -> list[Row]:
    """Return the rows with an id, at most one but in a forged file; none if they cannot be read."""
    try:
        return [tuple(row) for row in log.connection.execute(f"{ROW} WHERE id = ?", (name,))]
    except (sqlite3.Error, UnicodeEncodeError):
        return []


def rows_in_file(path: str, names: Iterable[str]) -> list[Row] | None:
    """Return the rows with these ids in a ledger from elsewhere; None if it cannot be read."""
    try:
        with open_untrusted(path) as log:
            return [row for name in names for row in rows_named(log, name)]
    except (LedgerError, OSError, sqlite3.Error):
        return None


def known_in(log: Log, name: str) -> tuple[int, bytes, bool] | None:
    """Return seq and hash of the event with this id in a log, and whether it has its payload; None without it."""
    question = "SELECT seq, hash, payload IS NOT NULL FROM event WHERE id = ?"
    try:
        found = log.connection.execute(question, (name,)).fetchone()
    except UnicodeEncodeError:  # bytes that are not text: no event that passes has such an id
        return None
    return tuple(found) if found else None


def hash_in(log: Log, name: str) -> bytes | None:
    """Return the hash of the event with this id in a log, or None."""
    found = known_in(log, name)
    return found[1] if found else None


def insert_rows(log: Log, rows: Iterable[Row]) -> None:
    """Insert rows that a log lacks in its open transaction, and find its heads again.

    All rows or none: raises sqlite3.Error, and the transaction is as it was, or gone, since SQLite rolls it back if the
    disk is full or fails.
    """
    log.connection.execute("SAVEPOINT insert_rows")
    try:
        rows = iter(rows)
        first, newest = [*itertools.islice(rows, 1)], max([seq for seq, _ in log.heads()], default=0)
        rows = itertools.chain(first, rows)
        if first and first[0][SEQ] >= newest:
            _fill(log, rows)  # as nearly always after a pull: no event of the log has one of these as its parent
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
    """Insert rows that come after all of a log, each before its children, and return how many.

    Raises sqlite3.IntegrityError if two have one id.
    """
    heads = {digest: seq for seq, digest in log.heads()}

    def pass_each() -> Iterator[Row]:
        for row in rows:
            _pass(heads, row[0], row[PARENTS], row[HASH])
            yield row

    count = log.connection.executemany(INSERT, pass_each()).rowcount
    log.set_heads([(seq, digest) for digest, seq in heads.items()])
    return count


def write_rows(rows: Iterable[Row], path: str) -> int:
    """Write rows, each before its children, as a new log, and return how many; raises UnionConflict."""
    with Log.open(path) as log:
        try:
            count = _fill(log, rows)
        except sqlite3.IntegrityError as error:
            raise UnionConflict(f"one event id has two positions: {error}", hint=HINT_VERIFY_EACH) from error
        log.commit()
    return count


def _pass(heads: dict[bytes, int], seq: int, parents: bytes, digest: bytes) -> None:
    """Add one event to the heads and remove its parents."""
    if heads.pop(parents, None) is None:  # nearly every event has one parent, the event before it
        for parent in encoding.split_hashes(parents):
            heads.pop(parent, None)
    heads[digest] = seq


def remove_database(path: str) -> None:
    """Remove what a killed writer left at `path`: a database, and its journal."""
    for name in (path + JOURNAL_ENDING, path):
        with suppress(FileNotFoundError):
            os.unlink(name)


def move_into_place(temporary: str, path: str) -> None:
    """Rename a file that is written and synced over another, durably; it gets the owner and permissions of that one."""
    with suppress(FileNotFoundError):  # it may be the first
        keep_owner(temporary, os.stat(path))
    os.replace(temporary, path)
    sync_directory(os.path.dirname(path))
