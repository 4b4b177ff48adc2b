"""JSON lines as `export` writes them, read and checked many at a time: what most of an import is.

Says nothing of what is wrong: lines that are not all in order are for `exchange.event_in` to read, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.checked import hashes_of
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.decoding import payloads_of, recorded
from faber_ledger.ledger.formats import HIGHEST_SEQ
from faber_ledger.ledger.row import HASH, PAYLOAD
from faber_ledger.ledger.shapes import CURRENT

Row = tuple[Any, ...]

PLAIN = r'"([^"\\\x00-\x1f]+)"'  # an empty one is read with what is out of the ordinary
# Written by one encoder in one order, so that a pattern reads it; what is between is the payload, and JSON's to read.
LINE = re.compile(
    r'^\{"seq":([1-9][0-9]{0,15}),"id":"([0-7][0-9A-HJKMNP-TV-Z]{25})","type":"([a-z_]+)","version":([1-9][0-9]{0,8}),'
    rf'"at":{PLAIN},"writer":{PLAIN},"session_id":(?:null|{PLAIN}),"client":(?:null|{PLAIN}),'
    r'"parents":\[(?:"([0-9a-f]{64})")?\],"salt":"([0-9a-f]{32})","payload":(\{.*\}),'
    r'"payload_hash":null,"hash":"([0-9a-f]{64})"\}$',
    re.MULTILINE,
)


def rows_in(lines: bytes, count: int, are_events: Callable[[list[Any]], bool]) -> list[tuple[Row, Any]]:
    """Give the rows in so many lines, each with its event, if nothing at all is wrong with any; else an empty list.

    `are_events` tells whether all events are as their shapes say. A merge, a redacted event and an event of an unknown
    shape are not read here either.
    """
    try:
        rows = [_row(values) for values in LINE.findall(lines.decode())]
        if len(rows) != count or hashes_of(rows) != [row[HASH] for row in rows]:
            return []
        texts = [row[PAYLOAD] for row in rows]
        payloads = payloads_of(texts)
        if payloads is None or canonical(payloads) != f"[{','.join(texts)}]":
            return []
    except (ValueError, RecursionError):
        return []
    events = [one["event"] for one in recorded(rows, payloads)]
    if not all([row[0] <= HIGHEST_SEQ and CURRENT.get(row[2]) == row[3] for row in rows]) or not are_events(events):
        return []
    if any(seconds_of(at) is None for at in {row[4] for row in rows}):
        return []
    return list(zip(rows, events, strict=True))


def _row(values: tuple[str, ...]) -> Row:
    seq, name, kind, version, at, writer, session_id, client, parent, salt, payload, digest = values
    envelope = (int(seq), name, kind, int(version), at, writer, session_id or None, client or None)
    return (*envelope, bytes.fromhex(parent), bytes.fromhex(salt), payload, None, bytes.fromhex(digest))
