"""The end of a session on a finished run that is committed leaves the work tree clean; a command brings it in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.folders import copy_prepared
from support.project import RUN, Project

from faber_ledger.ledger.log import Log

START, PRE, POST, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
)


def kept_types(project: Project) -> list[str]:
    with Log.read(str(project.root / ".git" / "faber-ledger" / "runs" / RUN / "log.db")) as log:
        return [one["event"]["type"] for one in log.stream()]


def file_types(project: Project) -> list[str]:
    with Log.read(str(project.ledger_path)) as log:
        return [one["event"]["type"] for one in log.stream()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A merged project: its run was completed and committed while its last session was open, as FABER does it."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project")


def prepare(folder: Path) -> None:
    project = Project.made(folder / "project")
    project.faber("init", "--git-only")
    project.git("add", "-A")
    project.git("commit", "-qm", "set up")
    project.git("checkout", "-qb", "feature")
    project.deliver(START, client="one", pid="1")
    project.put_state(project.state | {"status": "completed"})
    project.git("add", "-A")
    project.git("commit", "-qm", "finish the run")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--squash", "feature")
    project.git("commit", "-qm", "merge")
    assert project.git("status", "--porcelain") == ""


@pytest.mark.parametrize("deliveries", [[PRE, END], [END, PRE, POST]])
def test_no_end_of_a_session_makes_a_merged_finished_run_dirty(project: Project, deliveries: list[str]) -> None:
    for delivery in deliveries:
        project.deliver(delivery, client="one", pid="1")
        assert project.git("status", "--porcelain") == "", delivery
    assert "session_ended" in kept_types(project)
    assert "session_ended" not in file_types(project)


def test_a_client_that_leaves_the_run_for_another_one_leaves_it_clean(project: Project) -> None:
    inside = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "one", "CLAUDE_PID": "1"}
    done = project.faber("run", "start", "--work-id", "9", "--run-id", "next", "--yes", env=inside)
    assert done.returncode == 0, done.stderr
    assert "session_ended" in kept_types(project)
    assert project.git("status", "--porcelain", "--", f".fractary/runs/{RUN}") == ""
