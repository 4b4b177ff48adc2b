"""What a log lacks of another one's file, copied within SQLite."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from support.worked_clones import Clones, rows

from faber_ledger.ledger.copying import commit_with_lacked
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import insert_rows, missing_rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    """Two clones with events of their own after their common start, and a third that has nothing."""
    folder = tmp_path / "a ?%#' folder"
    folder.mkdir()
    made = Clones(folder, [0, 0, 0], [1, 2, 3])
    made.append(0, 0, 0)
    made.pull(1, 0)
    for clone in (0, 1):
        for number in range(1, 4):
            made.append(clone, number, number)
    return made


def commit_lacked(path: str, other: str, position: tuple[int, str]) -> None:
    with Log.open(path) as log:
        commit_with_lacked(log, other, os.stat(other).st_ino, position)


def test_a_log_without_events_becomes_the_same(clones: Clones) -> None:
    commit_lacked(clones.paths[2], clones.paths[0], (1, ""))
    assert rows(clones.paths[2]) == rows(clones.paths[0])
    with Log.open(clones.paths[2]) as log, Log.read(clones.paths[0]) as other:
        assert log.heads() == other.heads()
        with pytest.raises(sqlite3.IntegrityError, match="an event with this id is known"):
            log.connection.execute("INSERT OR REPLACE INTO event SELECT * FROM event")


def test_a_log_gets_the_rows_between_its_own(clones: Clones) -> None:
    commit_lacked(clones.paths[2], clones.paths[0], (1, ""))
    with Log.open(clones.paths[0]) as log, Log.read(clones.paths[1]) as other:
        insert_rows(log, lacked := list(missing_rows(log, other)))
        log.commit()
    assert lacked[0] < rows(clones.paths[2])[-1]
    commit_lacked(clones.paths[2], clones.paths[0], (lacked[0][0], lacked[0][1]))
    assert rows(clones.paths[2]) == rows(clones.paths[0])


def test_nothing_is_copied_from_a_file_that_another_program_has_put_there(clones: Clones) -> None:
    judged = os.stat(clones.paths[0]).st_ino
    os.replace(clones.paths[1], clones.paths[0])
    with Log.open(clones.paths[2]) as log, pytest.raises(LedgerError, match="has replaced"):
        commit_with_lacked(log, clones.paths[0], judged, (1, ""))
    assert rows(clones.paths[2]) == []
