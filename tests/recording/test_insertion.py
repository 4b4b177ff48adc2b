"""Events that a log is offered from elsewhere: what passes enters it, and the rest is named and hurts nobody."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from support.forged_events import forged_row
from support.sample_log import RUN, append_sample, write_run

from faber_ledger.ledger.encoding import HASH, ID, INSERT, PAYLOAD, compute_hash
from faber_ledger.ledger.file import FORMAT_1, statements
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of
from faber_ledger.recording.insertion import insert_passing, write_blocks
from faber_ledger.runs.layouts import find_run

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row


def offer(rows: list[Row]) -> Log:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    for statement in statements(FORMAT_1):
        if not statement.startswith("CREATE TRIGGER"):
            memory.execute(statement)
    memory.executemany(INSERT, rows)
    return Log(memory, "the server")


def rows_in(path: Path) -> list[Row]:
    with Log.read(str(path)) as log:
        return list(rows_of(log))


def refuse_warnings(text: str) -> None:
    raise AssertionError(text)


def start_of_another_run(sample: Row, **changes: str) -> Row:
    row = (*sample[:PAYLOAD], str(sample[PAYLOAD]).replace("258", changes.get("work_id", "259")), None)
    row = (row[0], changes.get("id", "01KE0000000000000000000000"), *row[2:])
    return (*row, compute_hash((*row, None)))


def test_what_passes_enters_a_new_run_and_its_state(tmp_path: Path) -> None:
    append_sample(tmp_path / "a.db")
    rows = rows_in(tmp_path / "a.db")
    (tmp_path / "p" / ".fractary").mkdir(parents=True)
    run = find_run(str(tmp_path / "p"), RUN)
    found = insert_passing(run, offer(rows), [rows[0][ID]], refuse_warnings)
    assert (found.added, found.refused, found.dropped) == (len(rows), [], [])
    assert rows_in(Path(run.log_path)) == rows
    assert write_blocks(run, warn=refuse_warnings) == 0
    assert not (tmp_path / "p" / ".fractary" / "runs" / RUN / "state.json").exists()
    again = insert_passing(run, offer(rows), [rows[0][ID]], refuse_warnings)
    assert (again.added, again.refused) == (0, [])


def test_one_id_with_another_content_is_a_conflict_and_the_rest_enters(tmp_path: Path) -> None:
    write_run(tmp_path / "p")
    ledger = tmp_path / "p" / ".fractary" / "runs" / RUN / "ledger.db"
    rows = rows_in(ledger)
    changed = forged_row(ledger, id=rows[-1][ID])
    other = forged_row(ledger, id="01KE0000000000000000000001")
    run = find_run(str(tmp_path / "p"), RUN)
    found = insert_passing(run, offer([*rows[:-1], changed, other]), [], refuse_warnings)
    assert (found.added, [one.hash for one in found.conflicts]) == (1, [changed[HASH]])
    assert rows_in(Path(run.log_path)) == [*rows, other]


def test_a_second_start_in_a_new_run_is_refused(tmp_path: Path) -> None:
    append_sample(tmp_path / "a.db")
    rows = rows_in(tmp_path / "a.db")
    foreign = start_of_another_run(rows[0])
    (tmp_path / "p" / ".fractary").mkdir(parents=True)
    run = find_run(str(tmp_path / "p"), RUN)
    found = insert_passing(run, offer([foreign, *rows]), [foreign[ID], rows[0][ID]], refuse_warnings)
    assert (found.added, [one.hash for one in found.refused]) == (len(rows), [foreign[HASH]])
    assert rows_in(Path(run.log_path)) == rows


def test_events_that_start_no_run_make_no_folder(tmp_path: Path) -> None:
    append_sample(tmp_path / "a.db")
    rows = rows_in(tmp_path / "a.db")
    (tmp_path / "p" / ".fractary").mkdir(parents=True)
    run = find_run(str(tmp_path / "p"), "another-run")
    found = insert_passing(run, offer(rows), [rows[0][ID]], refuse_warnings)
    assert (found.added, [one.id for one in found.refused]) == (0, [row[ID] for row in rows])
    without_start = insert_passing(run, offer(rows[1:]), [], refuse_warnings)
    assert (without_start.added, len(without_start.refused)) == (0, len(rows) - 1)
    assert not (tmp_path / "p" / ".fractary" / "runs").exists()
