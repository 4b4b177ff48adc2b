"""Import events from JSON lines: staged in a table, checked in batches, then inserted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, NamedTuple

from faber_ledger.ledger.checked import compute_hashes
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import IntegrityError, UnionConflict
from faber_ledger.ledger.event_types import is_known
from faber_ledger.ledger.exchange import parse_line
from faber_ledger.ledger.file import HIGHEST_SEQ, MAX_PAYLOAD_BYTES
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.problems import NOTES, find_event_problems
from faber_ledger.ledger.redaction import redaction_of
from faber_ledger.ledger.row import (
    BATCH,
    COLUMNS,
    HASH,
    ID,
    PAYLOAD,
    are_canonical,
    decode_rows,
    parse_payload,
    parse_payloads,
    split_hashes,
)
from faber_ledger.ledger.union import NAMING, hash_in, positions_in

Row = tuple[Any, ...]

MAX_LINE_BYTES = 64 * 1024 * 1024
PIECE = 64 * 1024  # some hundred lines
MAX_SHOWN = 10
STAGE = f"INSERT INTO staged VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
KNOWN = "SELECT hash, line FROM staged WHERE seq = ? AND id = ?"
ELSEWHERE = """
SELECT line, id, first FROM staged JOIN (SELECT id, min(line) AS first FROM staged GROUP BY id HAVING count(*) > 1)
USING (id) WHERE line > first ORDER BY line
"""
PLACES = "SELECT seq, id, parents, hash, line FROM staged ORDER BY seq, id"


class LineProblem(NamedTuple):
    """What is wrong with a line of a file, counted from 1; a conflict is not damage."""

    line: int
    what: str
    is_conflict: bool = False


class Staged:
    """The events of a file, checked one by one and kept on disk, in a temporary database of SQLite.

    `problems`: what is wrong with the lines; `runs`: the runs that they name; `lines`: the number of events read.
    """

    def __init__(
        self, file: BinaryIO, check_event: Callable[[Any], list[str]], are_events: Callable[[list[Any]], bool]
    ) -> None:
        """Read the file; `check_event` returns what is wrong with one event, `are_events` whether all of many fit."""
        self.problems: list[LineProblem] = []
        self.runs: set[str] = set()
        self.lines = 0
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("PRAGMA page_size = 65536")  # long rows, written once and read in order
        columns = ", ".join(COLUMNS)
        self._connection.execute(f"CREATE TABLE staged ({columns}, line, PRIMARY KEY (seq, id)) WITHOUT ROWID")
        self._connection.execute("BEGIN")
        number = 1
        for lines in _pieces(file):
            count = lines.count(b"\n") + (not lines.endswith(b"\n"))
            if not self._read_at_once(number, lines, count, are_events):
                for place, line in enumerate(lines.split(b"\n"), number):
                    self.problems += [LineProblem(place, what) for what in self._read(line, place, check_event)]
            number += count
        self.problems += self._contradictions()

    def _read_at_once(self, number: int, lines: bytes, count: int, are_events: Callable[[list[Any]], bool]) -> bool:
        """Stage `count` lines that are as `export` writes them; return False, with nothing done, if one is not."""
        if len(lines) > MAX_PAYLOAD_BYTES:
            return False  # a payload may be longer than any log takes
        found = parse_rows(lines, count, are_events)
        try:
            self._connection.executemany(STAGE, [(*row, line) for line, (row, _) in enumerate(found, number)])
        except sqlite3.IntegrityError:
            return False  # those before the double are staged, and are recognized when they are read again
        self.lines += len(found)
        self.runs |= {event["run_id"] for row, event in found if row[2] in NAMING}
        return bool(found)

    def _read(self, line: bytes, number: int, check_event: Callable[[Any], list[str]]) -> Iterator[str]:
        """Stage one line, unless it is empty, and yield what is wrong with it."""
        if not line.strip():
            return
        if len(line) >= MAX_LINE_BYTES:
            yield f"it is longer than {MAX_LINE_BYTES // 1024 // 1024} MB"
            return
        try:
            event = parse_line(line)
        except ValueError as error:
            yield str(error)
            return
        wrong = {kind: what for kind, what, _ in find_event_problems(event, check_event) if kind not in NOTES}
        if "hash" in wrong:
            wrong.pop("shape", None)  # it says nothing more about an event that was changed
        yield from wrong.values()
        if not wrong:
            self._stage(number, event)

    def _stage(self, number: int, event: dict[str, Any]) -> None:
        self.lines += 1
        if event["type"] in NAMING and event["payload"] is not None:
            self._name(parse_payload(event["payload"]) or {})
        elif event["type"] == "event_redacted" and event["payload"] is not None:
            redaction = redaction_of(event["id"], event["payload"])
            self._name(redaction.remains if redaction else {})
        row = (*event.values(), number)
        try:
            self._connection.execute(STAGE, row)
        except sqlite3.IntegrityError:
            known = self._connection.execute(KNOWN, (event["seq"], event["id"])).fetchone()
            if known[0] != event["hash"]:
                self.problems.append(_conflict(number, event["id"], known[1]))
            elif event["payload"] is not None:  # a copy that has it wins, as in a union
                self._connection.execute(STAGE.replace("INSERT", "INSERT OR REPLACE"), row)

    def _contradictions(self) -> Iterator[LineProblem]:
        """Yield the lines whose event an earlier line has at another position."""
        # A unique index would find them at once, and make every line slower.
        if self._connection.execute("SELECT 1 FROM staged GROUP BY id HAVING count(*) > 1").fetchone():
            self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
            for line, name, first in self._connection.execute(ELSEWHERE):
                yield _conflict(line, name, first)

    def _name(self, payload: dict[str, Any]) -> None:
        """Remember the run that a payload, or what remains of one, names."""
        named = payload.get("run_id")
        self.runs |= {named} if isinstance(named, str) else set()

    def __len__(self) -> int:
        """Count the events, each once however often the file has it."""
        found: int = self._connection.execute("SELECT count(*) FROM staged").fetchone()[0]
        return found

    def problems_with(self, log: Log | None) -> Iterator[LineProblem]:
        """Yield what prevents the events from joining a log's (None: there is no log yet)."""
        chained = self._count_chained() if log is None else 0
        if log is None and chained == len(self):
            return
        with closing(positions_in(log) if log is not None else Positions()) as seqs:
            for seq, _, _, digest, _ in self._connection.execute(f"{PLACES} LIMIT ?", (chained,)):
                seqs[digest] = seq
            for row in self._connection.execute(f"{PLACES} LIMIT -1 OFFSET ?", (chained,)):
                yield from _problems_at(row, seqs, log)

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

    def count_missing_in(self, log: Log | None) -> int:
        """Count the events that a log (None: no log yet) lacks."""
        if log is None or not log.heads():
            return len(self)
        return sum(1 for (name,) in self._connection.execute("SELECT id FROM staged") if hash_in(log, name) is None)

    @property
    def connection(self) -> sqlite3.Connection:
        """The events as a copy of a log that can be queried like any other."""
        self._connection.execute("CREATE INDEX IF NOT EXISTS staged_id ON staged (id)")
        self._connection.execute(f"CREATE VIEW IF NOT EXISTS event AS SELECT {', '.join(COLUMNS)} FROM staged")
        return self._connection

    def shares_with(self, log: Log) -> bool:
        """Return whether the log has any of the events."""
        return self.count_missing_in(log) < len(self)

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
    message = "\n".join([f"{name} is not imported, and nothing was changed:", *shown, *more])
    if damaged:
        raise IntegrityError(message, hint="export the log again where it is intact")
    raise UnionConflict(
        message, hint="one of the two was changed by hand: run `faber-ledger verify` where each is from"
    )


def _conflict(line: int, name: str, first: int) -> LineProblem:
    return LineProblem(line, f"event {name} has another content than in line {first}", is_conflict=True)


def _problems_at(row: tuple[int, str, bytes, bytes, int], seqs: Positions, log: Log | None) -> Iterator[LineProblem]:
    """Yield what is wrong with one event's place after the events in `seqs`, and add it to them."""
    seq, name, joined, digest, line = row
    known = None if log is None else hash_in(log, name)
    if known is not None:
        if known != digest:
            yield LineProblem(line, f"event {name} has another content in the log", is_conflict=True)
        return
    parents = split_hashes(joined)
    missing = [parent.hex()[:12] for parent in parents if parent not in seqs]
    due = 1 + max([seqs[parent] for parent in parents if parent in seqs], default=0)
    if missing:
        yield LineProblem(line, f"its parent {', '.join(missing)} is neither before it in the file nor in the log")
    elif seq != due:
        yield LineProblem(line, f"its seq is {seq}, and after its parents it must be {due}")
    seqs[digest] = seq


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file's lines, some at a time, and only the first part of one that is too long."""
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


def parse_rows(lines: bytes, count: int, are_events: Callable[[list[Any]], bool]) -> list[tuple[Row, Any]]:
    """Return the rows in `count` lines, each with its event, or an empty list if one of them needs a closer look.

    `are_events` returns whether all events fit their shapes. A merge, a redacted event and an event of an unknown
    shape also need a closer look.
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
    events = [one["event"] for one in decode_rows(rows, payloads)]
    if not all([row[0] <= HIGHEST_SEQ and is_known(row[2], row[3]) for row in rows]) or not are_events(events):
        return []
    if any(seconds_of(at) is None for at in {row[4] for row in rows}):
        return []
    return list(zip(rows, events, strict=True))


def _row(values: tuple[str, ...]) -> Row:
    seq, name, kind, version, at, writer, session_id, client, parent, salt, payload, digest = values
    envelope = (int(seq), name, kind, int(version), at, writer, session_id or None, client or None)
    return (*envelope, bytes.fromhex(parent), bytes.fromhex(salt), payload, None, bytes.fromhex(digest))
