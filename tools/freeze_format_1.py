"""Write the frozen ledger of format 1: `python tools/freeze_format_1.py`.

The ledger in `fixtures/format-1/` has shipped and must stay readable for ever, so this is not run again. Ids, salts and
times are fixed: it would write the same events.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from support.sample_log import CLIENT, START, WRITER, history

from faber_ledger.ledger.clock import event_id, utc_text
from faber_ledger.ledger.encoding import HASH, canonical, hash_with, payload_hash
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of
from faber_ledger.projections.fold import fold

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "format-1"


def freeze(folder: Path = FOLDER) -> None:
    """Write ledger.db, and beside it, as plain text, the events and blocks that must be read from it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ledger.db"
    path.unlink(missing_ok=True)
    with Log.open(str(path)) as log:
        insert_events(log)
        log.commit()
    with Log.read(str(path)) as log:
        events = list(log.stream())
        hashes = [row[HASH].hex() for row in rows_of(log)]
    lines = [
        json.dumps({**one, "hash": digest}, ensure_ascii=False) for one, digest in zip(events, hashes, strict=True)
    ]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "blocks.json").write_text(json.dumps(fold(events), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "SHA256").write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")


def insert_events(log: Log) -> None:
    """Insert the sample history: each event after the one before, but the last one as another clone's, beside it."""
    events = history()
    before: list[tuple[int, bytes]] = []
    heads: list[tuple[int, bytes]] = []
    for count, event in enumerate(events):
        is_last = count == len(events) - 1
        parents = before if is_last else heads  # the last one was written without knowing the one before
        head = insert(log, event=dict(event), count=count, parents=parents)
        before, heads = heads, [*heads, head] if is_last else [head]
    log.connection.executemany("INSERT INTO head (seq, hash) VALUES (?, ?)", heads)


def insert(log: Log, *, event: dict[str, object], count: int, parents: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """Insert one event and return its position and hash."""
    seconds, salt = START + 10 * count, bytes([count]) * 16
    kind, session_id = str(event.pop("type")), event.pop("session_id", None)
    payload = canonical(event)
    seq = 1 + max([seq for seq, _ in parents], default=0)
    envelope = {
        "seq": seq,
        "id": event_id(seconds, bytes([count]) * 10),
        "type": kind,
        "version": EVENT_TYPES[kind].version,
        "at": utc_text(seconds),
        "writer": WRITER,
        "session_id": session_id,
        "client": CLIENT,
    }
    hashes = sorted(digest for _, digest in parents)
    row = (*envelope.values(), b"".join(hashes), salt, payload, None)
    digest = hash_with(row, payload_hash(salt, payload))
    log.connection.execute("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", (*row, digest))
    return seq, digest


if __name__ == "__main__":
    freeze()
