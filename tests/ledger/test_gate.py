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
from support.sample_log import append_sample
from support.worked_clones import blocks, rows
from support.worked_clones import write as put

from faber_ledger.ledger.encoding import COLUMNS, HASH, INSERT
from faber_ledger.ledger.event_types import has_required
from faber_ledger.ledger.gate import examine, find_form_fault
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, write_union
from faber_ledger.ledger.verify import find_problems, read_verified

FROZEN = Path(__file__).parents[1] / "fixtures" / "format-1"
STRUCTURE = {"refused", "missing_parent", "heads", "cut_tail", "duplicate_id"}


def united(folder: Path, *contents: bytes) -> bytes:
    """Return the bytes of a union of logs given as bytes."""
    paths = [put(folder / f"side-{number}.db", content) for number, content in enumerate(contents)]
    write_union(paths, f"{folder}/united.db")
    return (folder / "united.db").read_bytes()


@pytest.mark.parametrize("seed", range(12))
def test_unions_do_not_depend_on_order_over_logs_with_refused_events(seed: int) -> None:
    """What stands on a refused event is left out with it; how logs are grouped adds nothing."""
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
        assert united(folder, whole) == united(folder, whole, two) == whole
        path = put(folder / "whole.db", whole)
        assert blocks(path)
        known = {row[HASH] for row in rows(path)}
        grouped = united(folder, united(folder, united(folder, one, two), three), four)
        assert {row[HASH] for row in rows(put(folder / "grouped.db", grouped))} <= known
        assert united(folder, grouped, whole) == whole
        with Log.read(path) as log:
            passing = Passing([log])
            assert [row[:HASH] for row in passing] == [row[:HASH] for row in rows(path)]
            assert not passing.refused
            assert len(list(read_verified(log))) == len(known)
        assert not [item for item in find_problems(path) if item.kind in STRUCTURE]


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
    with Log.read(str(tmp_path / "a.db")) as log:
        passing = Passing([log])
        assert [*passing] == []
    assert [one.is_waiting for one in passing.refused] == [False, True]
