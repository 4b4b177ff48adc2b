"""SPEC-00027's user experience examples, from nothing, with the commands that the specification has.

Example 3 is in `tests/context/test_session_load.py`, example 4 in `tests/cli/test_worktrees_end_to_end.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.project import PROTOCOL, Project

if TYPE_CHECKING:
    from pathlib import Path

SPECIFICATION = "specs/WORK-00258.md"
ARTIFACTS = ["workflow-state", "orchestration-protocol", "specification"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with FABER's protocol, in which `workflow-run --work-id 258` was run."""
    root = tmp_path / "myproject"
    empty = Project.fresh(root, hostname="laptop")
    empty.write(PROTOCOL, "# Orchestration\n")
    empty.write(SPECIFICATION, "# The work\n")
    assert empty.faber("init").returncode == 0
    assert empty.said("workflow-run", "--work-id", "258")
    return Project(root, empty.active_path.read_text().strip(), hostname="laptop")


def finish_phases(project: Project, *phases: str) -> None:
    """Complete phases and write the specification's portable path, as FABER does."""
    project.change_state(
        phases=[{"phase_name": phase, "status": "completed"} for phase in phases],
        current_phase="build",
        artifacts={"spec_path": f"{{project_root}}/{SPECIFICATION}"},
    )


def test_a_compaction_is_survived_with_the_commands_of_the_specification(project: Project) -> None:
    """SPEC-00027, example 1."""
    project.said("prime-context", "--trigger", "session_start")
    first = project.current
    finish_phases(project, "frame", "architect", "build")
    active = project.active_path.read_text().strip()
    saved = project.said("session-end", "--run-id", active, "--reason", "compaction")
    assert "  Phases completed: frame, architect, build\n" in saved
    assert project.current is None
    loaded = project.said("prime-context", "--run-id", active, "--trigger", "session_start")
    ended, opened = project.history
    assert (ended["session_id"], ended["end_reason"]) == (first, "compaction")
    assert ended["phases_completed"] == ["frame", "architect", "build"]
    assert project.current == opened["session_id"] != first
    assert f"✓ New session detected: {project.current}\n" in loaded
    assert opened["artifacts_loaded"] == ARTIFACTS
    assert project.in_context == ARTIFACTS
    project.assert_projected()


def test_the_specifications_commands_continue_a_run_elsewhere(project: Project, tmp_path: Path) -> None:
    """SPEC-00027, example 2."""
    project.said("prime-context", "--trigger", "session_start")
    finish_phases(project, "frame", "architect")
    project.said("session-end", "--reason", "normal")
    project.commit("The laptop's day")

    desktop = project.clone(tmp_path / "desktop" / "myproject", "desktop")
    assert desktop.active_path.read_text() == f"{project.run_id}\n"
    assert "WARNING" not in desktop.said("workflow-run", "--resume", project.run_id)
    active = desktop.active_path.read_text().strip()
    desktop.said("prime-context", "--run-id", active, "--trigger", "session_start")
    laptop, second = desktop.history
    assert (laptop["environment"]["hostname"], laptop["end_reason"]) == ("laptop", "normal")
    assert second["environment"]["hostname"] == "desktop"
    assert second["environment"]["cwd"] == str(desktop.root)
    assert second["artifacts_loaded"] == ARTIFACTS
    assert desktop.state["sessions"]["total_sessions"] == 2
    desktop.assert_projected()
