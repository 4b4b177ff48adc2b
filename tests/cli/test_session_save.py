"""Session-save's steps as session-end-workflow and session-manager-agent have them, through the installed command."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

from faber_ledger.ledger.clock import seconds_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

OTHER = "fractary-faber-259-20260105-144500-d4e5f6"
NO_RUN = "ℹ️  No active workflow found\n   No session to end.\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project in whose run a session is open."""
    made = Project.made(tmp_path / "myproject")
    assert made.faber("session-load", "--trigger", "session_start").returncode == 0
    return made


def save(project: Project, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return project.faber("session-save", *arguments, env=env)


# Step 1: which run


@pytest.mark.parametrize("name", ["session-save", "session-end"])
def test_a_named_run_counts_before_the_active_one(project: Project, name: str) -> None:
    other = project.write(f".fractary/runs/{OTHER}/state.json", json.dumps(usual_state(OTHER)))
    assert project.faber("session-load", "--run-id", OTHER, "--trigger", "session_start").returncode == 0
    before = project.state_path.read_bytes()
    assert project.faber(name, "--run-id", OTHER).returncode == 0
    assert project.state_path.read_bytes() == before
    assert json.loads(other.read_text())["sessions"]["current_session_id"] is None


def remove(path: Path) -> None:
    path.unlink()


def make_unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [remove, make_unreadable, lambda path: path.write_text(""), lambda path: path.write_text(" \n")],
    ids=["missing", "unreadable", "empty", "blank"],
)
def test_without_an_active_run_nothing_is_saved_and_no_run_is_searched(
    project: Project, spoil: Callable[[Path], Any]
) -> None:
    shutil.rmtree(project.root / ".git" / "faber-ledger")  # what this clone noted of the run
    spoil(project.active_path)
    before = project.state_path.read_bytes()
    done = save(project)
    assert (done.returncode, done.stdout[: len(NO_RUN)]) == (0, NO_RUN)
    assert project.state_path.read_bytes() == before
    assert project.current


@pytest.mark.parametrize(
    ("command", "run_id"), [("session-save", "../myproject"), ("session-load", "/etc"), ("reconstitute", ".")]
)
def test_a_run_id_that_is_a_path_is_refused(project: Project, command: str, run_id: str) -> None:
    before = project.state_path.read_bytes()
    done = project.faber(command, *(["--run-id"] if command != "reconstitute" else []), run_id)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert project.state_path.read_bytes() == before


# Step 2: the state


def test_the_state_of_another_run_is_an_error(project: Project) -> None:
    project.change_state(run_id=OTHER)
    before = project.state_path.read_bytes()
    done = save(project)
    assert done.returncode == 1
    assert OTHER in done.stderr
    assert project.state_path.read_bytes() == before


def test_an_empty_state_counts_as_corrupted(project: Project) -> None:
    project.put_state("")
    done = save(project)
    assert done.returncode == 1
    assert done.stderr.startswith("❌ ERROR: Cannot parse state file: ")
    assert project.state_path.read_bytes() == b""


# Steps 3 to 6: the record


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "manual"),
        (["--reason", "manual"], "manual"),
        (["--reason", "normal"], "normal"),
        (["--reason", "compaction"], "compaction"),
    ],
)
def test_the_session_gets_its_end_and_its_reason(project: Project, words: list[str], reason: str) -> None:
    opened = project.history[-1]
    done = save(project, *words)
    assert done.returncode == 0
    assert f"\n  Reason: {reason}\n" in done.stdout
    (ended,) = project.history
    assert (ended["session_id"], ended["end_reason"]) == (opened["session_id"], reason)
    assert (seconds_of(ended["ended_at"]) or 0) >= (seconds_of(ended["started_at"]) or 1)
    assert ended["phases_completed"] == ["frame", "architect"]
    assert ended["artifacts_loaded"] == ["workflow-state", "orchestration-protocol"]
    assert ended["environment"] == opened["environment"]
    assert project.current is None


def test_no_phase_and_no_artifact_are_valid(tmp_path: Path) -> None:
    state = {name: value for name, value in usual_state().items() if name != "phases"}
    project = Project.made(tmp_path / "myproject", {**state, "sessions": {"current_session_id": "claude-session-1"}})
    assert save(project).returncode == 0
    (ended,) = project.history
    assert (ended["session_id"], ended["phases_completed"], ended["artifacts_loaded"]) == ("claude-session-1", [], [])
    assert ended["started_at"] == ended["ended_at"]


def test_one_phase_alone_is_shown_as_running(project: Project) -> None:
    running = {"status": "in_progress"}
    project.change_state(phases={"frame": {"status": "completed"}, "architect": running, "build": running})
    assert "  Phases completed: frame, build (partial)\n" in save(project).stdout


def test_a_save_names_the_phases_that_the_session_itself_completed(project: Project) -> None:
    assert "in this session" not in project.said("session-save")  # all of them
    project.deliver("SessionStart.startup.print", client="second")
    phases = {**project.state["phases"], "build": {"status": "completed"}}
    project.change_state(phases=phases)
    said = project.said("session-save")
    assert "build; in this session: build\n" in said


def test_only_the_two_blocks_change_and_the_file_is_indented_by_two(project: Project) -> None:
    before, active, protocol = project.state, project.active_path.read_bytes(), project.git("status", "--porcelain")
    save(project)
    after = project.state
    assert {**after, "sessions": None} == {**before, "sessions": None}
    assert project.state_path.read_text() == json.dumps(after, indent=2, ensure_ascii=False) + "\n"
    assert project.active_path.read_bytes() == active
    assert project.git("status", "--porcelain") == protocol


def test_an_end_tells_the_environment_of_a_session_that_lacks_it_alone(project: Project, tmp_path: Path) -> None:
    """(END, Step 4)"""
    save(project)
    assert "environment" not in project.of_type("session_ended")[-1]
    name = "claude-session-20260105-144500-d4e5f6"
    history = [{"session_id": name, "started_at": "2026-01-05T14:45:00Z"}]
    blocks = {"current_session_id": name, "total_sessions": 1, "session_history": history}
    other = Project.made(tmp_path / "other", usual_state() | {"sessions": blocks})
    assert save(other).returncode == 0
    assert other.of_type("session_ended")[-1]["environment"]["hostname"] == other.hostname
    assert other.history[-1]["environment"]["hostname"] == other.hostname


@pytest.mark.parametrize("reason", ["abandoned", "logout", ""])
def test_another_reason_is_wrong_usage(project: Project, reason: str) -> None:
    assert save(project, "--reason", reason).returncode == 2
    assert project.current
