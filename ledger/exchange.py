"""A log as JSON lines, with everything that its hashes cover: written, read, and checked before it is taken in.

A line is one event. Its payload is written as JSON and hashed as canonical JSON, so that a line may be read and sorted
by any tool, and still gives back the very bytes that were stored.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.decoding import BATCH
from faber_ledger.ledger.errors import IntegrityError, UnionConflict
from faber_ledger.ledger.event_problems import problems_alone
from faber_ledger.ledger.finding import NOTES
from faber_ledger.ledger.foreign import check_types
from faber_ledger.ledger.formats import HIGHEST_SEQ, LONGEST_PAYLOAD
from faber_ledger.ledger.line_batch import rows_in
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import redaction_of
from faber_ledger.ledger.row import COLUMNS, ID, PAYLOAD, parents_of, pieces
from faber_ledger.ledger.union import hash_in, positions_in, rows_of

Row = tuple[Any, ...]

BINARY = ("parents", "salt", "payload_hash", "hash")
LONGEST_LINE = 64 * 1024 * 1024
LONGEST_BATCH = 1024 * 1024
SHOWN = 10
NAMING = ("run_started", "run_adopted")
STAGE = f"INSERT INTO staged VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
PLACES = "SELECT seq, id, parents, hash, line FROM staged ORDER BY seq, id"
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class Problem(NamedTuple):
    """What is wrong with a line of a file, which is counted from 1; a conflict is no damage."""

    line: int
    what: str
    is_conflict: bool = False


def lines_of(log: Log) -> Iterator[bytes]:
    """Write a log's events as JSON lines, in `(seq, id)` order; raises IntegrityError for what no ledger writes."""
    check_types(log)
    for row in rows_of(log):
        yield line_of(row)


def line_of(row: Row) -> bytes:
    """Write one stored row as a JSON line; raises IntegrityError if its payload is not canonical JSON."""
    event = dict(zip(COLUMNS, row, strict=True))
    for name in BINARY:
        event[name] = event[name].hex() if event[name] is not None else None
    event["parents"] = [parent.hex() for parent in parents_of(row)]
    event["payload"] = payload_of(row)
    return ENCODER.encode(event).encode() + b"\n"


def payload_of(row: Row) -> dict[str, Any] | None:
    """Give a stored row's payload, None once redacted; raises IntegrityError if it is not canonical JSON."""
    if row[PAYLOAD] is None:
        return None
    try:
        value = json.loads(row[PAYLOAD])
        if isinstance(value, dict) and canonical(value) == row[PAYLOAD]:
            return value
    except (ValueError, RecursionError):
        pass
    raise IntegrityError(f"the payload of event {row[ID]} is not canonical JSON", hint="run `faber-ledger verify`")


def event_in(line: bytes) -> dict[str, Any]:
    """Read a JSON line as the columns of one event, none of them checked further; raises ValueError."""
    try:
        event = json.loads(line.decode(), object_pairs_hook=_members)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start:,})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} (column {error.colno:,})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if isinstance(event, dict) and "specversion" in event:
        raise ValueError("it is a CloudEvent, which lacks what a ledger holds: export with `--format jsonl`")
    if not isinstance(event, dict) or event.keys() != COLUMNS.keys():
        raise ValueError(f"it is not an object with exactly these members: {', '.join(COLUMNS)}")
    parents = event["parents"]
    if not isinstance(parents, list) or not all([isinstance(one, str) and len(one) == 64 for one in parents]):
        raise ValueError("its parents are not a list of hashes")
    event["parents"] = "".join(parents)
    for name in BINARY:
        event[name] = _bytes(name, event[name])
    if len(event["hash"] or b"") != 32:
        raise ValueError("its hash is not 64 hexadecimal digits")
    for name in ("seq", "version"):
        if type(event[name]) is not int or not 1 <= event[name] <= HIGHEST_SEQ:
            raise ValueError(f"its {name} is not a number from 1 to {HIGHEST_SEQ}")
    if event["payload"] is not None:
        if not isinstance(event["payload"], dict):
            raise ValueError("its payload is neither an object nor null")
        try:
            event["payload"] = canonical(event["payload"])
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its payload has no canonical form: {error}") from error
    return event


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("it names a member twice")
    return members


def _bytes(name: str, value: object) -> bytes | None:
    if value is None and name != "hash":
        return None
    try:
        content = bytes.fromhex(value) if isinstance(value, str) else b""
        if content.hex() == value:  # `fromhex` takes spaces and capitals too, which would not come back
            return content
    except ValueError:
        pass
    raise ValueError(f"its {name} is not hexadecimal")


class Staged:
    """The events of a file, checked one by one and kept on disk, in a database of SQLite's own that nobody else sees.

    `problems` is what is wrong with the lines, `runs` which runs they name, `lines` how many events were read.
    """

    def __init__(
        self, file: BinaryIO, check_event: Callable[[Any], list[str]], are_events: Callable[[list[Any]], bool]
    ) -> None:
        """Read the file to its end; `check_event` tells what is wrong with a shape, `are_events` if many are right."""
        self.problems: list[Problem] = []
        self.runs: set[str] = set()
        self.lines = 0
        self._connection = sqlite3.connect("", isolation_level=None)
        columns = ", ".join(COLUMNS)
        self._connection.execute(f"CREATE TABLE staged ({columns}, line, PRIMARY KEY (seq, id)) WITHOUT ROWID")
        self._connection.execute("CREATE UNIQUE INDEX staged_id ON staged (id)")
        self._connection.execute("BEGIN")
        for batch in _batches(_numbered(file)):
            if not self._read_at_once(batch, are_events):
                for number, line in batch:
                    self.problems += [Problem(number, what) for what in self._read(number, line, check_event)]

    def _read_at_once(self, batch: list[tuple[int, bytes | None]], are_events: Callable[[list[Any]], bool]) -> bool:
        """Stage lines that are as `export` writes them; False, and nothing is done, if any is not."""
        if any([line is not None and len(line) > LONGEST_PAYLOAD for _, line in batch]):
            return False  # its payload may be longer than any log takes
        found = rows_in([line or b"" for _, line in batch], are_events)
        rows = [(*row, number) for (row, _), (number, _) in zip(found, batch, strict=bool(found))]
        try:
            self._connection.executemany(STAGE, rows)
        except sqlite3.IntegrityError:
            return False  # those before the doubled one are staged, and are known when they are read again
        self.lines += len(rows)
        self.runs |= {event["run_id"] for row, event in found if row[2] in NAMING}
        return bool(found)

    def _read(self, number: int, line: bytes | None, check_event: Callable[[Any], list[str]]) -> Iterator[str]:
        """Stage one line, and give what is wrong with it; None stands for one that is too long."""
        if line is None:
            yield f"it is longer than {LONGEST_LINE // 1024 // 1024} MB"
            return
        try:
            event = event_in(line)
        except ValueError as error:
            yield str(error)
            return
        wrong = {kind: what for kind, what, _ in problems_alone(event, check_event) if kind not in NOTES}
        if "hash" in wrong:
            wrong.pop("shape", None)  # of what somebody changed, the shape says nothing more
        yield from wrong.values()
        if not wrong:
            self._stage(number, event)

    def _stage(self, number: int, event: dict[str, Any]) -> None:
        self.lines += 1
        if event["type"] in NAMING and event["payload"] is not None:
            self._name(json.loads(event["payload"]))
        elif event["type"] == "event_redacted" and event["payload"] is not None:
            redaction = redaction_of(event["id"], event["payload"])
            self._name(redaction.remains if redaction else {})
        row = (*event.values(), number)
        try:
            self._connection.execute(STAGE, row)
        except sqlite3.IntegrityError:
            known = self._connection.execute("SELECT hash, line FROM staged WHERE id = ?", (event["id"],)).fetchone()
            if known[0] != event["hash"]:
                told = f"event {event['id']} has another content than in line {known[1]}"
                self.problems.append(Problem(number, told, is_conflict=True))
            elif event["payload"] is None:  # a redacted copy wins, as in a union
                self._connection.execute(STAGE.replace("INSERT", "INSERT OR REPLACE"), row)

    def _name(self, payload: dict[str, Any]) -> None:
        """Keep the run that a payload names, or what stays of one."""
        named = payload.get("run_id")
        self.runs |= {named} if isinstance(named, str) else set()

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Give the events as a log stores them, each with its line, in `(seq, id)` order."""
        for row in self._connection.execute(f"SELECT {', '.join(COLUMNS)}, line FROM staged ORDER BY seq, id"):
            yield row[:-1], row[-1]

    def __len__(self) -> int:
        """Count the events, each once however often the file has it."""
        found: int = self._connection.execute("SELECT count(*) FROM staged").fetchone()[0]
        return found

    def problems_with(self, log: Log | None) -> Iterator[Problem]:
        """Give what keeps the events from standing together with a log's (None: there is none yet)."""
        with closing(positions_in(log) if log is not None else Positions()) as seqs:
            for seq, name, joined, digest, line in self._connection.execute(PLACES):
                known = _hash_in(log, name)
                if known is not None:
                    if known != digest:
                        yield Problem(line, f"event {name} has another content in the log", is_conflict=True)
                    continue
                parents = pieces(joined)
                missing = [parent.hex()[:12] for parent in parents if parent not in seqs]
                due = 1 + max([seqs[parent] for parent in parents if parent in seqs], default=0)
                if missing:
                    told = f"its parent {', '.join(missing)} is neither before it in the file nor in the log"
                    yield Problem(line, told)
                elif seq != due:
                    yield Problem(line, f"its seq is {seq}, and after its parents it must be {due}")
                seqs[digest] = seq

    def missing_in(self, log: Log | None) -> Iterator[Row]:
        """Give the events that a log (None: there is none yet) lacks, in `(seq, id)` order."""
        if log is None or not log.heads():
            return (row for row, _ in self.rows())
        return (row for row, _ in self.rows() if hash_in(log, row[ID]) is None)

    def count_missing_in(self, log: Log | None) -> int:
        """Count the events that a log (None: there is none yet) lacks."""
        if log is None or not log.heads():
            return len(self)
        return sum(1 for (name,) in self._connection.execute("SELECT id FROM staged") if hash_in(log, name) is None)

    def gone(self) -> set[str]:
        """Give the events whose payload is gone, or has to go since a redaction among them says so."""
        rows = self._connection.execute("SELECT id FROM staged WHERE payload IS NULL")
        said = self._connection.execute(
            "SELECT id, payload FROM staged WHERE type = 'event_redacted' AND payload IS NOT NULL"
        )
        found = [redaction_of(*row) for row in said]
        return {name for (name,) in rows} | {name for one in found if one is not None for name in one.gone}

    def shares_with(self, log: Log) -> bool:
        """Tell whether the log has any of the events."""
        return self.count_missing_in(log) < len(self)

    def close(self) -> None:
        """Let go of what is kept on disk."""
        self._connection.close()


def check(problems: Iterable[Problem], name: str) -> None:
    """Raise IntegrityError if lines of the file `name` are damaged, UnionConflict if they contradict other events."""
    found, count, damaged = [], 0, False
    for problem in problems:
        count, damaged = count + 1, damaged or not problem.is_conflict
        found += [problem] if count <= SHOWN else []
    if not count:
        return
    told = [f"  line {problem.line}: {problem.what:.500}" for problem in found]
    more = [f"  and {count - SHOWN} more"] if count > SHOWN else []
    message = "\n".join([f"{name} is not imported, and nothing was changed:", *told, *more])
    if damaged:
        raise IntegrityError(message, hint="export the log anew where it is whole")
    raise UnionConflict(
        message, hint="one of the two was changed by hand: run `faber-ledger verify` where each is from"
    )


def _hash_in(log: Log | None, name: str) -> bytes | None:
    return None if log is None else hash_in(log, name)


def _batches(lines: Iterable[tuple[int, bytes | None]]) -> Iterator[list[tuple[int, bytes | None]]]:
    """Give numbered lines some at a time, fewer of long ones."""
    batch, size = [], 0
    for number, line in lines:
        batch.append((number, line))
        size += len(line or b"")
        if len(batch) == BATCH or size > LONGEST_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _numbered(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Give the file's lines with their numbers, empty ones left out; None stands for one that is too long."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) <= LONGEST_LINE:
            if line.strip():
                yield number, line
            continue
        yield number, None
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
