"""Ask the server one of its functions, which are all that a member may use, and check what it answers.

A server may lie: what none of faber-ledger's could answer, whoever had written to it, ends the command with one error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from faber_ledger.ledger.command_errors import ServerRefused

if TYPE_CHECKING:
    import psycopg  # the extra

    from faber_ledger.ledger.encoding import Row

Connection: TypeAlias = "psycopg.Connection[Any]"
Kinds = type | tuple[type, ...]

NONE = type(None)
# What the server's tables take, in characters, or in bytes for those of hashes; a place's id is the longest.
LONGEST = {
    "id": 72,
    "run_id": 255,
    "project": 26,
    "name": 255,
    "role": 63,
    "type": 64,
    "at": 64,
    "writer": 4096,
    "session_id": 4096,
    "client": 4096,
    "parents": 512 * 1024,
    "salt": 16,
    "payload": 8 * 1024 * 1024,
    "content": 64 * 1024 * 1024,
    "payload_hash": 32,
    "hash": 32,
    "digest": 32,
}
NEVER_NEGATIVE = {"position", "size", "count_events"}
ID = re.compile("[0-9A-Za-z]{1,64}|refused-[0-9a-f]{64}")  # of a project, an event, a place
MOST_EVENTS = 5_000  # of a batch of events, pushed or fetched
MOST_BYTES = 8 * 1024 * 1024  # of a batch, in bytes of its payloads and parents; one event may be longer
MOST_ROWS = 1_000_000  # of an answer that has no limit of its own: runs, redactions
HINT = "ask the owner of the database: the server is damaged, or is not faber-ledger's"


def ask(
    connection: Connection, function: str, columns: Mapping[str, Kinds], *, limit: int = MOST_ROWS, **arguments: Any
) -> list[Row]:
    """Return the rows that a function answers, `limit` at most; `arguments` are in its order.

    Raises ServerRefused for what no server of faber-ledger answers, and the driver's errors.
    """
    statement = f"{render_call(function, columns, arguments)} LIMIT {limit + 1}".encode()
    with translate_decode_errors(function):
        rows = connection.execute(statement, arguments).fetchall()
        check_rows(function, [*columns.items()], rows)
    if len(rows) > limit:
        raise absurd_answer(function, f"more than {limit:,} rows")
    return list(map(tuple, rows))


def ask_one(connection: Connection, function: str, kind: type, **arguments: Any) -> Any:
    """Return the one value that a function answers, of a type; raises as `ask`."""
    rows = ask(connection, function, {function: kind}, limit=1, **arguments)
    if not rows:
        raise absurd_answer(function)
    return rows[0][0]


@contextmanager
def translate_decode_errors(function: str) -> Iterator[None]:
    """Raise ServerRefused where the driver cannot decode an answer: no UTF-8, JSON of too many levels or digits."""
    try:
        yield
    except (ValueError, OverflowError, RecursionError):
        raise absurd_answer(function) from None


def render_call(function: str, columns: Iterable[str], arguments: Iterable[str]) -> str:
    """Return the statement that asks a function."""
    places = ", ".join([f"%({name})s" for name in arguments])
    return f"SELECT {', '.join(columns)} FROM faber_ledger.{function}({places})"


def check_rows(function: str, columns: Sequence[tuple[str, Kinds]], rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows; raises ServerRefused if a value has another type than its column, or is too large.

    The error names an event that is too large.
    """
    names = [name for name, _ in columns]
    for (name, kinds), values in zip(columns, zip(*rows, strict=True), strict=bool(rows)):
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if not {*map(type, values)} <= {*allowed}:
            raise absurd_answer(function)
        if name in NEVER_NEGATIVE and min([value for value in values if value is not None], default=0) < 0:
            raise absurd_answer(function)
        if name == "id" and not all(map(ID.fullmatch, values)):
            raise absurd_answer(function)
        if name in LONGEST and max(map(len, filter(None, values)), default=0) > LONGEST[name]:
            at = next(at for at, value in enumerate(values) if len(value or "") > LONGEST[name])
            which = f"event {rows[at][names.index('id')]}, " if "id" in names[: names.index(name)] else ""
            raise absurd_answer(function, f"{which}its {name} is larger than any")
    return rows


def absurd_answer(function: str, what: str = "") -> ServerRefused:
    """Return the error for an answer that no server of faber-ledger gives."""
    return ServerRefused(
        f"the server's function {function} has answered what faber-ledger's never does{what and f': {what}'}", hint=HINT
    )
