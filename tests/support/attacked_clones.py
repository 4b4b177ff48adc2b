"""Clones into whose logs somebody puts events that the gate refuses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.encoding import COLUMNS, HASH, INSERT, SEQ, canonical, compute_hash
from faber_ledger.ledger.gate import examine
from faber_ledger.ledger.log import Log
from support.forging import forge
from support.redacting import redact
from support.worked_clones import EVENTS, Clones, rows

if TYPE_CHECKING:
    import random

FORMS: list[dict[str, Any]] = [
    {"id": "not-a-ulid"},
    {"type": "Note\nrecorded"},
    {"at": "today"},
    {"writer": "w\u202e"},
    {"session_id": "a\nb"},
    {"client": "\U000e0041"},
    {"version": 0},
]
PAYLOADS = ["not json", '{"b":1, "a":2}', "{}", '{"kind":7,"text":[]}']


def crafted(seq: int, parents: bytes, number: int, **changes: Any) -> tuple[Any, ...]:
    """Return the row of a note whose hash holds, with columns changed."""
    note = canonical({"kind": "note", "text": f"note {number}", "phase": None, "step": None})
    values = {
        "seq": seq,
        "id": f"01KE791W1G{number:016}",
        "type": "note_recorded",
        "version": 1,
        "at": "2026-01-05T14:30:22Z",
        "writer": "f" * 32,
        "session_id": None,
        "client": None,
        "parents": parents,
        "salt": number.to_bytes(16, "big"),
        "payload": note,
        "payload_hash": None,
        **changes,
    }
    row = tuple(values[name] for name in list(COLUMNS)[:HASH])
    return (*row, compute_hash((*row, None)))


class Attacked(Clones):
    """Clones into whose logs somebody puts events that do not pass."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        super().__init__(folder, [0, 0, 0, 0], [1, 2, 3, 4])
        self.draw = draw
        self.number = 0
        self.begin()

    def put(self, clone: int, **changes: Any) -> None:
        """Insert a row after the heads of a clone's log, as its only head."""
        self.number += 1
        with Log.open(self.paths[clone], "OFF") as log:
            heads = log.heads()
            seq = 1 + max([seq for seq, _ in heads], default=0)
            place = {"seq": seq, "parents": b"".join(sorted(digest for _, digest in heads))}
            row = crafted(**{**place, "number": self.number, **changes})
            log.connection.execute(INSERT, row)
            log.set_heads([(row[SEQ], row[HASH])])
            log.commit()

    def step(self) -> None:
        """Do one thing, honest or not, in one clone."""
        draw, clone = self.draw, self.draw.randrange(4)
        kind = draw.choice([0, 1, 2, 3, 4, 5, 6, 8, 9])
        if kind < 3:
            self.append(clone, draw.randrange(len(EVENTS)), draw.randrange(60))
        elif kind < 5:
            self.pull(clone, draw.randrange(4))
        elif kind == 5:  # of another form, and what is appended after it is honest
            changes = dict(draw.choice(FORMS))
            self.number += 1
            if "id" in changes:
                changes["id"] += str(self.number)
            self.put(clone, **changes)
        elif kind == 6:
            self.put(clone, payload=draw.choice(PAYLOADS))
        elif kind == 8:  # changed after it was written; its hash stays
            change = draw.choice(["at = '2001-01-01T00:00:00Z'", "payload = '{}'", "writer = 'mallory'"])
            later = [row for row in rows(self.paths[clone]) if row[SEQ] > 1]  # without the first there is no run
            for row in draw.sample(later, min(1, len(later))):
                forge(Path(self.paths[clone]), f"UPDATE event SET {change} WHERE id = {row[1]!r}")
        else:
            self.redact(clone)

    def redact(self, clone: int) -> None:
        stored = [(row, examine(row)) for row in rows(self.paths[clone])]
        notes = [row[1] for row, one in stored if row[2] == "note_recorded" and (one.fault or one.dropped) is None]
        if notes:
            redact(self.paths[clone], self.draw.choice(notes))
