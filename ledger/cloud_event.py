"""An event as a CloudEvent 1.0 in its JSON form, for systems that take events from many sources."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.exchange import payload_of
from faber_ledger.ledger.row import parents_of

ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
NOT_TEXT = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]}  # which no attribute may hold


def cloud_event_line(row: tuple[Any, ...], run_id: str) -> bytes:
    """Write a stored row as a CloudEvent on one line; raises IntegrityError as `payload_of`.

    The envelope that CloudEvents has no attribute for goes into extensions. `sequence` is text of 16 digits, which
    sorts as the number does: a CloudEvents integer ends at 2^31.
    """
    seq, name, kind, version, at, writer, session_id, client, _, salt, _, payload_hash, digest = row
    attributes = {
        "specversion": "1.0",
        "id": name,
        "source": f"/faber-ledger/runs/{quote(run_id)}",
        "type": f"faber-ledger.{kind}.v{version}",
        "subject": session_id,
        "time": at if seconds_of(at) is not None else None,
        "sequence": f"{seq:016d}",
        "writer": writer,
        "client": client,
        "parents": " ".join([parent.hex() for parent in parents_of(row)]),
        "salt": salt.hex() if salt is not None else None,
        "payloadhash": payload_hash.hex() if payload_hash is not None else None,
        "hash": digest.hex(),
    }
    event: dict[str, Any] = {key: value.translate(NOT_TEXT) for key, value in attributes.items() if value}
    payload = payload_of(row)
    if payload is None:
        event["redacted"] = "true"
    else:
        event |= {"datacontenttype": "application/json", "data": payload}
    return ENCODER.encode(event).encode() + b"\n"
