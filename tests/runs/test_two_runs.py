"""The ledgers of two runs are never mixed, and `union` writes over nothing that it does not keep."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from support.project import Project


@pytest.fixture
def one(tmp_path: Path) -> Project:
    project = Project.made(tmp_path / "project")
    project.faber("run", "start", "--work-id", "1", "--run-id", "one", "--yes")
    return Project(project.root, "one")


@pytest.fixture
def two(one: Project) -> Project:
    one.faber("run", "start", "--work-id", "2", "--run-id", "two", "--yes")
    return Project(one.root, "two")


def test_a_union_of_two_runs_is_refused_whatever_their_order(one: Project, two: Project) -> None:
    pair = [str(one.ledger_path), str(two.ledger_path)]
    for paths in (pair, pair[::-1]):
        done = one.faber("union", *paths, "-o", "both.db")
        assert done.returncode == 22
        assert "these are the logs of two runs: " in done.stderr
    assert not (one.root / "both.db").exists()


def test_another_runs_start_in_the_file_does_not_enter_the_log(one: Project, two: Project) -> None:
    with sqlite3.connect(one.ledger_path) as ours, sqlite3.connect(two.ledger_path) as theirs:
        ours.executemany(
            "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            theirs.execute("SELECT * FROM event ORDER BY seq LIMIT 1").fetchall(),
        )
    done = one.faber("verify", "one")
    assert done.returncode == 0
    assert "1 file with what did not enter the log" in done.stdout
    assert one.faber("log", "two", "--json").returncode == 0


def test_a_file_that_has_more_than_the_union_is_not_overwritten(one: Project) -> None:
    shutil.copy(one.ledger_path, one.root / "older.db")
    one.faber("note", "add", "later", "--run-id", "one")
    shutil.copy(one.ledger_path, one.root / "newer.db")
    done = one.faber("union", "older.db", "-o", "newer.db")
    assert done.returncode == 1
    assert "newer.db exists and has 1 event that none of these ledgers has" in done.stderr
    assert "name newer.db among the ledgers too" in done.stderr
    assert (one.root / "newer.db").read_bytes() == one.ledger_path.read_bytes()
    assert one.faber("union", "older.db", "newer.db", "-o", "newer.db").returncode == 0
    assert one.faber("union", "newer.db", "-o", "older.db").returncode == 0
