"""What is wrong with one event, whatever else its log holds: its values' types, its payload, its shape, its hash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.finding import RESTORE, UPGRADE
from faber_ledger.ledger.formats import LONGEST_PAYLOAD
from faber_ledger.ledger.row import COLUMNS, hash_of, is_too_long, pieces
from faber_ledger.ledger.shapes import CURRENT

ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
LONG = -1  # what is read in the place of a payload that is too long to be read


def problems_alone(event: dict[str, Any], check_event: Callable[[Any], list[str]]) -> Iterator[tuple[str, str, str]]:
    """Give what is wrong with one event, whatever else its log holds: each as (kind, what, what to do)."""
    if event["payload"] == LONG or (isinstance(event["payload"], str) and is_too_long(event["payload"])):
        yield (
            "too_long",
            f"its payload is longer than {LONGEST_PAYLOAD // 1024 // 1024} MB, and no reader takes it",
            RESTORE,
        )
        return
    mistyped = [name for name, kinds in COLUMNS.items() if type(event[name]) not in kinds]
    if mistyped:
        yield "mistyped", f"its {', '.join(mistyped)} has another type than any ledger writes", RESTORE
        return
    if not ULID.fullmatch(event["id"]):
        yield "id", "its id is no ULID", RESTORE
    if seconds_of(event["at"]) is None:
        yield "at", f"its time {event['at']!r} is no time", RESTORE
    parents = pieces(event["parents"])
    if parents != sorted(set(parents)):
        yield "parents", "its parents are not in order, or one is there twice", RESTORE
    yield from _payload_problems(event, check_event)
    yield from _hash_problems(event)


def _payload_problems(event: dict[str, Any], check_event: Callable[[Any], list[str]]) -> Iterator[tuple[str, str, str]]:
    payload = event["payload"]
    if payload is None:
        return
    try:
        value = json.loads(payload)
        exact = isinstance(value, dict) and canonical(value) == payload and payload.encode() is not None
    except (ValueError, RecursionError):
        exact = False
    if not exact:
        yield "payload", "its payload is not canonical JSON", RESTORE
        return
    if CURRENT.get(event["type"]) != event["version"]:
        told = f"its shape ({event['type']}, version {event['version']}) is not known to this program"
        yield "unknown_shape", told, UPGRADE
        return
    value["type"] = event["type"]
    if event["session_id"] is not None:
        value["session_id"] = event["session_id"]
    for problem in check_event(value):
        yield "shape", f"it is not a {event['type']} as this program writes it: {problem}", RESTORE


def _hash_problems(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    salt, payload, stored = event["salt"], event["payload"], event["payload_hash"]
    is_redacted = payload is None and salt is None and stored is not None
    if not is_redacted and (payload is None or salt is None or stored is not None):
        yield "payload_hash", "it holds neither a salted payload nor, in its place, a payload's hash", RESTORE
    elif digest_of(event) != event["hash"]:
        yield "hash", "its hash does not match what it says: it was changed after it was written", RESTORE


def digest_of(event: dict[str, Any]) -> bytes | None:
    """Compute the hash that an event must have, as `hash_of`; None for text that is no text too."""
    try:
        return hash_of(tuple(event.values()))
    except UnicodeEncodeError:
        return None
