"""Write events as JSON lines, and read such lines into a database from which a log takes what passes the gate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from faber_ledger.ledger import encoding
from faber_ledger.ledger.encoding import COLUMNS, HASH, ID, INSERT, PARENTS, PAYLOAD, parse_payload, split_hashes
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.file import HIGHEST_SEQ
from faber_ledger.ledger.union import open_scratch, rows_named

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row

BINARY = ("parents", "salt", "payload_hash", "hash")
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_SHOWN = 10


class Staged:
    """The events of a file, in a temporary log that can be read like any other; none has passed the gate.

    `lines` counts those that hold an event; `problems` has the others, with what is wrong with them.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Read the file."""
        self.log = open_scratch("the file")
        self.lines = 0
        self.problems: list[str] = []
        for number, line in enumerate(_lines_of(file), 1):
            if number == 1 and line.startswith(b"SQLite format 3"):
                self.problems.append("line 1: it is a SQLite file, and what `faber-ledger export` writes is JSON")
                break
            try:
                if line.strip():
                    self._add(tuple(parse_line(line).values()))
                    self.lines += 1
            except ValueError as error:
                self.problems.append(f"line {number}: {error}")

    def _add(self, row: Row) -> None:
        """Add an event; of two copies one with a payload stays. Raises ValueError for another content."""
        connection = self.log.connection
        if connection.execute(INSERT.replace("INSERT", "INSERT OR IGNORE"), row).rowcount:
            return
        (known,) = rows_named(self.log, row[ID])
        if known[HASH] != row[HASH]:
            raise ValueError(f"event {row[ID]} has another content than in an earlier line")
        if known[PAYLOAD] is None:
            connection.execute(INSERT.replace("INSERT", "INSERT OR REPLACE"), row)

    def close(self) -> None:
        """Remove what is kept on disk."""
        self.log.close()


def raise_problems(problems: list[str], name: str) -> None:
    """Raise IntegrityError if lines of the file `name` hold no event, or contradict each other."""
    if problems:
        more = [f"  and {len(problems) - MAX_SHOWN} more"] if len(problems) > MAX_SHOWN else []
        raise IntegrityError(
            f"{name} is not imported, and nothing was changed:",
            hint="export the log again where it is intact",
            lines=[*[f"  {problem:.500}" for problem in problems[:MAX_SHOWN]], *more],
        )


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
    if len(line) >= MAX_LINE_BYTES:
        raise ValueError(f"it is longer than {MAX_LINE_BYTES // 1024 // 1024} MB")
    try:
        event = json.loads(line.decode(), object_pairs_hook=_members)
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
    if event["payload"] is not None:
        if not isinstance(event["payload"], dict):
            raise ValueError("its payload is neither an object nor null")
        try:
            event["payload"] = encoding.canonical(event["payload"])
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its payload has no canonical form: {error}") from error
    for name, kinds in COLUMNS.items():
        if type(event[name]) not in kinds or (kinds == (int,) and not 0 <= event[name] <= HIGHEST_SEQ):
            raise ValueError(f"its {name} is not what a ledger has there")
    return event


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("it names a member twice")
    return members


def _bytes(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    with suppress(ValueError):
        content = bytes.fromhex(value) if isinstance(value, str) else b""
        if content.hex() == value:  # `fromhex` accepts spaces and capitals too, which would not be written back
            return content
    raise ValueError(f"its {name} is not hexadecimal")
