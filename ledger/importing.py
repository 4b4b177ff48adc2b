"""Write events as JSON lines, and import them: each is staged in a table, checked at the gate, then inserted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from faber_ledger.ledger.encoding import (
    COLUMNS,
    HASH,
    ID,
    PARENTS,
    PAYLOAD,
    SEQ,
    TYPE,
    canonical,
    parse_payload,
    split_hashes,
)
from faber_ledger.ledger.errors import IntegrityError, UnionConflict
from faber_ledger.ledger.file import HIGHEST_SEQ
from faber_ledger.ledger.gate import Examined, Gate, examine
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.roots import ADOPTED, check_one_start, roots_in, runs_named
from faber_ledger.ledger.union import NAMING, hash_in, known_in, positions_in

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row

BINARY = ("parents", "salt", "payload_hash", "hash")
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_SHOWN = 10
STAGE = f"INSERT INTO staged VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
KNOWN = "SELECT hash, line FROM staged WHERE seq = ? AND id = ?"
ELSEWHERE = """
SELECT line, id, first FROM staged JOIN (
  SELECT id, min(line) AS first FROM staged GROUP BY id HAVING count(*) > 1
) USING (id) WHERE line > first ORDER BY line
"""
STAGED = f"SELECT {', '.join(COLUMNS)}, line, dropped FROM staged ORDER BY seq, id"


class LineProblem(NamedTuple):
    """What is wrong with a line of a file, counted from 1; a conflict is not damage."""

    line: int
    what: str
    is_conflict: bool = False


class Staged:
    """The events of a file, examined one by one, and the intact ones on disk, in a temporary database of SQLite.

    `problems`: the lines that hold no event, and those that contradict each other; `runs`: the runs that they name;
    `lines`: the number of events read. `left_out`: the lines whose events do not enter a log, or not whole, and why;
    `refused`: the number of those that do not enter.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read the file."""
        self.problems: list[LineProblem] = []
        self.left_out: list[LineProblem] = []
        self.runs: set[str] = set()
        self.lines = 0
        self.refused = 0
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("PRAGMA page_size = 65536")  # long rows, written once and read in order
        columns = ", ".join(COLUMNS)
        self._connection.execute(f"CREATE TABLE staged ({columns}, line, dropped, PRIMARY KEY (seq, id)) WITHOUT ROWID")
        self._connection.execute("BEGIN")
        for number, line in enumerate(_lines_of(file), 1):
            if number == 1 and line.startswith(b"SQLite format 3"):
                self.problems.append(
                    LineProblem(1, "it is a SQLite file, and what `faber-ledger export` writes is JSON")
                )
                break
            self._read(line, number)
        self.problems += self._contradictions()

    def _read(self, line: bytes, number: int) -> None:
        """Stage one line, unless it is empty."""
        if not line.strip():
            return
        if len(line) >= MAX_LINE_BYTES:
            self.problems.append(LineProblem(number, f"it is longer than {MAX_LINE_BYTES // 1024 // 1024} MB"))
            return
        try:
            event = parse_line(line)
        except ValueError as error:
            self.problems.append(LineProblem(number, str(error)))
            return
        self.lines += 1
        one = examine(tuple(event.values()))
        row = one.row
        if row[TYPE] in NAMING:
            self.runs |= runs_named([row])
        if one.fault is not None:
            self._leave_out(number, one.fault)
            return
        values = (*row, number, one.dropped)
        try:
            self._connection.execute(STAGE, values)
        except sqlite3.IntegrityError:
            known, first = self._connection.execute(KNOWN, (row[SEQ], row[ID])).fetchone()
            if known != row[HASH]:
                self.problems.append(_conflict(number, row[ID], first))
            elif row[PAYLOAD] is not None:  # a copy that has it wins, as in a union
                self._connection.execute(STAGE.replace("INSERT", "INSERT OR REPLACE"), values)

    def _contradictions(self) -> Iterator[LineProblem]:
        """Yield the lines whose event an earlier line has at another position."""
        # A unique index would find them at once, and make every line slower.
        double = "SELECT 1 FROM staged GROUP BY id HAVING count(*) > 1"
        if self._connection.execute(double).fetchone():
            self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
            for line, name, first in self._connection.execute(ELSEWHERE):
                yield _conflict(line, name, first)

    def check_at_gate(self, log: Log | None) -> list[LineProblem]:
        """Check at the gate the events that a log lacks (None: no log yet), and forget those that are refused.

        `left_out` has them afterwards. Returns the lines whose event has another content in the log.
        """
        conflicts = []
        with closing(positions_in(log) if log is not None else Positions()) as seqs:
            gate = Gate(seqs)
            for *values, line, dropped in self._connection.execute(STAGED):
                row = tuple(values)
                known = None if log is None else known_in(log, row[ID])
                if known is None:
                    gate.check([Examined(row, row, None, dropped)])
                elif known[:2] != (row[SEQ], row[HASH]):
                    conflicts.append(LineProblem(line, f"event {row[ID]} has another content in the log", True))
        for one in gate.refused:
            self._leave_out(self._line_of(one.id), one.why)
            self._connection.execute("DELETE FROM staged WHERE seq = ? AND id = ?", (one.seq, one.id))
        for name, why in gate.dropped:
            self.left_out.append(LineProblem(self._line_of(name), f"its event stays without its payload: {why}"))
        self.left_out.sort()
        return conflicts

    def _leave_out(self, line: int, why: str) -> None:
        self.refused += 1
        self.left_out.append(LineProblem(line, f"it is left out: {why}"))

    def _line_of(self, name: str) -> int:
        line: int = self._connection.execute("SELECT line FROM staged WHERE id = ?", (name,)).fetchone()[0]
        return line

    def missing_in(self, log: Log | None) -> Iterator[Row]:
        """Yield the events that a log (None: no log yet) lacks, in `(seq, id)` order."""
        rows = self._connection.execute(f"SELECT {', '.join(COLUMNS)} FROM staged ORDER BY seq, id")
        if log is None or not log.heads():
            return rows
        return (row for row in rows if hash_in(log, row[ID]) is None)

    def payloads_for(self, log: Log) -> list[Row]:
        """Return the events that a log has without their payload, and that are here with one."""
        bare = log.connection.execute("SELECT id, hash FROM event WHERE payload IS NULL").fetchall()
        question = f"SELECT {', '.join(COLUMNS)} FROM staged WHERE id = ? AND hash = ? AND payload IS NOT NULL"
        gone = effective_redactions(log.connection)
        found = [self._connection.execute(question, one).fetchone() for one in bare if one[0] not in gone]
        return [row for row in found if row is not None]

    def count_missing_in(self, log: Log | None) -> int:
        """Count the events that a log (None: no log yet) lacks, after `check_at_gate`."""
        return sum(1 for _ in self.missing_in(log))

    @property
    def connection(self) -> sqlite3.Connection:
        """The events as a copy of a log that can be queried like any other."""
        self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
        self._connection.execute(f"CREATE VIEW IF NOT EXISTS event AS SELECT {', '.join(COLUMNS)} FROM staged")
        return self._connection

    def check_fits(self, log: Log | None, run_id: str, name: str) -> None:
        """Raise UnionConflict if the file, called `name`, and the log (None: no log yet) are not both of run `run_id`.

        They are if they share a first event, or if one of them begins with the adoption of another tool's run. Events
        without a first one belong to the run that has their parents.
        """
        logs = [(name, self.connection), *([(f"the log of {run_id}", log.connection)] if log is not None else [])]
        first, *known = [roots_in(connection) for _, connection in logs]
        is_adopted = any([{row[TYPE] for row in roots.values()} == {ADOPTED} for roots in (first, *known)])
        may_be_its = is_adopted and (not self.runs or run_id in self.runs)
        if first and any([roots and not first.keys() & roots.keys() for roots in known]) and not may_be_its:
            named = ", ".join(sorted(self.runs - {run_id})[:3])
            raise UnionConflict(
                f"{name} has the events of {named}, but {run_id} has others"
                if named
                else f"{name} and the log of {run_id} share no first event: two runs were started under one id",
                hint="leave out --run-id to import into the run that the events belong to",
            )
        check_one_start(logs)

    def close(self) -> None:
        """Remove what is kept on disk."""
        self._connection.close()


def raise_problems(problems: list[LineProblem], name: str) -> None:
    """Raise IntegrityError if lines of the file `name` are damaged, UnionConflict if they contradict other events."""
    if not problems:
        return
    shown = [f"  line {problem.line}: {problem.what:.500}" for problem in problems[:MAX_SHOWN]]
    more = [f"  and {len(problems) - MAX_SHOWN} more"] if len(problems) > MAX_SHOWN else []
    message, lines = f"{name} is not imported, and nothing was changed:", [*shown, *more]
    if not all([problem.is_conflict for problem in problems]):
        raise IntegrityError(message, hint="export the log again where it is intact", lines=lines)
    hint = "one of the two was changed by hand: run `faber-ledger verify` where each is from"
    raise UnionConflict(message, hint=hint, lines=lines)


def _conflict(line: int, name: str, first: int) -> LineProblem:
    return LineProblem(line, f"event {name} has another content than in line {first}", is_conflict=True)


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file's lines, and only the first part of one that is too long."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
            pass


def line_of(row: Row) -> bytes:
    """Write one stored row as a JSON line; raises IntegrityError if its payload is not canonical JSON."""
    event = dict(zip(COLUMNS, row, strict=True))
    for name in BINARY:
        event[name] = event[name].hex() if event[name] is not None else None
    event["parents"] = [parent.hex() for parent in split_hashes(row[PARENTS])]
    if row[PAYLOAD] is not None:
        event["payload"] = parse_payload(row[PAYLOAD])
        if event["payload"] is None:
            hint = "run `faber-ledger verify`"
            raise IntegrityError(f"the payload of event {row[ID]} is not canonical JSON", hint=hint)
    return ENCODER.encode(event).encode() + b"\n"


def parse_line(line: bytes) -> dict[str, Any]:
    """Read a JSON line as the columns of one event, none of them checked further; raises ValueError."""
    try:
        event = json.loads(line.decode(), object_pairs_hook=_members)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start:,})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} (column {error.colno:,})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
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
        least = 0 if name == "version" else 1  # 0 keeps the place of a refused event
        if type(event[name]) is not int or not least <= event[name] <= HIGHEST_SEQ:
            raise ValueError(f"its {name} is not a number from {least} to {HIGHEST_SEQ}")
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
    with suppress(ValueError):
        content = bytes.fromhex(value) if isinstance(value, str) else b""
        if content.hex() == value:  # `fromhex` accepts spaces and capitals too, which would not be written back
            return content
    raise ValueError(f"its {name} is not hexadecimal")
