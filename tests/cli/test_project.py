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


def test_a_check_names_the_first_field_and_the_event_that_settled_it(project: Project) -> None:
    project.deliver("SessionEnd.other.print")
    state = json.loads(project.state_path.read_text())
    state["sessions"]["session_history"][0]["end_reason"] = "manual"
    project.state_path.write_text(json.dumps(state))
    done = project.faber("project", "--check")
    assert done.returncode == 21
    assert "sessions.session_history[0].end_reason differs" in done.stdout
    assert '"normal"' in done.stdout
    assert '"manual"' in done.stdout
    assert "(session_ended)" in done.stdout
    (end,) = [one for one in project.events if one["event"]["type"] == "session_ended"]
    assert json.loads(project.faber("project", "--check", "--json").stdout)["data"]["event"]["seq"] == end["seq"]
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


def test_a_missing_state_is_made_of_the_log_and_what_it_cannot_know_is_named(project: Project) -> None:
    blocks = {name: json.loads(project.state_path.read_text())[name] for name in ("sessions", "context_metadata")}
    project.state_path.unlink()
    project.run.joinpath("state.json.backup").unlink(missing_ok=True)
    (project.root / ".git" / "faber-ledger" / "runs" / project.run_id / "state.json").unlink()
    done = project.faber("project")
    assert done.returncode == 0
    assert "status" in done.stdout
    made = json.loads(project.state_path.read_text())
    assert made["run_id"] == project.run_id
    assert {name: made[name] for name in blocks} == blocks


def test_a_broken_state_is_reported_and_kept_and_a_backup_restores_it(project: Project) -> None:
    project.deliver("PreCompact.auto.print")
    good = json.loads(project.state_path.read_text())
    project.state_path.write_text('{"run_id": ')
    done = project.faber("project")
    assert done.returncode == 1
    assert "--restore" in done.stderr
    assert project.state_path.read_text() == '{"run_id": '
    restored = project.faber("project", "--restore")
    assert restored.returncode == 0, restored.stderr
    assert json.loads(project.state_path.read_text()) == good
    assert project.faber("verify").returncode == 0


def test_status_says_where_a_run_is_and_that_its_state_differs(project: Project) -> None:
    assert "open since" in project.faber("status").stdout
    state = json.loads(project.state_path.read_text())
    state["sessions"]["total_sessions"] = 5
    project.state_path.write_text(json.dumps(state))
    assert "differs from the ledger" in project.faber("status").stdout
