"""Events as JSON lines, out and in."""

from __future__ import annotations

import json
from typing import Any

from faber_ledger.ledger.encoding import COLUMNS, ID, PARENTS, PAYLOAD, canonical, parse_payload, split_hashes
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.file import HIGHEST_SEQ

Row = tuple[Any, ...]

BINARY = ("parents", "salt", "payload_hash", "hash")
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def line_of(row: Row) -> bytes:
    """Write one stored row as a JSON line; raises IntegrityError if its payload is not canonical JSON."""
    event = dict(zip(COLUMNS, row, strict=True))
    for name in BINARY:
        event[name] = event[name].hex() if event[name] is not None else None
    event["parents"] = [parent.hex() for parent in split_hashes(row[PARENTS])]
    event["payload"] = payload_of(row)
    return ENCODER.encode(event).encode() + b"\n"


def payload_of(row: Row) -> dict[str, Any] | None:
    """Return a stored row's payload, None once redacted; raises IntegrityError if it is not canonical JSON."""
    if row[PAYLOAD] is None:
        return None
    payload = parse_payload(row[PAYLOAD])
    if payload is None:
        raise IntegrityError(f"the payload of event {row[ID]} is not canonical JSON", hint="run `faber-ledger verify`")
    return payload


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
    try:
        content = bytes.fromhex(value) if isinstance(value, str) else b""
        if content.hex() == value:  # `fromhex` accepts spaces and capitals too, which would not be written back
            return content
    except ValueError:
        pass
    raise ValueError(f"its {name} is not hexadecimal")
