"""Import events from JSON lines: each is examined and staged in a table, checked at the gate, then inserted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple

from faber_ledger.ledger.checked import compute_hashes
from faber_ledger.ledger.encoding import (
    BATCH,
    COLUMNS,
    HASH,
    ID,
    PAYLOAD,
    SEQ,
    TYPE,
    VERSION,
    are_canonical,
    parse_payload,
    recorded_of,
    without_surrogates,
)
from faber_ledger.ledger.errors import IntegrityError, UnionConflict
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.exchange import parse_line
from faber_ledger.ledger.file import HIGHEST_SEQ, MAX_PAYLOAD_BYTES
from faber_ledger.ledger.gate import Examined, Gate, examine, find_form_fault, is_typed_whole
from faber_ledger.ledger.log import Log, parse_payloads
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import effective_redactions
from faber_ledger.ledger.roots import ADOPTED, check_one_start, roots_in
from faber_ledger.ledger.union import NAMING, hash_in, known_in, positions_in

Row = tuple[Any, ...]

MAX_LINE_BYTES = 64 * 1024 * 1024
PIECE = 64 * 1024  # some hundred lines
MAX_SHOWN = 10
STAGE = f"INSERT INTO staged VALUES ({', '.join('?' * (len(COLUMNS) + 3))})"
KNOWN = "SELECT hash, line, fault FROM staged WHERE seq = ? AND id = ?"
ELSEWHERE = """
SELECT line, id, first FROM staged JOIN (
  SELECT id, min(line) AS first FROM staged WHERE fault IS NULL GROUP BY id HAVING count(*) > 1
) USING (id) WHERE fault IS NULL AND line > first ORDER BY line
"""
STAGED = f"SELECT {', '.join(COLUMNS)}, line, fault, dropped FROM staged ORDER BY seq, id"


class LineProblem(NamedTuple):
    """What is wrong with a line of a file, counted from 1; a conflict is not damage."""

    line: int
    what: str
    is_conflict: bool = False


class Staged:
    """The events of a file, examined one by one and kept on disk, in a temporary database of SQLite.

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
        self._has_unusual = False
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("PRAGMA page_size = 65536")  # long rows, written once and read in order
        columns = ", ".join(COLUMNS)
        self._connection.execute(
            f"CREATE TABLE staged ({columns}, line, fault, dropped, PRIMARY KEY (seq, id)) WITHOUT ROWID"
        )
        self._connection.execute("BEGIN")
        number = 1
        for lines in _pieces(file):
            count = lines.count(b"\n") + (not lines.endswith(b"\n"))
            if not self._read_at_once(number, lines, count):
                for place, line in enumerate(lines.split(b"\n"), number):
                    self._read(line, place)
            number += count
        self.problems += self._contradictions()

    def _read_at_once(self, number: int, lines: bytes, count: int) -> bool:
        """Stage `count` lines that are as `export` writes them; return False, with nothing done, if one is not."""
        if len(lines) > MAX_PAYLOAD_BYTES:
            return False  # a payload may be longer than any log takes
        found = parse_rows(lines, count)
        try:
            rows = [(*row, line, None, None) for line, (row, _) in enumerate(found, number)]
            self._connection.executemany(STAGE, rows)
        except sqlite3.IntegrityError:
            return False  # those before the double are staged, and are recognized when they are read again
        self.lines += len(found)
        for row, event in found:
            if row[TYPE] in NAMING:
                self._name_run(event)
        return bool(found)

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
        self._stage(number, examine(tuple(event.values())))

    def _stage(self, number: int, one: Examined) -> None:
        if one.fault is not None and not is_typed_whole(one.row):
            self._leave_out(number, one.fault)
            return
        self._has_unusual = self._has_unusual or (one.fault or one.dropped) is not None
        row = one.row
        if row[TYPE] in NAMING and row[PAYLOAD] is not None:
            self._name_run(parse_payload(row[PAYLOAD]) or {})
        values = (*_storable(row), number, one.fault, one.dropped)
        try:
            self._connection.execute(STAGE, values)
        except sqlite3.IntegrityError:
            known = self._connection.execute(KNOWN, (row[SEQ], row[ID])).fetchone()
            if one.fault is not None and known[2] is None:
                pass  # a copy that is intact was before it
            elif known[2] is None and known[0] != row[HASH]:
                self.problems.append(_conflict(number, row[ID], known[1]))
            elif row[PAYLOAD] is not None or known[2] is not None:  # a copy that has it wins, as in a union
                self._connection.execute(STAGE.replace("INSERT", "INSERT OR REPLACE"), values)

    def _contradictions(self) -> Iterator[LineProblem]:
        """Yield the lines whose event an earlier line has at another position."""
        # A unique index would find them at once, and make every line slower.
        double = "SELECT 1 FROM staged WHERE fault IS NULL GROUP BY id HAVING count(*) > 1"
        if self._connection.execute(double).fetchone():
            self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
            for line, name, first in self._connection.execute(ELSEWHERE):
                yield _conflict(line, name, first)

    def _name_run(self, payload: dict[str, Any]) -> None:
        """Add the run that a payload names to `runs`."""
        named = payload.get("run_id")
        if isinstance(named, str):
            self.runs.add(named)

    def __len__(self) -> int:
        """Count the events, each once however often the file has it."""
        found: int = self._connection.execute("SELECT count(*) FROM staged").fetchone()[0]
        return found

    def check_at_gate(self, log: Log | None) -> list[LineProblem]:
        """Check at the gate the events that a log lacks (None: no log yet), and forget those that are refused.

        `left_out` has them afterwards. Returns the lines whose event has another content in the log.
        """
        if log is None and not self._has_unusual and self._count_chained() == len(self):
            return []
        conflicts = []
        with closing(positions_in(log) if log is not None else Positions()) as seqs:
            gate = Gate(seqs)
            for *values, line, fault, dropped in self._connection.execute(STAGED):
                row = tuple(values)
                known = None if log is None else known_in(log, row[ID])
                if known is None or fault is not None:
                    gate.check([Examined(row, row, fault, dropped)])
                elif known[:2] != (row[SEQ], row[HASH]):
                    conflicts.append(LineProblem(line, f"event {row[ID]} has another content in the log", True))
        lines = [self._line_of(one.id) for one in gate.refused]
        for one in gate.refused:
            self._connection.execute("DELETE FROM staged WHERE seq = ? AND id = ?", (one.seq, one.id))
        for line, one in zip(lines, gate.refused, strict=True):
            self._leave_out(line, one.why)
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

    def _count_chained(self) -> int:
        """Count the first events that each follow the one before; all events that one clone recorded do."""
        count, last = 0, b""
        cursor = self._connection.execute("SELECT seq, parents, hash FROM staged ORDER BY seq, id")
        while rows := cursor.fetchmany(BATCH):
            seqs, parents, hashes = zip(*rows, strict=True)
            if parents != (last, *hashes[:-1]) or seqs != (*range(count + 1, count + 1 + len(rows)),):
                break
            count, last = count + len(rows), hashes[-1]
        return count

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
        """Count the events that a log (None: no log yet) lacks, after `check_at_gate`.

        The place of a refused event does not count.
        """
        events = self._connection.execute("SELECT id FROM staged WHERE fault IS NULL")
        if log is None or not log.heads():
            return sum(1 for _ in events)
        return sum(1 for (name,) in events if hash_in(log, name) is None)

    @property
    def connection(self) -> sqlite3.Connection:
        """The events as a copy of a log that can be queried like any other."""
        self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
        self._connection.execute(f"CREATE VIEW IF NOT EXISTS event AS SELECT {', '.join(COLUMNS)} FROM staged")
        return self._connection

    def check_fits(self, log: Log | None, run_id: str, name: str) -> None:
        """Raise UnionConflict if the file, called `name`, and the log (None: no log yet) are not both of run `run_id`.

        They are if they share a first event, or if one of them begins with another tool's run that was adopted. A file
        without a first event is of the run on whose events its own stand.
        """
        if log is None:
            return check_one_start([(name, self.connection)])
        first, known = [roots_in(connection) for connection in (self.connection, log.connection)]
        if not first or not known or first.keys() & known.keys():
            return check_one_start([(name, self.connection), (f"the log of {run_id}", log.connection)])
        is_adopted = any([{row[TYPE] for row in roots.values()} == {ADOPTED} for roots in (first, known)])
        if is_adopted and (not self.runs or run_id in self.runs):
            return check_one_start([(name, self.connection), (f"the log of {run_id}", log.connection)])
        named = ", ".join(sorted(self.runs - {run_id})[:3])
        raise UnionConflict(
            f"{name} has the events of {named}, but {run_id} has others"
            if named
            else f"{name} and the log of {run_id} share no first event: two runs were started under one id",
            hint="leave out --run-id to import into the run that the events belong to",
        )

    def close(self) -> None:
        """Remove what is kept on disk."""
        self._connection.close()


def raise_problems(problems: Iterable[LineProblem], name: str) -> None:
    """Raise IntegrityError if lines of the file `name` are damaged, UnionConflict if they contradict other events."""
    found, count, damaged = [], 0, False
    for problem in problems:
        count, damaged = count + 1, damaged or not problem.is_conflict
        found += [problem] if count <= MAX_SHOWN else []
    if not count:
        return
    shown = [f"  line {problem.line}: {problem.what:.500}" for problem in found]
    more = [f"  and {count - MAX_SHOWN} more"] if count > MAX_SHOWN else []
    message, lines = f"{name} is not imported, and nothing was changed:", [*shown, *more]
    if damaged:
        raise IntegrityError(message, hint="export the log again where it is intact", lines=lines)
    hint = "one of the two was changed by hand: run `faber-ledger verify` where each is from"
    raise UnionConflict(message, hint=hint, lines=lines)


def _conflict(line: int, name: str, first: int) -> LineProblem:
    return LineProblem(line, f"event {name} has another content than in line {first}", is_conflict=True)


def _storable(row: Row) -> Row:
    """Return a row that SQLite can store: lone surrogates, with which no hash holds, become U+FFFD."""
    return tuple([without_surrogates(value) if isinstance(value, str) else value for value in row])


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file's lines, some at a time, and only the first part of a line that is too long."""
    while lines := file.read(PIECE):
        lines += file.readline(MAX_LINE_BYTES + 1)
        is_whole = lines.endswith(b"\n")
        yield lines
        while not is_whole and (rest := file.readline(1 << 20)):
            is_whole = rest.endswith(b"\n")


PLAIN = r'"([^"\\\x00-\x1f]+)"'  # a line with an empty text is read alone
# Lines are written by one encoder in one order, so a pattern can read all but the payload, which is JSON.
LINE = re.compile(
    r'^\{"seq":([1-9][0-9]{0,15}),"id":"([0-7][0-9A-HJKMNP-TV-Z]{25})","type":"([a-z_]+)","version":([1-9][0-9]{0,8}),'
    rf'"at":{PLAIN},"writer":{PLAIN},"session_id":(?:null|{PLAIN}),"client":(?:null|{PLAIN}),'
    r'"parents":\[(?:"([0-9a-f]{64})")?\],"salt":"([0-9a-f]{32})","payload":(\{.*\}),'
    r'"payload_hash":null,"hash":"([0-9a-f]{64})"\}$',
    re.MULTILINE,
)


def parse_rows(lines: bytes, count: int) -> list[tuple[Row, Any]]:
    """Return the rows in `count` lines, each with its event, or an empty list if one of them needs a closer look.

    A merge, a redacted event and one that the gate would not let pass as it is also need a closer look.
    """
    try:
        rows = [_row(values) for values in LINE.findall(lines.decode())]
        if len(rows) != count or compute_hashes(rows) != [row[HASH] for row in rows]:
            return []
        texts = [row[PAYLOAD] for row in rows]
        payloads = parse_payloads(texts)
        if payloads is None or not are_canonical(texts, payloads):
            return []
    except (ValueError, RecursionError):
        return []
    if not all([row[SEQ] <= HIGHEST_SEQ and find_form_fault(row) is None for row in rows]):
        return []
    events = [recorded["event"] for recorded in map(recorded_of, rows, payloads)]
    if not all([has_required(row[TYPE], row[VERSION], event) for row, event in zip(rows, events, strict=True)]):
        return []
    return list(zip(rows, events, strict=True))


def _row(values: tuple[str, ...]) -> Row:
    seq, name, kind, version, at, writer, session_id, client, parent, salt, payload, digest = values
    envelope = (int(seq), name, kind, int(version), at, writer, session_id or None, client or None)
    return (*envelope, bytes.fromhex(parent), bytes.fromhex(salt), payload, None, bytes.fromhex(digest))
