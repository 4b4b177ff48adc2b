"""The end of a session on a finished run that is committed leaves the work tree clean; a command brings it in."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.project import RUN, Project, usual_state

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
    project = Project.made(tmp_path / "project")
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
    return project


@pytest.mark.parametrize("deliveries", [[END], [PRE, END], [PRE, POST, END], [END, END], [END, PRE, POST]])
def test_no_end_of_a_session_makes_a_merged_finished_run_dirty(project: Project, deliveries: list[str]) -> None:
    for delivery in deliveries:
        project.deliver(delivery, client="one", pid="1")
        assert project.git("status", "--porcelain") == "", delivery
    assert "session_ended" in kept_types(project)
    assert "session_ended" not in file_types(project)


def test_the_backup_of_the_finished_run_is_removed(project: Project) -> None:
    backup = project.run / "state.json.backup"
    assert backup.exists()
    project.deliver(END, client="one", pid="1")
    assert not backup.exists()
    assert "left over from a finished run" not in project.faber("doctor").stdout


@pytest.mark.parametrize("command", [["seal"], ["seal", "--all"]])
def test_the_pre_commit_hook_leaves_it_in_the_mirror(project: Project, command: list[str]) -> None:
    project.deliver(END, client="one", pid="1")
    assert project.faber(*command).returncode == 0
    assert project.git("status", "--porcelain") == ""
    assert "session_ended" not in file_types(project)


def test_seal_run_alone_publishes_it(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    for command in (["project"], ["note", "add", "one more thing"], ["seal"]):
        assert project.faber(*command).returncode == 0
        assert "session_ended" not in file_types(project)
    assert "Not published yet: 3 events" in project.faber("status").stdout
    assert project.faber("seal", RUN).returncode == 0
    assert "session_ended" in file_types(project)
    project.assert_projected()
    assert project.state["sessions"]["current_session_id"] is None


def test_the_end_goes_into_the_file_while_the_run_is_not_finished(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project", usual_state())
    project.deliver(START, client="one", pid="1")
    project.git("add", "-A")
    project.git("commit", "-qm", "a run")
    project.deliver(END, client="one", pid="1")
    assert "session_ended" in file_types(project)


def test_a_client_that_leaves_the_run_for_another_one_leaves_it_clean(project: Project) -> None:
    inside = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "one", "CLAUDE_PID": "1"}
    done = project.faber("run", "start", "--work-id", "9", "--run-id", "next", "--yes", env=inside)
    assert done.returncode == 0, done.stderr
    assert "session_ended" in kept_types(project)
    assert project.git("status", "--porcelain", "--", f".fractary/runs/{RUN}") == ""
