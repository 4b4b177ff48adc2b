"""A run that `git clean -fdx` took away before it was ever committed comes back with the next append."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import Project

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose active file is committed, and names a run that is not, and is gone."""
    project = Project.made(tmp_path / "project")
    project.faber("init", "--git-only")
    project.git("add", ".")
    project.git("commit", "-qm", "run")
    project.faber("run", "start", "--work-id", "9", "--run-id", "gone", "--yes")
    project.git("add", ".fractary/faber/.active-run-id")
    gone = Project(project.root, "gone")
    gone.deliver(START, client="one")
    gone.faber("note", "add", "keep this")
    project.git("clean", "-fdxq")
    assert not gone.run.exists()
    return gone


@pytest.mark.parametrize("command", [["note", "add", "more"], ["session-save"], ["session-load"], ["seal"]])
def test_each_command_that_appends_restores_the_run_and_says_so(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert "the run gone was gone and is brought back from this clone's mirror" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    assert project.of_type("note_recorded")[0]["text"] == "keep this"
    assert (project.state["status"], project.state["work_id"]) == ("in_progress", "9")
    project.assert_projected()


def test_a_hook_restores_the_run(project: Project) -> None:
    assert "brought back" in project.deliver(END, client="one").errors
    assert project.types[-1] == "session_ended"
    project.assert_projected()


def test_a_run_in_the_mirror_can_be_resumed(project: Project) -> None:
    done = project.faber("run", "resume", "gone")
    assert done.returncode == 0, done.stderr
    assert json.loads(project.faber("status", "--json").stdout)["data"]["run_id"] == "gone"


def test_a_run_that_a_commit_has_stays_deleted(project: Project) -> None:
    project.faber("project", "gone")
    project.git("add", ".")
    project.git("commit", "-qm", "gone")
    project.git("rm", "-rq", "--ignore-unmatch", ".fractary/runs/gone")
    project.git("clean", "-fdxq")
    assert project.faber("note", "add", "more").returncode == 10
    assert not project.run.exists()
