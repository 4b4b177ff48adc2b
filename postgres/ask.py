"""Ask the server one of its functions, which are all that a member may use, and check the types of what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from faber_ledger.ledger.command_errors import ServerRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    Kinds = type | tuple[type, ...]
    Row = tuple[Any, ...]

NONE = type(None)
# The columns of an event, in a ledger's order, and which of them may be null.
EVENT_COLUMNS: dict[str, Kinds] = {
    "seq": int,
    "id": str,
    "type": str,
    "version": int,
    "at": str,
    "writer": str,
    "session_id": (str, NONE),
    "client": (str, NONE),
    "parents": bytes,
    "salt": (bytes, NONE),
    "payload": (str, NONE),
    "payload_hash": (bytes, NONE),
    "hash": bytes,
}


def ask(connection: Connection, function: str, columns: Mapping[str, Kinds], **arguments: Any) -> list[Row]:
    """Return the rows that a function answers; `arguments` are in its order.

    Raises ServerRefused for what no server of faber-ledger answers, and the driver's errors.
    """
    rows = connection.execute(text(question(function, columns, arguments)), arguments)
    return list(map(tuple, checked(function, columns.values(), rows.all())))


def question(function: str, columns: Iterable[str], arguments: Iterable[str]) -> str:
    """Return the statement that asks a function."""
    return f"SELECT {', '.join(columns)} FROM faber_ledger.{function}({', '.join([f':{name}' for name in arguments])})"


def checked(function: str, columns: Iterable[Kinds], rows: Sequence[Any]) -> Sequence[Any]:
    """Return rows whose values are of their columns' types; raises ServerRefused for others."""
    for kinds, values in zip(columns, zip(*rows, strict=True), strict=bool(rows)):
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if not {*map(type, values)} <= {*allowed}:
            raise ServerRefused(
                f"the server's function {function} has answered what faber-ledger's never does",
                hint="ask the owner of the database: `faber-ledger db upgrade` makes its functions, in an empty schema",
            )
    return rows
