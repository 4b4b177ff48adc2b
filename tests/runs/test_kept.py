"""A clone keeps each run below its git directory: its log, and a copy of `state.json`, which are a run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import RUN, Project

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


def kept_folder(project: Project) -> Path:
    return project.root / ".git" / "faber-ledger" / "runs" / project.run_id


def state_copy(project: Project) -> Path:
    return kept_folder(project) / "state.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.made(tmp_path / "project")
    project.deliver(START, client="one")
    return project


def test_each_recording_keeps_a_private_copy_of_the_state(project: Project) -> None:
    first = state_copy(project).read_bytes()
    assert first == project.state_path.read_bytes()
    assert state_copy(project).stat().st_mode & 0o777 == 0o600
    project.deliver(END, client="one")
    assert first != state_copy(project).read_bytes() == project.state_path.read_bytes()


def test_no_link_is_followed_to_write_or_read_the_copy(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"run_id": "other"}')
    state_copy(project).unlink()
    state_copy(project).symlink_to(elsewhere)
    project.deliver(END, client="one")
    assert elsewhere.read_text() == '{"run_id": "other"}'
    assert not state_copy(project).is_symlink()
    assert state_copy(project).read_bytes() == project.state_path.read_bytes()


def test_each_look_at_a_run_brings_its_copy_up_to_date(project: Project) -> None:
    project.deliver(END, client="one")
    project.commit("the run")
    for command in ("status", "seal", "project"):
        project.put_state(project.state | {"current_phase": f"{command} looks"})
        assert project.faber(command, RUN).returncode == 0
        assert state_copy(project).read_bytes() == project.state_path.read_bytes()
    project.put_state(project.state | {"current_phase": "release"})
    project.deliver(START, client="one")
    assert state_copy(project).read_bytes() == project.state_path.read_bytes()
    assert project.state["current_phase"] == "release"
