"""`faber-ledger union`, through the installed command, on logs of real clones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.clones import RUN, Clone
from support.forging import forge

from faber_ledger.ledger.log import Log


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Clone, Clone]:
    one = Clone.first(tmp_path / "one")
    other = one.clone("other")
    one.record("apart")
    other.record("alone")
    return one, other


def test_a_union_has_the_events_of_both_in_whatever_order_they_are_named(pair: tuple[Clone, Clone]) -> None:
    one, other = pair
    output = one.faber("union", str(one.ledger), str(other.ledger), "-o", "ab.db").stdout
    one.faber("union", str(other.ledger), str(one.ledger), str(one.ledger), "-o", "ba.db")
    united = one.ids(one.root / "ab.db")
    assert united == one.ids() | other.ids()
    assert (one.root / "ab.db").read_bytes() == (one.root / "ba.db").read_bytes()
    assert output == f"ab.db: {len(united)} events, united from 2 ledgers\n"


def test_one_id_with_two_contents_is_refused_and_both_are_named(pair: tuple[Clone, Clone], tmp_path: Path) -> None:
    one, _ = pair
    out = tmp_path / "out.db"
    logs = []
    for name in ("first", "second"):
        logs.append(str(tmp_path / f"{name}.db"))
        with Log.open(logs[-1]) as log:
            event = {"type": "run_started", "run_id": RUN, "workflow_id": "w", "work_id": None}
            log.append([{"id": "01KE7Q3S8W0000000000000009", "salt": "00" * 16, "event": event}], at=1.0, writer="w")  # type: ignore[typeddict-item]  # an event with other fields
            event = {**event, "workflow_id": name}
            log.append([{"id": "01KE7Q3S8W000000000000000A", "event": event}], at=1.0, writer="w")  # type: ignore[typeddict-item]  # an event with other fields
            log.commit()
    out.write_bytes(Path(logs[0]).read_bytes())
    before = out.read_bytes()
    output = one.faber("union", *logs, "-o", str(out), code=22).stderr
    assert "event 01KE7Q3S8W000000000000000A is in these logs with 2 contents" in output
    assert '"workflow_id":"first"' in output
    assert '"workflow_id":"second"' in output
    assert out.read_bytes() == before


def test_a_file_that_is_not_a_ledger_is_neither_read_nor_overwritten(pair: tuple[Clone, Clone]) -> None:
    one, other = pair
    notes = one.root / "notes.txt"
    notes.write_text("mine\n")
    assert "is not a SQLite database" in one.faber("union", str(notes), "-o", "x.db", code=20).stderr
    assert "is not a SQLite database" in one.faber("union", str(other.ledger), "-o", str(notes), code=20).stderr
    assert notes.read_text() == "mine\n"
    assert not (one.root / "x.db").exists()
    assert "there is no ledger at nowhere.db" in one.faber("union", "nowhere.db", "-o", "x.db", code=1).stderr


def test_a_ledger_that_is_being_written_is_not_united(pair: tuple[Clone, Clone]) -> None:
    one, other = pair
    shutil.copy(other.ledger, one.root / "busy.db")
    (one.root / "busy.db-journal").write_bytes(b"x")
    assert "there is a journal beside busy.db" in one.faber("union", "busy.db", "-o", "x.db", code=1).stderr
    assert "there is a journal beside busy.db" in one.faber("union", str(one.ledger), "-o", "busy.db", code=1).stderr


def test_a_changed_event_is_left_out_and_named_once(pair: tuple[Clone, Clone]) -> None:
    one, other = pair
    forge(other.ledger, "UPDATE event SET at = '2001-01-01T00:00:00Z' WHERE seq = 2")
    reports = one.faber("union", str(other.ledger), "-o", "x.db").stderr.splitlines()
    (report,) = [report for report in reports if "its hash does not match what it says" in report]
    assert "is left out" in report
    assert len(reports) == len({*reports})  # those that follow lack a parent
    assert one.faber("union", "x.db", "-o", "y.db").stderr == ""
    assert (one.root / "y.db").read_bytes() == (one.root / "x.db").read_bytes()


def test_a_ledger_can_be_united_in_place(pair: tuple[Clone, Clone]) -> None:
    one, other = pair
    both = one.ids() | other.ids()
    output = json.loads(one.faber("union", str(one.ledger), str(other.ledger), "-o", str(one.ledger), "--json").stdout)
    assert output["data"] == {
        "out": str(one.ledger),
        "united": [str(one.ledger), str(other.ledger)],
        "events": len(both),
    }
    assert one.ids() == both
    one.faber("project")
    one.assert_sound()
