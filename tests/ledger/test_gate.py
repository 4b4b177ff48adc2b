"""The gate: every event that a ledger has written passes, and unions stay what they are over logs with others."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.forging import forge
from support.golden import GOLDEN, events_of
from support.redacting import redact
from support.sample_log import START, append_sample
from support.worked_clones import EVENTS, Clones, blocks, rows
from support.worked_clones import write as put

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.gate import examine, find_form_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import COLUMNS, HASH, ID, INSERT, PARENTS, SALT, SEQ, compute_hash, is_place, place_of
from faber_ledger.ledger.union import insert_rows, merge_rows, missing_rows, write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.schemas.events import check_event

FROZEN = Path(__file__).parents[1] / "fixtures" / "format-1"
FORMS: list[dict[str, Any]] = [
    {"id": "not-a-ulid"},
    {"type": "Note\nrecorded"},
    {"at": "today"},
    {"writer": "w\u202e"},
    {"session_id": "a\nb"},
    {"client": "\U000e0041"},
    {"version": 0},
]
STRUCTURE = {"seq", "order", "missing_parent", "forged_parent", "hash", "heads", "cut_tail", "duplicate_id"}
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
    """Clones into whose logs somebody puts events that do not pass; with `claims`, also of hashes of other events."""

    def __init__(self, folder: Path, draw: random.Random, *, claims: bool = False) -> None:
        super().__init__(folder, [0, 0, 0, 0], [1, 2, 3, 4])
        self.draw = draw
        self.claims = claims
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
        kind = draw.choice([0, 1, 2, 3, 4, 5, 6, 8, 9, *[10, 10, 10, 10][: 4 * self.claims]])
        if kind == 10:
            self.claim(clone)
        elif kind < 3:
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

    def claim(self, clone: int) -> None:
        """Put a row with the hash, and perhaps the id, of an event of any clone at another place, and a child of it."""
        draw = self.draw
        known = [row for path in self.paths for row in rows(path) if row[SEQ] > 1]
        below = draw.choice(rows(self.paths[clone]))
        own = {row[ID] for row in rows(self.paths[clone])}
        claimed = draw.choice([crafted(2, b"", 10**9 + draw.randrange(3)), *known])
        self.number += 1
        row = crafted(below[SEQ] + 1, below[HASH], self.number, **draw.choice([{}, {"id": claimed[ID]}]))
        if row[ID] in own:
            row = (row[SEQ], f"01KE791W1H{self.number:016}", *row[2:])
        row = (*row[:HASH], claimed[HASH])
        self.number += 1
        child = crafted(row[SEQ] + 1, row[HASH], self.number)
        if (row[SEQ], row[HASH]) in {(one[SEQ], one[HASH]) for one in rows(self.paths[clone])}:
            return  # no reader opens such a log
        with Log.open(self.paths[clone], "OFF") as log:
            insert_rows(log, [row, child][: draw.choice([1, 2, 2])])
            log.commit()

    def redact(self, clone: int) -> None:
        stored = [(row, examine(row)) for row in rows(self.paths[clone])]
        notes = [row[1] for row, one in stored if row[2] == "note_recorded" and (one.fault or one.dropped) is None]
        if notes:
            redact(self.paths[clone], self.draw.choice(notes))


def united(folder: Path, *contents: bytes) -> bytes:
    """Return the bytes of a union of logs given as bytes."""
    paths = [put(folder / f"side-{number}.db", content) for number, content in enumerate(contents)]
    write_union(paths, f"{folder}/united.db")
    return (folder / "united.db").read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_unions_do_not_depend_on_order_over_logs_with_refused_events(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Attacked(folder, random.Random(seed))
        for _ in range(25):
            made.step()
        for clone in range(4):  # nothing can be appended after these
            made.put(clone, parents=made.draw.randbytes(32), seq=made.draw.choice([2**53 - 1, 10_000]))
        one, two, three, four = [Path(path).read_bytes() for path in made.paths]
        whole = united(folder, one, two, three, four)
        assert united(folder, four, two, three, one) == whole
        assert united(folder, one, one, two, three, three, four) == whole
        assert united(folder, united(folder, united(folder, one, two), three), four) == whole
        assert united(folder, one, united(folder, two, united(folder, four, three))) == whole
        assert united(folder, whole) == united(folder, whole, two) == whole
        path = put(folder / "whole.db", whole)
        assert blocks(path)
        with Log.read(path) as log:
            passing = merge_rows([log])
            assert [row[:HASH] for row in passing] == [row[:HASH] for row in rows(path)]
            assert not [one for one in passing.refused if one.is_new]
            places = {digest for _, digest in log.heads()} & {row[HASH] for row in rows(path) if is_place(row)}
            assert not places  # no head is a place


def events_in(path: str) -> list[tuple[Any, ...]]:
    """Return the rows of a log but its places."""
    return [row for row in rows(path) if not is_place(row)]


@pytest.mark.parametrize("seed", range(10))
def test_unions_do_not_depend_on_order_or_grouping_whatever_is_claimed_of_a_hash(seed: int) -> None:
    """Nor does it matter whether a log is united as a whole, or its events are added to another as hooks do."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Attacked(folder, random.Random(seed), claims=True)
        for _ in range(25):
            made.step()
        one, two, three, four = [united(folder, Path(path).read_bytes()) for path in made.paths]
        whole = united(folder, one, two, three, four)
        assert united(folder, four, two, three, one) == united(folder, one, one, two, three, three, four) == whole
        assert united(folder, whole) == united(folder, whole, two) == whole
        whole_path = put(folder / "whole.db", whole)
        events = events_in(whole_path)
        for path in made.paths:  # nothing that passes alone is lost
            alone = put(folder / "alone.db", united(folder, Path(path).read_bytes()))
            assert {row[HASH] for row in events_in(alone)} <= {row[HASH] for row in events}
        left = united(folder, united(folder, united(folder, one, two), three), four)
        right = united(folder, one, united(folder, two, united(folder, four, three)))
        grown = put(folder / "grown.db", one)
        for number, other in enumerate([two, three, four]):
            added = put(folder / f"added-{number}.db", other)
            with Log.open(grown, "OFF") as log, Log.read(added) as lacking:
                insert_rows(log, missing_rows(log, lacking))
                log.commit()
        for path in (put(folder / "left.db", left), put(folder / "right.db", right), grown):
            assert [(*row[:SALT], row[HASH]) for row in events_in(path)] == [(*row[:SALT], row[HASH]) for row in events]
            assert not [item for item in find_problems(path, check_event=check_event) if item.kind in STRUCTURE]
            with Log.read(path) as log:
                assert len(list(read_verified(log))) == len(rows(path))


def test_an_event_takes_nothing_from_those_that_stand_on_a_claim_of_its_hash(tmp_path: Path) -> None:
    """Whoever knows an event before he shows it can claim its hash, let others build on that, and then show it."""
    with Log.open(str(tmp_path / "a.db")) as log:
        log.append([{"event": EVENTS[0]}, {"event": EVENTS[1]}], at=START, writer="w")
        log.commit()
    first, second = rows(str(tmp_path / "a.db"))
    shown = crafted(3, second[HASH], 1)
    claim = (*crafted(2, first[HASH], 2, id=shown[ID])[:HASH], shown[HASH])
    bait = crafted(3, shown[HASH], 3)
    honest = crafted(4, bait[HASH], 4)
    later = crafted(4, shown[HASH], 5)
    paths = [log_with(tmp_path / "b.db", first, second, claim, bait, honest)]
    paths.append(log_with(tmp_path / "c.db", first, second, shown, later))
    expected = [first, second, place_of(claim), *sorted([bait, shown]), *sorted([honest, later])]
    for order in (paths, paths[::-1]):
        write_union(order, str(tmp_path / "out.db"))
        assert rows(str(tmp_path / "out.db")) == expected
    write_union(paths[:1], str(tmp_path / "mirror.db"))
    for base, other in ((str(tmp_path / "mirror.db"), paths[1]), (paths[1], paths[0])):
        with Log.open(base, "OFF") as log, Log.read(other) as lacking:
            insert_rows(log, missing_rows(log, lacking))
            log.commit()
        assert rows(base) == expected
        with Log.read(base) as log:
            assert len(list(read_verified(log))) == len(expected)


def log_with(path: Path, *added: tuple[Any, ...]) -> str:
    """Write a log with these rows."""
    with Log.open(str(path)) as log:
        insert_rows(log, added)
        log.commit()
    return str(path)


def test_every_event_that_a_ledger_has_written_passes(tmp_path: Path) -> None:
    """The frozen ledger, the golden histories, and the ids of older tools."""
    append_sample(tmp_path / "sample.db")
    for path in (FROZEN / "ledger.db", tmp_path / "sample.db"):
        with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
            stored = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM event").fetchall()
        assert stored
        for row in stored:
            one = examine(row)
            assert (one.fault, one.dropped, one.row) == (None, None, row), path
    stories = [path.parent.name for path in GOLDEN.glob("*/events.jsonl")]
    assert stories
    for story in stories:
        for recorded in events_of(story):
            event = dict(recorded["event"])
            ids = (recorded["writer"], event.get("session_id"), recorded["client"])
            envelope = (recorded["seq"], recorded["id"], event["type"], recorded["version"], recorded["at"], *ids)
            assert find_form_fault(envelope) is None, (story, recorded["id"])
            assert has_required(recorded["event"]["type"], recorded["version"], event), (story, recorded["id"])
    for session in ("claude-session-20260104-xyz789", "Sitzung 7 ä/ö#1", "s" * 300):
        assert find_form_fault(crafted(1, b"", 1, session_id=session)) is None
    for at in ("2026-01-05T14:30:22Z", "10000-01-01T00:00:00Z", "2026-01-05T14:30:22.123+02:00"):
        assert find_form_fault(crafted(1, b"", 1, at=at)) is None


@pytest.mark.parametrize("changes", FORMS, ids=lambda changes: next(iter(changes)))
def test_an_envelope_that_no_ledger_writes_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    row = crafted(1, b"", 1, **changes)
    later = crafted(2, row[HASH], 2)
    with Log.open(str(tmp_path / "a.db")) as log:
        log.connection.executemany(INSERT, [row])
        log.set_heads([(1, row[HASH])])
        log.commit()
    write_union([str(tmp_path / "a.db")], str(tmp_path / "alone.db"))
    assert rows(str(tmp_path / "alone.db")) == []
    with Log.open(str(tmp_path / "a.db")) as log:
        log.connection.execute(INSERT, later)
        log.set_heads([(2, later[HASH])])
        log.commit()
    write_union([str(tmp_path / "a.db")], str(tmp_path / "both.db"))
    assert rows(str(tmp_path / "both.db")) == [place_of(row), later]


def test_a_sound_event_takes_its_id_from_a_refused_one(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "a.db")) as log:
        log.append([{"event": EVENTS[0]}], at=START, writer="w")
        log.commit()
    ((seq, head),) = Log.read(str(tmp_path / "a.db")).heads()
    sound = crafted(seq + 2, crafted(seq + 1, head, 2)[HASH], 1)
    forged = (seq + 1, *sound[1:PARENTS], head, *sound[PARENTS + 1 : HASH], b"\x11" * 32)
    paths = [str(tmp_path / "one.db"), str(tmp_path / "other.db")]
    for path, added in zip(paths, ([crafted(seq + 1, head, 2), sound], [forged]), strict=True):
        put(Path(path), (tmp_path / "a.db").read_bytes())
        with Log.open(path) as log:
            log.connection.executemany(INSERT, added)
            log.set_heads([(added[-1][SEQ], added[-1][HASH])])
            log.commit()
    later = crafted(seq + 2, forged[HASH], 3)
    with Log.open(paths[1]) as log:
        log.connection.execute(INSERT, later)
        log.set_heads([(later[SEQ], later[HASH])])
        log.commit()
    for order in (paths, paths[::-1]):
        refused = write_union(order, str(tmp_path / "out.db")).refused
        assert {one.hash for one in refused} == {forged[HASH]}
        assert {sound, place_of(forged), later} <= set(rows(str(tmp_path / "out.db")))
