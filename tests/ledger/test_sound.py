"""Rows that are looked at in batches get the verdict that each gets alone."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from support.attacked_clones import FORMS, PAYLOADS, Attacked, crafted
from support.sizes import pick
from support.worked_clones import rows

from faber_ledger.ledger import positions, union
from faber_ledger.ledger.errors import UnionConflict
from faber_ledger.ledger.file import FORMAT_1, statements
from faber_ledger.ledger.gate import examine
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import COLUMNS, HASH, ID, INSERT, PAYLOAD, SEQ
from faber_ledger.ledger.sound import are_sound
from faber_ledger.ledger.union import insert_rows, merge_rows, missing_rows

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.ledger.union import Passing

    Row = tuple[Any, ...]

CHANGES: list[dict[str, Any]] = [
    *FORMS,
    *[{"payload": payload} for payload in PAYLOADS],
    {"salt": b"s" * 16},  # another than the hash was made with
    {"writer": "\ud800"},
    {"payload": None, "salt": None, "payload_hash": b"p" * 32},
    {"payload_hash": b"p" * 32},
    {"salt": b"short"},
    {"seq": 2.0},
    {"version": True},
    {"parents": b"half a hash"},
]
UNHASHED = {"salt", "payload_hash", "seq", "version", "parents", "writer"}


def attacked(folder: Path, seed: int) -> list[str]:
    """Make clones' logs into which somebody has put events that do not pass; return their paths."""
    made = Attacked(folder, random.Random(seed), claims=True)
    for _ in range(25):
        made.step()
    return made.paths


def verdict_of(passing: Passing) -> tuple[Any, ...]:
    passed = list(passing)
    return passed, [(one.row, one.why, one.has_place) for one in passing.refused], passing.dropped


def is_intact(row: Row) -> bool:
    found = examine(row)
    return found.fault is None and found.row is row and row[PAYLOAD] is not None


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_batch_with_a_row_that_is_not_sound_is_not(change: dict[str, Any]) -> None:
    good = [crafted(2, b"p" * 32, number) for number in range(6)]
    assert are_sound(good)
    bad = crafted(2, b"p" * 32, 7)
    hashed = crafted(2, b"p" * 32, 7, **change) if not {*change} & UNHASHED else bad
    bad = (*[change.get(name, value) for name, value in zip(COLUMNS, hashed, strict=True)],)
    assert not is_intact(bad)
    for at in range(7):
        assert not are_sound([*good[:at], bad, *good[at:]])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(pick(2, 8)))
def test_a_row_is_sound_exactly_if_it_enters_a_log_as_it_is(tmp_path: Path, seed: int) -> None:
    found = [row for path in attacked(tmp_path, seed) for row in rows(path)]
    assert [are_sound([row]) for row in found] == [is_intact(row) for row in found]


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("seed", range(pick(2, 8)))
def test_the_size_of_a_batch_changes_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, batch: int
) -> None:
    logs = [Log.read(path) for path in attacked(tmp_path, seed)]
    pairs = [(one, other) for one in logs for other in logs if one is not other]
    united = verdict_of(merge_rows(logs))
    lacked = [verdict_of(missing_rows(*pair, keeps=True)) for pair in pairs]
    monkeypatch.setattr(union, "BATCH", batch)
    assert verdict_of(merge_rows(logs)) == united
    assert [verdict_of(missing_rows(*pair, keeps=True)) for pair in pairs] == lacked


def offer(rows: list[Row]) -> Log:
    """Return a log in memory with rows that nobody has judged."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.execute(next(text for text in statements(FORMAT_1) if text.startswith("CREATE TABLE event ")))
    memory.execute(next(text for text in statements(FORMAT_1) if text.startswith("CREATE TABLE head ")))
    memory.executemany(INSERT, rows)
    return Log(memory, "elsewhere")


@pytest.mark.parametrize("batch", [1, 2, 5, 128])
def test_an_id_that_comes_twice_is_refused_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(union, "BATCH", batch)
    first = crafted(1, b"", 1)
    chain = [first]
    for number in range(2, 12):
        chain.append(crafted(number, chain[-1][HASH], number))
    for at in range(2, 10):
        again = crafted(chain[-1][SEQ] + 1, chain[-1][HASH], 99, id=chain[at][ID])
        offered = offer([*chain, again])
        with Log.open(str(tmp_path / f"{batch}-{at}.db"), "OFF") as log:
            insert_rows(log, [first])
            passing = missing_rows(log, offered, keeps=True)
            insert_rows(log, passing)
            assert [one.why for one in passing.refused] == [union.OTHER_CONTENT]
            assert [row[ID] for row in union.rows_of(log)] == [row[ID] for row in chain]


def chain_of(length: int) -> list[Row]:
    """Make events of which each stands on the one before it."""
    made = [crafted(1, b"", 1)]
    for number in range(2, length + 1):
        made.append(crafted(number, made[-1][HASH], number))
    return made


def offer_forged(rows: list[Row]) -> Log:
    """Return a log in memory whose table has no key, so that a position may come twice."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    memory.execute(f"CREATE TABLE event ({', '.join(COLUMNS)})")
    memory.executemany(INSERT, rows)
    return Log(memory, "elsewhere")


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 128])
def test_two_contents_of_one_position_are_a_conflict_wherever_a_batch_ends(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(union, "BATCH", batch)
    chain = chain_of(12)
    for at in range(1, 12):
        other = crafted(chain[at][SEQ], chain[at - 1][HASH], 99, id=chain[at][ID])
        with pytest.raises(UnionConflict):
            list(merge_rows([offer_forged([*chain, other])]))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 128])
def test_a_chain_passes_up_to_the_event_whose_place_is_wrong(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(union, "BATCH", batch)
    chain = chain_of(12)
    for at in range(1, 12):
        passing = merge_rows([offer([*chain[:at], *chain[at + 1 :]])])
        assert list(passing) == chain[:at]
        assert [one.row for one in passing.refused] == chain[at + 1 :]
    assert list(merge_rows([offer(chain)])) == chain


@pytest.mark.parametrize("at", range(12))
def test_an_event_may_stand_on_any_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    for module in (positions, union):
        monkeypatch.setattr(module, "AT_HAND", 2)
    chain = chain_of(12)
    beside = [crafted(chain[at][SEQ] + 1, chain[at][HASH], 20)]
    for number in range(21, 30):
        beside.append(crafted(beside[-1][SEQ] + 1, beside[-1][HASH], number))
    unknown = crafted(3, b"u" * 32, 99)
    with Log.open(str(tmp_path / "log.db"), "OFF") as log:
        insert_rows(log, chain)
        passing = missing_rows(log, offer(sorted([chain[0], *beside, unknown])), keeps=True)
        insert_rows(log, passing)
        assert [*union.rows_of(log)] == sorted([*chain, *beside])
        assert [one.row for one in passing.refused] == [unknown]
