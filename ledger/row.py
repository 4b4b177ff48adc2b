"""A stored row: its columns, how an event becomes one, and how it is read back."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import event_id, utc_text
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.event_types import EVENT_TYPES, redacted_form
from faber_ledger.ledger.file import MAX_PAYLOAD_BYTES
from faber_ledger.ledger.plain_json import canonical, loads, sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Draft, Recorded

    Row = tuple[Any, ...]


NULL = type(None)
COLUMNS = {  # each with the types that a ledger writes
    "seq": (int,),
    "id": (str,),
    "type": (str,),
    "version": (int,),
    "at": (str,),
    "writer": (str,),
    "session_id": (str, NULL),
    "client": (str, NULL),
    "parents": (bytes,),
    "salt": (bytes, NULL),
    "payload": (str, NULL),
    "payload_hash": (bytes, NULL),
    "hash": (bytes,),
}
SEQ, ID, TYPE, VERSION, AT, WRITER, SESSION, CLIENT, PARENTS, SALT, PAYLOAD, PAYLOAD_HASH, HASH = range(13)
ROW = f"SELECT {', '.join(COLUMNS)} FROM event"
READ = "SELECT seq, id, type, version, at, writer, session_id, client, payload FROM event"  # what `decode_row` takes
INSERT = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
HASH_DOMAIN = b"faber-ledger event 1\n"
SALT_BYTES = 16  # with any other length, a letter could move between salt and payload under the same hash


def decode_any(raw: bytes) -> str:
    """Decode a text of SQLite that may not be UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def is_too_long(payload: str) -> bool:
    """Return whether a payload is longer than `MAX_PAYLOAD_BYTES` of UTF-8."""
    return 4 * len(payload) > MAX_PAYLOAD_BYTES and len(payload.encode("utf-8", "surrogatepass")) > MAX_PAYLOAD_BYTES


def make_row(draft: Draft, event: dict[str, Any], heads: list[tuple[int, bytes]], at: float, writer: str) -> Row:
    """Make the row of a draft that comes after these heads; `event` is the draft's event, cleaned.

    `at` is in seconds since 1970. Raises LedgerError for a payload that is too long.
    """
    payload = canonical({key: value for key, value in event.items() if key not in ("type", "session_id")})
    if is_too_long(payload):
        raise LedgerError(
            f"the {event['type']} is larger than {MAX_PAYLOAD_BYTES // 1024 // 1024} MB, and no event may be",
            hint="make its content smaller: for a run that is adopted, the blocks in state.json",
        )
    salt = bytes.fromhex(draft["salt"]) if "salt" in draft else os.urandom(SALT_BYTES)
    parents = sorted([digest for _, digest in heads])
    seq = 1 + max([seq for seq, _ in heads], default=0)
    name = draft.get("id") or event_id(at, os.urandom(10))
    kind, version = event["type"], EVENT_TYPES[event["type"]].version
    envelope = (
        seq,
        name,
        kind,
        version,
        utc_text(draft.get("at", at)),
        writer,
        event.get("session_id"),
        draft.get("client"),
    )
    row = (*envelope, b"".join(parents), salt, payload, None)
    return (*row, compute_hash(row))


def compute_hash(row: Row) -> bytes | None:
    """Compute what a row's hash must be; None if it holds neither a payload nor, in its place, a payload's hash."""
    salt, payload, stored = row[SALT], row[PAYLOAD], row[PAYLOAD_HASH]
    if payload is None and salt is None and stored is not None:
        hashed = stored
    elif payload is not None and salt is not None and len(salt) == SALT_BYTES and stored is None:
        hashed = payload_hash(salt, payload)
    else:
        return None
    return hash_with(row, hashed)


def hash_with(row: Row, digest: bytes) -> bytes:
    """Hash a row's envelope, its parents and its payload's hash (32 bytes); raises UnicodeEncodeError."""
    parents = [parent.hex() for parent in split_hashes(row[PARENTS])]
    return sha256(HASH_DOMAIN + canonical([*row[:PARENTS], parents, digest.hex()]).encode()).digest()


def payload_hash(salt: bytes, payload: str) -> bytes:
    """Hash a payload as it is stored, with its salt (32 bytes)."""
    return sha256(salt + payload.encode()).digest()


def split_hashes(parents: bytes) -> list[bytes]:
    """Split joined hashes."""
    if len(parents) == 32:
        return [parents]  # nearly every event's case
    return [parents[at : at + 32] for at in range(0, len(parents), 32)]


BATCH = 128
ENVELOPE = tuple([types[0] for types in COLUMNS.values()][:SESSION])  # the types of the columns before the session's id
NULLABLE = COLUMNS["session_id"]  # and of the client's
HINT_VERIFY = "run `faber-ledger verify`"


def decode_row(row: Row) -> Recorded:
    """Make a row of `READ`'s columns an event; raises IntegrityError for a value of another type.

    If the payload is gone, only the envelope is known; the other fields say nothing.
    """
    if not is_typed(row):
        raise type_error(row)
    try:
        payload: Any = loads(row[8]) if row[8] is not None else {**redacted_form(row[2])}
        if not isinstance(payload, dict):
            raise TypeError("it is another value")
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"the payload of event {row[1]} is not a JSON object: {error}", hint=HINT_VERIFY
        ) from error
    one = recorded_of(row, payload)
    if row[8] is None:
        one["redacted"] = True
    return one


def parse_payload(text: str) -> dict[str, Any] | None:
    """Parse a stored payload; None if it is not a canonical JSON object, which is all that a ledger writes."""
    try:
        value = loads(text)
        if isinstance(value, dict) and canonical(value) == text and text.encode() is not None:
            return value
    except (ValueError, RecursionError):  # UnicodeEncodeError, for a lone surrogate, is a ValueError too
        pass
    return None


def type_error(row: Row) -> IntegrityError:
    """Return the error for a row that is not `is_typed`."""
    return IntegrityError(f"event {row[1]!r:.40} has a value of another type than any ledger writes", hint=HINT_VERIFY)


def is_typed(row: Row) -> bool:
    """Return whether a row's envelope, its first eight columns, has values of the types that every ledger writes."""
    seq, name, kind, version, at, writer, session_id, client, *_ = row
    types = (type(seq), type(name), type(kind), type(version), type(at), type(writer))
    return types == ENVELOPE and type(session_id) in NULLABLE and type(client) in NULLABLE


def parse_payloads(texts: list[str]) -> list[Any] | None:
    """Parse payloads; None if one of them is not a JSON object, or is redacted."""
    # A random mark separates the payloads: two that are not JSON might be JSON together.
    mark = os.urandom(8).hex()
    try:
        values = loads("[" + f',"{mark}",'.join(texts) + "]")
    except (TypeError, ValueError, RecursionError):
        return None
    payloads: list[Any] = values[::2]
    is_right = values[1::2] == [mark] * (len(texts) - 1) and list(map(type, payloads)) == [dict] * len(texts)
    return payloads if is_right else None


def recorded_of(row: Row, payload: Any) -> Recorded:
    """Put a payload, which is changed in place, into its row's envelope."""
    seq, name, kind, version, at, writer, session_id, client = row[:8]
    payload["type"] = kind
    if session_id is not None:
        payload["session_id"] = session_id
    return {"seq": seq, "id": name, "version": version, "at": at, "writer": writer, "client": client, "event": payload}
