"""A run that `git clean -fdx` took away before it was ever committed: recording goes on, and a command restores it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.folders import copy_prepared
from support.project import Project

START = "SessionStart.startup.print"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose active file names a run that was never committed, and is gone."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project", "gone")


def prepare(folder: Path) -> None:
    project = Project.made(folder / "project")
    project.faber("init", "--git-only")
    project.commit("run")
    project.faber("run", "start", "--work-id", "9", "--run-id", "gone", "--yes")
    gone = Project(project.root, "gone")
    gone.deliver(START, client="one")
    gone.faber("note", "add", "keep this")
    project.git("clean", "-fdxq", "-e", ".active-run-id")
    assert not gone.run.exists()


@pytest.mark.parametrize("command", [["run", "resume", "gone"], ["project"]])
def test_a_command_that_names_it_brings_the_run_back(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert project.of_type("note_recorded")[0]["text"] == "keep this"
    assert (project.state["status"], project.state["work_id"]) == ("in_progress", "9")
    project.assert_projected()


def test_a_run_that_a_commit_has_and_another_removed_stays_deleted(project: Project) -> None:
    project.faber("project", "gone")
    project.commit("gone")
    project.git("rm", "-rq", "--ignore-unmatch", ".fractary/runs/gone")
    project.git("clean", "-fdxq", "-e", ".active-run-id")
    assert project.faber("note", "add", "more").returncode == 0
    assert not project.run.exists()


def test_nothing_is_brought_back_before_the_question_about_another_workflow(project: Project) -> None:
    assert project.faber("run", "start", "--work-id", "10", "--run-id", "other", "--yes").returncode == 0
    project.commit("other")
    declined = project.faber("run", "resume", "gone")
    assert declined.returncode == 1
    assert "Another workflow is active in this worktree" in declined.stdout
    assert project.git("status", "--porcelain") == ""
    assert not project.run.exists()
    agreed = project.faber("run", "resume", "gone", "--yes")
    assert agreed.returncode == 0, agreed.stderr
    assert (agreed.stdout + agreed.stderr).count("Another workflow is active") == 1
    assert project.of_type("note_recorded")[0]["text"] == "keep this"
