"""A run's id takes no other run's place, here or on another system."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.project import Project, usual_state

START = "SessionStart.startup.print"
TAKEN = ("ledger.db", "inbox", "state.json")


@pytest.mark.parametrize("name", TAKEN)
def test_a_run_takes_the_place_of_another_runs_file(tmp_path: Path, name: str) -> None:
    """A repository has a run `r1/ledger.db`, whose mirror is where that of `r1` would be (W10)."""
    project = Project.made(tmp_path / "project", {**usual_state(f"r1/{name}"), "run_id": f"r1/{name}"}, f"r1/{name}")
    project.deliver(START)
    project.faber("status")
    assert not (project.root / ".git" / "faber-ledger" / "runs" / "r1" / name).exists()
    assert project.faber("run", "start", "--work-id", "1", "--run-id", f"r1/{name}", "--yes").returncode != 0
    shutil.rmtree(project.root / ".fractary" / "runs" / "r1")
    done = project.faber("run", "start", "--work-id", "1", "--run-id", "r1", "--yes")
    assert done.returncode == 0, done.stderr
    assert (project.root / ".git" / "faber-ledger" / "runs" / "r1" / "log.db").is_file()
