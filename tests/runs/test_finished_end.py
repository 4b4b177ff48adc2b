"""The end of a session on a finished run that is committed leaves the work tree clean; a command brings it in."""

from __future__ import annotations

import json
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
    with Log.read(str(project.root / ".git" / "faber-ledger" / "runs" / RUN / "ledger.db")) as log:
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


def test_the_backup_stays_while_the_state_does_not_show_the_log(project: Project) -> None:
    """It may be needed to repair the state."""
    project.put_state({**project.state, "sessions": {"session_history": []}})
    project.git("commit", "-qam", "break the history")
    project.deliver(END, client="one", pid="1")
    assert (project.run / "state.json.backup").exists()


def test_the_end_has_the_phases_of_the_state_in_the_work_tree(project: Project) -> None:
    done = {**project.state, "phases": {"frame": {"status": "completed"}, "architect": {"status": "completed"}}}
    project.put_state(done)
    project.git("commit", "-qam", "phases")
    project.deliver(END, client="one", pid="1")
    copy = json.loads((project.root / ".git/faber-ledger/runs" / RUN / "state.json").read_text())
    assert copy["sessions"]["session_history"][-1]["phases_completed"] == ["frame", "architect"]
    assert (copy["status"], copy["phases"]) == ("completed", done["phases"])


@pytest.mark.parametrize("command", [["seal"], ["seal", "--all"]])
def test_the_pre_commit_hook_leaves_it_in_the_mirror(project: Project, command: list[str]) -> None:
    project.deliver(END, client="one", pid="1")
    assert project.faber(*command).returncode == 0
    assert project.git("status", "--porcelain") == ""
    assert "session_ended" not in file_types(project)


def test_seal_stages_what_other_tools_changed_in_the_state(project: Project) -> None:
    project.deliver(END, client="one", pid="1")
    project.put_state(project.state | {"note": "after the merge"})
    assert project.faber("seal").returncode == 0
    assert project.git("diff", "--cached", "--name-only") == f".fractary/runs/{RUN}/state.json"


BRINGING = {
    "seal RUN": ["seal", RUN],
    "project": ["project"],
    "the next event": ["note", "add", "one more thing"],
}


@pytest.mark.parametrize("name", BRINGING)
def test_a_command_about_the_run_brings_the_end_into_the_file(project: Project, name: str) -> None:
    project.deliver(END, client="one", pid="1")
    assert project.faber(*BRINGING[name]).returncode == 0
    assert "session_ended" in file_types(project)
    project.assert_projected()
    assert project.state["sessions"]["current_session_id"] is None


def test_a_command_that_ends_the_session_writes_the_file(project: Project) -> None:
    assert project.faber("session-save").returncode == 0
    assert "session_ended" in file_types(project)
    assert project.state["sessions"]["current_session_id"] is None


def test_the_end_goes_into_the_file_while_the_ledger_is_not_committed(project: Project) -> None:
    project.faber("note", "add", "not committed")
    project.deliver(END, client="one", pid="1")
    assert "session_ended" in file_types(project)


def test_the_end_goes_into_the_file_while_the_run_is_not_finished(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project", usual_state())
    project.deliver(START, client="one", pid="1")
    project.git("add", "-A")
    project.git("commit", "-qm", "a run")
    project.deliver(END, client="one", pid="1")
    assert "session_ended" in file_types(project)


def test_what_a_merge_brought_is_in_the_mirror_before_the_end_is(project: Project, tmp_path: Path) -> None:
    other = project.clone(tmp_path / "other", "other-machine")
    other.faber("init", "--git-only")
    assert other.faber("note", "add", "from elsewhere", "--run-id", RUN).returncode == 0
    other.git("commit", "-qam", "a note")
    project.git("pull", "-q", str(other.root), "main")
    project.deliver(END, client="one", pid="1")
    assert project.git("status", "--porcelain") == ""
    assert {"note_recorded", "session_ended"} <= set(kept_types(project))


def test_a_client_that_leaves_the_run_for_another_one_leaves_it_clean(project: Project) -> None:
    inside = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "one", "CLAUDE_PID": "1"}
    done = project.faber("run", "start", "--work-id", "9", "--run-id", "next", "--yes", env=inside)
    assert done.returncode == 0, done.stderr
    assert "session_ended" in kept_types(project)
    assert project.git("status", "--porcelain", "--", f".fractary/runs/{RUN}") == ""
