"""The row of a stored event: its columns, how it is made of a draft, and the hash that it must have."""

from __future__ import annotations

import os

from faber_ledger.ledger.canonical import canonical, event_hash, payload_hash
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.formats import HIGHEST_SEQ, LONGEST_PAYLOAD
from faber_ledger.ledger.identity import event_id
from faber_ledger.ledger.shapes import CURRENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Draft

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
READ = "SELECT seq, id, type, version, at, writer, session_id, client, payload FROM event"  # what `decoded` takes
INSERT = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
SALT_BYTES = 16  # of any other length, a letter could move between salt and payload under the same hash


def is_too_long(payload: str) -> bool:
    """Tell whether a payload is longer than any event's may be, which is counted in bytes of UTF-8."""
    return 4 * len(payload) > LONGEST_PAYLOAD and len(payload.encode("utf-8", "surrogatepass")) > LONGEST_PAYLOAD


def row_of(draft: Draft, event: dict[str, Any], heads: list[tuple[int, bytes]], at: float, writer: str) -> Row:
    """Make a draft the row that comes after these heads; `event` is its event, cleaned.

    `at` is in seconds since 1970. Raises LedgerError for a payload that is too long, IntegrityError for no seq left.
    """
    payload = canonical({key: value for key, value in event.items() if key not in ("type", "session_id")})
    if is_too_long(payload):
        raise LedgerError(
            f"the {event['type']} is larger than {LONGEST_PAYLOAD // 1024 // 1024} MB, and no event may be",
            hint="make smaller what it is about: state.json's blocks, for a run that is adopted",
        )
    salt = bytes.fromhex(draft["salt"]) if "salt" in draft else os.urandom(SALT_BYTES)
    parents = sorted(digest for _, digest in heads)
    seq = 1 + max([seq for seq, _ in heads], default=0)
    if seq > HIGHEST_SEQ:
        raise IntegrityError(
            f"the log's newest event has seq {seq - 1}, which no ledger reaches by counting",
            hint="run `faber-ledger verify`, then restore ledger.db from git, or from another machine",
        )
    name = draft.get("id") or event_id(at, os.urandom(10))
    kind, version = event["type"], CURRENT[event["type"]]
    envelope = (seq, name, kind, version, utc_text(at), writer, event.get("session_id"), draft.get("client"))
    row = (*envelope, b"".join(parents), salt, payload, None)
    return (*row, hash_of(row))


def hash_of(row: Row) -> bytes | None:
    """Compute what a row's hash must be; None if it holds neither a payload nor, in its place, a payload's hash."""
    salt, payload, stored = row[SALT], row[PAYLOAD], row[PAYLOAD_HASH]
    if payload is None and salt is None and stored is not None:
        hashed = stored
    elif payload is not None and salt is not None and len(salt) == SALT_BYTES and stored is None:
        hashed = payload_hash(salt, payload)
    else:
        return None
    seq, name, kind, version, at, writer, session_id, client = row[:PARENTS]
    return event_hash(
        seq=seq,
        id=name,
        type=kind,
        version=version,
        at=at,
        writer=writer,
        session_id=session_id,
        client=client,
        parents=parents_of(row),
        payload_hash=hashed,
    )


def parents_of(row: Row) -> list[bytes]:
    """Give the hashes of a row's parents."""
    return pieces(row[PARENTS])


def pieces(parents: bytes) -> list[bytes]:
    """Split joined hashes."""
    if len(parents) == 32:
        return [parents]  # nearly every event's case
    return [parents[at : at + 32] for at in range(0, len(parents), 32)]
