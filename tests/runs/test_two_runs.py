"""The ledgers of two runs are never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import Project

from faber_ledger.ledger.errors import UnionConflict
from faber_ledger.ledger.union import write_union


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
        with pytest.raises(UnionConflict, match="these are the logs of two runs: "):
            write_union(paths, str(one.root / "both.db"))
    assert not (one.root / "both.db").exists()
