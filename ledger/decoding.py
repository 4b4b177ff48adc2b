"""Stored rows made events: each alone, or many of them parsed as one text, at half the cost."""

from __future__ import annotations

import json
import os

from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.row import COLUMNS, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.events import Recorded

    Row = tuple[Any, ...]

BATCH = 128
ENVELOPE = tuple([types[0] for types in COLUMNS.values()][:SESSION])  # the types of what comes before the session's id
NULLABLE = COLUMNS["session_id"]  # and of the client's
DAMAGED = "run `faber-ledger verify`"


def decoded(row: Row) -> Recorded:
    """Make a row of `READ`'s columns an event; raises IntegrityError for a value of another type."""
    check_typed(row)
    name, payload = row[1], row[8]
    try:
        event: Any = json.loads(payload) if payload is not None else {}
        event["type"] = row[2]
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError(f"the payload of event {name} is no JSON object: {error}", hint=DAMAGED) from error
    return next(recorded([row], [event]))


def check_typed(row: Row) -> None:
    """Raise IntegrityError for a row whose envelope is not as `is_typed` tells."""
    if not is_typed(row):
        raise IntegrityError(f"event {row[1]!r:.40} has a value of another type than any ledger writes", hint=DAMAGED)


def is_typed(row: Row) -> bool:
    """Tell whether a row's envelope, its first eight columns, has values of the types that every ledger writes."""
    seq, name, kind, version, at, writer, session_id, client, *_ = row
    types = (type(seq), type(name), type(kind), type(version), type(at), type(writer))
    return types == ENVELOPE and type(session_id) in NULLABLE and type(client) in NULLABLE


def payloads_of(texts: list[str]) -> list[Any] | None:
    """Parse payloads; None if one of them is no object's JSON, or is redacted."""
    # Between two payloads stands what no writer could foresee: else two that are no JSON alone might be some together.
    mark = os.urandom(8).hex()
    try:
        values = json.loads("[" + f',"{mark}",'.join(texts) + "]")
    except (TypeError, ValueError, RecursionError):
        return None
    payloads: list[Any] = values[::2]
    is_right = values[1::2] == [mark] * (len(texts) - 1) and list(map(type, payloads)) == [dict] * len(texts)
    return payloads if is_right else None


def recorded(rows: Iterable[Row], payloads: Iterable[Any]) -> Iterator[Recorded]:
    """Put payloads, which are changed in place, into their rows' envelopes."""
    for row, event in zip(rows, payloads, strict=True):
        seq, name, event["type"], version, at, writer, session_id, client = row[:8]
        if session_id is not None:
            event["session_id"] = session_id
        yield {
            "seq": seq,
            "id": name,
            "version": version,
            "at": at,
            "writer": writer,
            "client": client,
            "event": event,
        }
