"""What a killed writer left beside the clone's log is rolled back, also where nothing can be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.project import Project

KILLED = """
import os, sys
from faber_ledger.ledger.log import Log
log = Log.open(sys.argv[1])
log.connection.execute("PRAGMA cache_size = 1")
log.connection.execute("PRAGMA cache_spill = 1")
for number in range(200):
    event = {"type": "run_started", "run_id": "x" * 5000, "workflow_id": "w", "work_id": None}
    log.append([{"event": event}], at=1767623422.0, writer="w")
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("is_locked", [False, True])
def test_readers_show_the_log_as_it_was_before_a_killed_writer(tmp_path: Path, *, is_locked: bool) -> None:
    project = Project.noted(tmp_path / "project")
    project.faber("note", "add", "before")
    shown = project.faber("log", "--json").stdout
    subprocess.run([sys.executable, "-c", KILLED, str(project.clones_log)], check=False)
    journal = Path(f"{project.clones_log}-journal")
    assert journal.exists()
    if is_locked:
        project.refuse()
    assert project.faber("log", "--json").stdout == shown
    assert journal.exists() == is_locked
