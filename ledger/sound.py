"""Whether a batch of rows is sound: what the gate finds out of each event alone, at a fraction of the cost.

Most batches are. In one that is not, the gate examines each row, and its verdict counts.
"""

from __future__ import annotations

from faber_ledger.ledger.checked import compute_hashes
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.gate import TIME, ULID, find_form_fault, is_typed_whole
from faber_ledger.ledger.row import (
    AT,
    CLIENT,
    HASH,
    ID,
    PARENTS,
    PAYLOAD,
    SESSION,
    TYPE,
    VERSION,
    WRITER,
    are_canonical,
    event_of,
    is_too_long,
    parse_payloads,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = tuple[Any, ...]


def are_sound(rows: list[Row]) -> bool:
    """Return whether `examine` would find each row intact, with a payload that enters a log as it is."""
    if not all(map(is_typed_whole, rows)) or compute_hashes(rows) != [row[HASH] for row in rows]:
        return False  # places and redacted events among them, whose hash is not computed
    return _have_form(rows) and _have_usable_payloads(rows)


def _have_form(rows: list[Row]) -> bool:
    known = None
    for row in rows:
        if not ULID.fullmatch(row[ID]) or not TIME.fullmatch(row[AT]):
            return False
        rest = (row[TYPE], row[VERSION], row[WRITER], row[SESSION], row[CLIENT])  # which rarely changes
        if rest != known and find_form_fault(row[:PARENTS]) is not None:
            return False
        known = rest
    return True


def _have_usable_payloads(rows: list[Row]) -> bool:
    texts = [row[PAYLOAD] for row in rows]
    payloads = parse_payloads(texts)
    if payloads is None or any(map(is_too_long, texts)):
        return False
    try:
        if not are_canonical(texts, payloads):
            return False
    except (ValueError, RecursionError):
        return False
    return all(
        [
            has_required(row[TYPE], row[VERSION], event_of(row[TYPE], row[SESSION], payload))
            for row, payload in zip(rows, payloads, strict=True)
        ]
    )
