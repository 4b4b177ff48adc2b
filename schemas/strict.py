"""Read a log strictly: compute every hash again, and check every payload against the model of its type."""

from __future__ import annotations

from itertools import chain
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from faber_ledger.ledger.checked import MALFORMED, decode_batch, verified_batches
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.event_types import is_known
from faber_ledger.ledger.row import decode_rows
from faber_ledger.schemas.events import EVENTS, check_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.ledger.log import Log

    Row = tuple[Any, ...]


def read_strictly(log: Log) -> Iterator[Recorded]:
    """Yield every event in `(seq, id)` order; raises IntegrityError for the first that does not fit its model.

    So it does for one that does not match its hash. An event of an unknown type or version has no model, and a redacted
    event has nothing left to check: both are yielded unchecked.
    """
    return chain.from_iterable(_check_batch(rows) for rows in verified_batches(log))


def _check_batch(rows: list[Row]) -> Iterator[Recorded]:
    # If a payload held two values, two others would have to form one value together to keep the count; the `type` of
    # the first of those would then be inside its object, where no model has one.
    try:
        events = EVENTS.validate_json("[" + ",".join([_text(row) for row in rows]) + "]")
        if len(events) == len(rows):
            return decode_rows(rows, events)
    except (*MALFORMED, ValidationError):
        pass
    found = list(decode_batch(rows))
    for one in found:
        problems = problems_in(one)
        if problems:
            raise IntegrityError(
                f"event {one['id']} is not a {one['event']['type']} as this program writes it: {'; '.join(problems)}",
                hint="run `faber-ledger verify`",
            )
    return iter(found)


def _text(row: Row) -> str:
    """Write a row's event as JSON, with the members that its envelope stores."""
    payload, session_id = row[10], row[6]
    if payload == "{}":
        raise ValueError("no event of a known type is empty")
    session = "" if session_id is None else f',"session_id":{quoted(session_id)}'
    return f'{payload[:-1]},"type":{quoted(row[2])}{session}}}'


def problems_in(recorded: Recorded) -> list[str] | None:
    """Return what is wrong with an event by its model; None if it has no model, or is redacted."""
    if "redacted" in recorded or not is_known(recorded["event"]["type"], recorded["version"]):
        return None
    return check_event(recorded["event"])
