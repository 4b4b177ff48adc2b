"""What goes wrong names a way out, and the way works."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from support import RUN, Project, usual_state

from faber_ledger.context.project import find_run
from faber_ledger.context.recording import Recording
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import StateNotWritten

if TYPE_CHECKING:
    from pathlib import Path

    from faber_ledger.ledger.events import NoteRecorded

START = "SessionStart.startup.interactive"


def begun(tmp_path: Path) -> Project:
    """Give a run with a session, a ledger and a backup of its state."""
    project = Project.made(tmp_path / "project")
    project.deliver(START)
    assert project.run.joinpath("state.json.backup").exists()
    return project


def test_a_missing_state_is_taken_from_its_backup_and_not_made_poor(tmp_path: Path) -> None:
    project = begun(tmp_path)
    before = project.state
    project.state_path.unlink()
    failed = project.faber("status")
    assert failed.returncode == 1
    assert f"`faber-ledger project {RUN} --restore`" in failed.stderr
    assert f".fractary/runs/{RUN}/state.json.backup" in failed.stderr
    done = project.faber("project")
    assert (done.returncode, "restored from state.json.backup" in done.stdout) == (0, True)
    assert project.state == before
    project.assert_projected()


def test_a_poor_state_never_takes_the_place_of_a_good_backup(tmp_path: Path) -> None:
    project = begun(tmp_path)
    project.state_path.unlink()
    project.faber("project")
    project.faber("session-save")
    backup = json.loads(project.run.joinpath("state.json.backup").read_text())
    assert {name: backup[name] for name in usual_state()} == usual_state()


def test_a_broken_state_without_a_ledger_is_restored(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project", "{")
    project.run.joinpath("state.json.backup").write_text(json.dumps(usual_state()))
    done = project.faber("project", "--restore", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["projected"] is False
    assert project.state == usual_state()
    assert not project.ledger_path.exists()
    assert project.faber("session-load").returncode == 0


def test_a_pipe_in_the_place_of_the_clones_id_stops_no_hook(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    place = project.root / ".git" / "faber-ledger" / "writer"
    place.parent.mkdir()
    os.mkfifo(place)
    assert project.deliver(START).packet is not None
    assert len(place.read_text().strip()) == 32


def test_a_state_that_breaks_after_it_was_read_is_told_as_recorded(tmp_path: Path) -> None:
    project = begun(tmp_path)
    with Recording(find_run(str(project.root), RUN), at=now(), writer="w" * 32, warn=pytest.fail) as recording:
        project.put_state("{")
        note: NoteRecorded = {"type": "note_recorded", "kind": "note", "text": "kept", "phase": None, "step": None}
        with pytest.raises(StateNotWritten, match="Invalid JSON"):
            recording.append([{"event": note}])
    assert project.of_type("note_recorded")[0]["text"] == "kept"
