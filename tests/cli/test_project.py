"""Writing, checking and restoring the two blocks of state.json, and telling a run, through the installed command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import RUN, Project, spec_state


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose run has one session that is open."""
    project = Project.made(tmp_path / "project")
    project.deliver("SessionStart.startup.print")
    return project


def test_edited_blocks_are_written_again_from_the_log(project: Project) -> None:
    right = project.state_path.read_bytes()
    state = json.loads(right)
    state["sessions"]["total_sessions"] = 99
    project.state_path.write_text(json.dumps(state, indent=2) + "\n")
    assert project.faber("project").stdout.endswith("sessions and context_metadata written from the log\n")
    assert project.state_path.read_bytes() == right


def test_verify_names_the_first_field_and_the_event_that_settled_it(project: Project) -> None:
    project.deliver("SessionEnd.other.print")
    state = json.loads(project.state_path.read_text())
    state["sessions"]["session_history"][0]["end_reason"] = "manual"
    project.state_path.write_text(json.dumps(state))
    done = project.faber("verify")
    assert done.returncode == 21
    (end,) = [one for one in project.events if one["event"]["type"] == "session_ended"]
    field = "sessions.session_history[0].end_reason"
    by = f"by its event {end['seq']} {end['id']} (session_ended)"
    assert f'{field} in state.json is "manual", and the log says "normal" {by}\n' in done.stdout
    assert json.loads(project.state_path.read_text()) == state


@pytest.mark.parametrize("arguments", [(), ("--rebuild",)])
def test_a_ledger_without_events_removes_no_blocks(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    project = Project.made(tmp_path / "older", spec_state() | {"run_id": RUN})
    project.ledger_path.touch()  # as a hook leaves it that is killed before its first commit
    before = project.state_path.read_bytes()
    done = project.faber("project", *arguments)
    assert (done.returncode, done.stdout) == (10, "")
    assert "has no ledger yet" in done.stderr
    assert project.state_path.read_bytes() == before
    assert project.faber("session-save").returncode == 0
    assert project.history[0]["session_id"] == "claude-session-20260104-xyz789"
    project.assert_projected()


def test_status_says_where_a_run_is_and_that_its_state_differs(project: Project) -> None:
    assert "its client is gone" in project.faber("status").stdout
    state = json.loads(project.state_path.read_text())
    state["sessions"]["total_sessions"] = 5
    project.state_path.write_text(json.dumps(state))
    assert json.loads(project.faber("status", "--json").stdout)["data"]["state_agrees"] is False
