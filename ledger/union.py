"""The union of logs: the set of their immutable events in `(seq, id)` order.

Commutative, associative and idempotent over the events that pass the gate: however clones exchange their logs, all end
with the same one. It does not look at the merge base, because cherry-pick, revert and `stash pop` all present honest
logs that lack an event. It refuses only what cannot be one log: one id with two sound contents, or the logs of two
runs. A payload that any of the logs still has stays, unless an effective redaction removes it.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import sqlite3
from collections import deque
from contextlib import closing
from operator import itemgetter

from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.effective import Effective, effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError, UnionConflict
from faber_ledger.ledger.file import FORMAT_1, statements
from faber_ledger.ledger.foreign import HINT_GET_AGAIN, open_untrusted
from faber_ledger.ledger.gate import (
    Examined,
    Gate,
    Refused,
    conflict_of,
    examine,
    is_typed_whole,
    lines_left_out,
    shown_id,
)
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import AT_HAND, Positions
from faber_ledger.ledger.redaction import without_payload
from faber_ledger.ledger.roots import ADOPTED, STARTED, check_one_start, find_foreign_roots, roots_in
from faber_ledger.ledger.row import (
    ANY_REDACTION,
    BATCH,
    HASH,
    ID,
    INSERT,
    PARENTS,
    PAYLOAD,
    PLACE,
    ROW,
    SEQ,
    TYPE,
    decode_any,
    split_hashes,
)
from faber_ledger.ledger.whole_file import move_into_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
    from typing import Any

    Row = tuple[Any, ...]
    Position = tuple[Any, Any]  # seq and id

_position = itemgetter(SEQ, ID)
NAMING = (STARTED, ADOPTED)
(IDS,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE UNIQUE INDEX event_id ")]
(NEVER_DELETED,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_is_never_deleted")]
(ID_IS_NEW,) = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_id_is_new")]
IS_PLACE = f"version = 0 AND type = '{PLACE}'"
OTHER_CONTENT = "the log has another event with its id"
OTHER_RUN = "it is the first event of another run, or stands on nothing else"
BATCH_SIZE = 128 * 1024  # characters of payloads
HINT_VERIFY_EACH = "run `faber-ledger verify` on each of the logs"


def write_union(paths: Sequence[str], out: str, *, adopts: bool = False, keeps: str | None = None) -> United:
    """Unite the logs at `paths` into a fresh file at `out`, put in place at once; return its number of events.

    The result also says what the gate refused and dropped. The file's bytes depend on the events and on the version of
    SQLite alone. With `adopts`, logs of one run also unite if another tool's run was adopted in one of them. What
    contradicts the log at `keeps` is refused. Raises UnionConflict, and as `open_untrusted`; `out` is unchanged then.
    """
    temporary = out + ".tmp"
    remove_database(temporary)
    logs: list[Log] = []
    try:
        for path in paths:
            logs.append(open_untrusted(path, check_values=False))
        kept = logs[paths.index(keeps)] if keeps is not None else None
        if kept is None or not roots_in(kept.connection):
            check_one_run(logs, adopts=adopts)
        merged = merge_rows(logs, find_removed(logs, kept).gone, keeps=kept)
        count = write_rows(merged, temporary)
        move_into_place(temporary, out)
    except sqlite3.DatabaseError as error:
        raise IntegrityError(f"one of these logs cannot be read to its end: {error}", hint=HINT_GET_AGAIN) from error
    finally:
        for log in logs:
            log.close()
        remove_database(temporary)
    return United(count, merged.refused, merged.dropped)


def find_removed(logs: Sequence[Log], keeps: Log | None = None) -> Effective:
    """Decide what the redactions of logs remove, of the events that pass alone: what is refused redacts nothing.

    Raises as `merge_rows`.
    """
    if not any([log.connection.execute(ANY_REDACTION).fetchone() for log in logs]):
        return Effective({})
    import tempfile  # not for hooks

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        passing = os.path.join(folder, "passing.db")
        write_rows(merge_rows(logs, keeps=keeps), passing)
        with Log.read(passing) as whole:
            return effective_redactions(whole.connection)


class United:
    """What a union wrote: how many events, and what the gate refused, or let pass without a payload."""

    def __init__(self, count: int, refused: list[Refused], dropped: list[tuple[str, str]]) -> None:
        self.count = count
        self.refused = refused
        self.dropped = dropped

    def lines_left_out(self) -> Iterator[str]:
        """Name what this union refused or dropped, one line each."""
        return lines_left_out(self.refused, self.dropped)


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


def check_one_run(logs: Sequence[Log], *, adopts: bool = False) -> None:
    """Raise UnionConflict for logs that share no first event; with `adopts`, unless one of a run was adopted.

    Also if two different `run_started` are in them, whatever else they share.
    """
    known = [(log, roots) for log in logs if (roots := roots_in(log.connection))]
    joined, rest = known[:1], known[1:]
    while rest:
        fits = [one for one in rest if any([_is_same_run(one, other, adopts=adopts) for other in joined])]
        if not fits:
            named = [next(iter(sorted(runs_in(log))), "one without a name") for log, _ in (joined[0], rest[0])]
            raise UnionConflict(
                f"these are the logs of two runs: {named[0]:.80} and {named[1]:.80}"
                if named[0] != named[1]
                else f"these logs of {named[0]:.80} share no first event: two runs were started under one id",
                hint="unite only ledgers of the same run",
            )
        joined, rest = joined + fits, [one for one in rest if one not in fits]
    check_one_start([(log.path, log.connection) for log in logs])


def _is_same_run(one: tuple[Log, dict[bytes, Row]], other: tuple[Log, dict[bytes, Row]], *, adopts: bool) -> bool:
    if one[1].keys() & other[1].keys():
        return True
    if not adopts or all([any([row[TYPE] != ADOPTED for row in roots.values()]) for _, roots in (one, other)]):
        return False
    named = [runs_in(log) for log, _ in (one, other)]
    return not all(named) or bool(named[0] & named[1])


class Passing:
    """The events of logs that pass the gate, each once, in `(seq, id)` order; with a base, those that it lacks.

    A row loses its payload if its id is in `gone`, which must be known before: a redaction comes after its event. Once
    all rows were taken, `refused` and `dropped` say what the gate did with the others. The place of a refused event is
    among the rows if a later one stands on it. With `keeps`, this clone's own log, an event of which that has another
    content is refused, and has a place; so is the first event of another run, and what stands on that alone: an event
    that stands on both runs, as a clone that had neither wrote it, passes. Rows up to the position `after` are not
    looked at. To take the rows raises UnionConflict and IntegrityError.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        gone: Collection[str] = (),
        base: Log | None = None,
        keeps: Log | None = None,
        aside: Sequence[Row] = (),
        after: Position | None = None,
    ) -> None:
        self.refused: list[Refused] = []
        self.dropped: list[tuple[str, str]] = []
        self._logs = logs
        self._gone = gone
        self._aside = aside
        self._after = after
        self._base = base
        self._keeps = keeps
        self._foreign: set[bytes] = set()
        if keeps is not None:
            self._foreign.update(*[find_foreign_roots(keeps, log) for log in logs if log is not keeps])
            ours = roots_in(keeps.connection)
            first = [row[HASH] for row in aside if is_typed_whole(row) and row[SEQ] == 1 and not row[PARENTS]]
            self._foreign.update([digest for digest in first if ours and digest not in ours])
        self._is_base_empty = base is None or not base.heads()
        self._sound: list[set[Row]] = []  # of each stream's last batch
        keeps_base = not self._is_base_empty or keeps is None or keeps is base
        # No other stream brings the base what a batch has, and no other log contradicts it.
        self._is_alone = len(logs) == 1 and not aside and keeps_base

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows; each may be inserted into the base as it is yielded."""
        places: deque[Row] | None = None
        with closing(self._known_positions()) as seqs:
            gate = self._make_gate(seqs)
            self.refused, self.dropped = gate.refused, gate.dropped
            for rows, refused in self._judge(gate):
                if places is None and any([one.has_place for one in refused]):
                    places = deque(self._find_places())
                if not places and not self._gone:
                    yield from rows
                    continue
                for row in rows:
                    while places and _position(places[0]) < _position(row):
                        yield places.popleft()
                    yield without_payload(row) if row[ID] in self._gone else row
            yield from places or ()

    def _judge(self, gate: Gate) -> Iterator[tuple[Sequence[Row], Sequence[Refused]]]:
        """Yield events that the gate picks, some at a time, and what it refused since the last ones."""
        self._sound = []
        if not self._is_alone:
            yield from self._judge_each(gate, [*map(self._note_sound, self._logs), self._aside])
            return
        last = (0, "")
        for batch in _in_batches(rows_of(self._logs[0], self._after)):
            sound = self._find_sound(batch, last)
            is_whole = len(sound) == len(batch) and not self._foreign and last < _position(batch[0])
            if is_whole and gate.admit_chain(batch):
                yield batch, ()
                last = _position(batch[-1])
            else:
                self._sound = [{*sound}]
                yield from self._judge_each(gate, [batch], last)
                last = max([last, *[_position(row) for row in batch if is_typed_whole(row)]])

    def _judge_each(
        self, gate: Gate, streams: Sequence[Iterable[Row]], last: Position = (0, "")
    ) -> Iterator[tuple[Sequence[Row], Sequence[Refused]]]:
        """Judge the events of streams as `_judge`, each alone; `last` is the position before them."""
        typed = [self._typed_rows(rows, gate) for rows in streams]
        for _, group in itertools.groupby(_in_order(typed, last), _position):
            before = len(gate.refused)
            row = self._pick(gate, list(group))
            yield () if row is None else (row,), gate.refused[before:]

    def _pick(self, gate: Gate, copies: list[Row]) -> Row | None:
        """Pick among the copies of one event, which `keeps` may contradict."""
        if self._foreign:
            foreign = [row for row in copies if self._is_foreign(row) and examine(row).fault is None]
            for row in foreign:
                self._foreign.add(row[HASH])
                gate.admit([Examined(row, row, OTHER_RUN)])
            copies = [row for row in copies if row not in foreign]
        if not copies:
            return None
        if self._is_sound(copies):
            return gate.admit_sound(copies[0])
        if not self._is_base_empty:
            return self._pick_missing(gate, copies)
        if self._keeps is None or self._keeps is self._base:
            return gate.pick(copies)
        return gate.admit([self._examine_beside(self._keeps, row) for row in dict.fromkeys(copies)])

    def _is_sound(self, copies: list[Row]) -> bool:
        """Return whether an event needs no look of its own: its copies are alike, and sound, and the base lacks it."""
        row = copies[0]
        if self._foreign or not any([row in rows for rows in self._sound]) or copies.count(row) != len(copies):
            return False
        return not self._is_base_empty or self._keeps is None or self._keeps is self._base

    def _is_foreign(self, row: Row) -> bool:
        """Return whether an event is another run's: its first event, or one that stands on nothing else."""
        parents = split_hashes(row[PARENTS])
        return row[HASH] in self._foreign or (bool(parents) and self._foreign.issuperset(parents))

    def _examine_beside(self, keeps: Log, row: Row) -> Examined:
        """Examine a row, which is at fault where a log has another sound event with its id."""
        one = examine(row)
        if one.fault is None and position_in(keeps, row[ID]) not in (None, (row[SEQ], row[HASH])):
            (ours,) = rows_named(keeps, row[ID])
            if examine(ours).fault is None:
                return Examined(row, row, OTHER_CONTENT)
        return one

    def _pick_missing(self, gate: Gate, copies: list[Row]) -> Row | None:
        """Pick as the gate does, if the base does not have the event; both are compared by seq and hash alone."""
        known = position_in(self._log_at_base, copies[0][ID])
        if known is None:
            return gate.pick(copies)
        for row in copies:
            if (row[SEQ], row[HASH]) == known:
                continue
            one = examine(row)
            if one.fault is not None:
                gate.admit([one])
                continue
            (ours,) = rows_named(self._log_at_base, row[ID])
            if examine(ours).fault is not None:
                gate.refused.append(Refused(row, OTHER_CONTENT))
            elif self._keeps is None:
                raise conflict_of([ours, row])
            else:
                gate.admit([Examined(row, row, OTHER_CONTENT)])
        return None

    @property
    def _log_at_base(self) -> Log:
        if self._base is None:
            raise TypeError("there is no base")
        return self._base

    def _note_sound(self, log: Log) -> Iterator[Row]:
        """Yield the rows of a log; those of a large batch that need no look of their own are in `_sound` meanwhile."""
        sound: set[Row] = set()
        self._sound.append(sound)
        for batch in _in_batches(rows_of(log, self._after)):
            sound.clear()
            sound.update(self._find_sound(batch))
            yield from batch

    def _find_sound(self, batch: list[Row], last: Position = (0, "")) -> list[Row]:
        """Return the rows of a large batch if all are sound, with a base those that it lacks.

        `last` is the position before them.
        """
        if len(batch) < BATCH or not (self._is_base_empty or self._is_alone):
            return []
        from faber_ledger.ledger.sound import are_sound  # with OpenSSL, which pays for many events

        if not are_sound(batch):
            return []
        if self._is_base_empty:
            return batch
        # A row may be inserted as it is yielded, the last one after this look.
        ids = [row[ID] for row in batch]
        if len({last[1], *ids}) != 1 + len(ids):
            return []
        question = f"SELECT id FROM event WHERE id IN ({', '.join('?' * len(ids))})"
        known = {name for (name,) in self._log_at_base.connection.execute(question, ids)}
        return [row for row in batch if row[ID] not in known]

    def _typed_rows(self, rows: Iterable[Row], gate: Gate) -> Iterator[Row]:
        for row in rows:
            if is_typed_whole(row):
                yield row
            else:
                gate.pick([row])  # which refuses it: it cannot be compared with others

    def _known_positions(self) -> Positions:
        return Positions() if self._base is None else positions_in(self._base)

    def _make_gate(self, seqs: Positions) -> Gate:
        return Gate(seqs, () if self._base is None else places_in(self._base))

    def _find_places(self) -> list[Row]:
        """Return the places that events stand on and the base lacks: a look at all events."""
        sound = self._sound  # of the batches that are being judged
        with closing(self._known_positions()) as seqs:
            gate = self._make_gate(seqs)
            for _ in self._judge(gate):
                pass
            self._sound = sound
            return [row for row in gate.needed_places() if self._base is None or hash_in(self._base, row[ID]) is None]


def merge_rows(
    logs: Sequence[Log], gone: Collection[str] = (), *, keeps: Log | None = None, aside: Sequence[Row] = ()
) -> Passing:
    """Merge rows of logs, and others in order, into one log; the events named in `gone` lose their payloads."""
    return Passing(logs, gone, keeps=keeps, aside=aside)


def missing_rows(log: Log, other: Log, *, keeps: bool = False) -> Passing:
    """Find the rows of `other` that `log` lacks. A hook waits for this after every `git pull`.

    If `log` keeps what it has, what contradicts it is refused; else raises UnionConflict, also if the two are not of
    one run.
    """
    if not keeps:
        check_one_run([log, other])
    return Passing([other], base=log, keeps=log if keeps else None, after=_find_common_end(log, other))


def _find_common_end(log: Log, other: Log) -> Position | None:
    """Return a position up to which two logs have the same rows, so that no other needs a look."""
    before: Position | None = None
    last: Position | None = None
    try:
        streams = [one.connection.execute(f"{ROW} ORDER BY seq, id") for one in (log, other)]
        for row, theirs in zip(*streams, strict=False):
            if not _is_same_row(row, theirs) or not is_typed_whole(row):
                break
            if last != (position := (row[SEQ], row[ID])):
                before, last = last, position
    except sqlite3.OperationalError:  # bytes that are no text
        pass
    return before  # a forged file may have the last position again


class RememberFirst:
    """Rows in order; once they were taken, `position` is that of the first one, None without any."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.position: Position | None = None
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        for row in self._rows:
            if self.position is None:
                self.position = _position(row)
            yield row


def lacked_rows(log: Log, other: Log, first: Position | None) -> Iterator[Row]:
    """Yield the rows of `other` from a position on that `log` lacks by their ids; they are not judged. None: no row."""
    if first is None:
        return
    is_empty = not log.heads()  # then no id is looked up in it, as `insert_rows` asks
    for row in map(tuple, other.connection.execute(f"{ROW} WHERE (seq, id) >= (?, ?) ORDER BY seq, id", first)):
        if is_empty or position_in(log, row[ID]) is None:
            yield row


def _in_order(streams: Sequence[Iterable[Row]], before: Position) -> Iterator[Row]:
    """Merge the streams, and check that each is in order, after a position: in a forged file an index may be wrong."""
    for row in heapq.merge(*streams, key=_position):
        position = _position(row)
        if position < before:
            raise IntegrityError(f"event {shown_id(row[ID])} is out of order in its file", hint=HINT_GET_AGAIN)
        before = position
        yield row


def _in_batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists of `BATCH`; in shorter ones where payloads are long, in longer ones of one position."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        if (len(batch) >= BATCH or size > BATCH_SIZE) and _position(row) != _position(batch[-1]):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row[PAYLOAD] or "") if type(row[PAYLOAD]) in (str, bytes) else 0
    if batch:
        yield batch


def rows_of(log: Log, after: Position | None = None) -> Generator[Row]:
    """Yield a log's rows as they are stored, in `(seq, id)` order, those after a position if one is given.

    Bytes that are no text become lone surrogates.
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
    log.connection.text_factory = decode_any
    yield from map(tuple, _select_after(log, position))


def _select_after(log: Log, position: Position | None) -> sqlite3.Cursor:
    where = "" if position is None else " WHERE (seq, id) > (?, ?)"
    return log.connection.execute(f"{ROW}{where} ORDER BY seq, id", position or ())


def has_same_rows(log: Log, other: Log) -> bool:
    """Return whether two logs have the same heads and events, value for value and type for type."""
    if log.heads() != other.heads():
        return False
    try:
        streams = [one.connection.execute(f"{ROW} ORDER BY seq, id") for one in (log, other)]
        return all([_is_same_row(*pair) for pair in itertools.zip_longest(*streams)])
    except sqlite3.OperationalError:  # bytes that are no text
        return False


def _is_same_row(row: Row | None, other: Row | None) -> bool:
    """Compare types, too: 1 equals 1.0."""
    return row == other and (row is None or [*map(type, row)] == [*map(type, other or ())])


def rows_named(log: Log, name: str) -> list[Row]:
    """Return the rows with an id, at most one but in a forged file; none if they cannot be read."""
    try:
        return [tuple(row) for row in log.connection.execute(f"{ROW} WHERE id = ?", (name,))]
    except (sqlite3.Error, UnicodeEncodeError):
        return []


def positions_in(log: Log) -> Positions:
    """Return the positions of a log's events, its places left out; the caller closes them.

    All but the newest are read when one of them is looked up. What the log gets meanwhile is added by the caller.
    """
    places = f"SELECT hash, seq FROM event WHERE NOT ({IS_PLACE}) ORDER BY"
    seqs = Positions(lambda: filter(_is_position, log.connection.execute(f"{places} seq, id")))
    newest = log.connection.execute(f"{places} seq DESC, id DESC LIMIT {AT_HAND}").fetchall()
    seqs.update(filter(_is_position, reversed(newest)))
    return seqs


def _is_position(found: tuple[Any, Any]) -> bool:
    return type(found[0]) is bytes and type(found[1]) is int


def places_in(log: Log) -> list[tuple[int, bytes, bytes]]:
    """Return seq, parents and hash of each place in a log."""
    found = log.connection.execute(f"SELECT seq, parents, hash FROM event WHERE {IS_PLACE}")
    return [place for place in found if tuple(map(type, place)) == (int, bytes, bytes)]


def hash_in(log: Log, name: str) -> bytes | None:
    """Return the hash of the event with this id in a log, or None."""
    found = position_in(log, name)
    return found[1] if found else None


def position_in(log: Log, name: str) -> tuple[int, bytes] | None:
    """Return seq and hash of the event with this id in a log, or None."""
    try:
        found = log.connection.execute("SELECT seq, hash FROM event WHERE id = ?", (name,)).fetchone()
    except UnicodeEncodeError:  # bytes that are no text, which no event that passes has as its id
        return None
    return tuple(found) if found else None


def insert_rows(log: Log, rows: Iterable[Row]) -> None:
    """Insert rows that a log lacks in its open transaction, and find its heads again.

    For a log without events, each row comes before its children, and `rows` looks up no id in the log. All rows or
    none: raises sqlite3.Error, and the transaction is as it was, or gone, since SQLite rolls it back if the disk is
    full or fails.
    """
    log.connection.execute("SAVEPOINT insert_rows")
    log.forget_redactions()
    try:
        newest, rows = max(log.heads(), default=None), iter(rows)
        first = next(rows, None)
        rows = itertools.chain([] if first is None else [first], rows)
        if newest is None:
            # Made at the end, this index takes a fraction of the time. A union of files keeps it: git stores less of
            # pages in the order that appends leave them in. SQLite refuses it while another statement is open on this
            # connection: `rows` must not have begun to read the log.
            log.connection.execute("DROP INDEX event_id")
            _fill(log, rows)
            log.connection.execute(IDS)
        elif first is not None and first[SEQ] >= newest[0]:
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


def replace_rows(log: Log, rows: Iterable[Row]) -> None:
    """Give a log other rows in its open transaction, each before its children; raises as `insert_rows`."""
    log.connection.execute("DROP TRIGGER event_is_never_deleted")
    log.connection.execute("DELETE FROM event")
    log.connection.execute(NEVER_DELETED)
    log.set_heads([])
    insert_rows(log, rows)


def _fill(log: Log, rows: Iterable[Row]) -> int:
    """Insert rows that come after all of a log, each before its children, and return how many.

    Raises sqlite3.IntegrityError if two have one id.
    """
    heads = {digest: seq for seq, digest in log.heads()}

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
