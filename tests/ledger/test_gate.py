"""The gate: every event that a ledger has written passes, and unions stay what they are over logs with others."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.attacked_clones import FORMS, Attacked, crafted
from support.golden import GOLDEN, events_of
from support.sample_log import START, append_sample
from support.worked_clones import EVENTS, blocks, rows
from support.worked_clones import write as put

from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.gate import examine, find_form_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import COLUMNS, HASH, ID, INSERT, PARENTS, SALT, SEQ, is_place, place_of
from faber_ledger.ledger.union import insert_rows, merge_rows, missing_rows, write_union
from faber_ledger.ledger.verify import find_problems
from faber_ledger.schemas.events import check_event

FROZEN = Path(__file__).parents[1] / "fixtures" / "format-1"
STRUCTURE = {"seq", "order", "missing_parent", "forged_parent", "hash", "heads", "cut_tail", "duplicate_id"}


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
