"""A clone keeps each run below its git directory: its log, and a copy of `state.json`, which are a run's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.project import RUN, Project

from faber_ledger.ledger.log import Log
from faber_ledger.runs.kept import kept_run, run_here
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.state_file import read_state

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


def test_each_recording_keeps_a_copy_of_the_state_that_only_its_owner_can_read(project: Project) -> None:
    first = state_copy(project).read_bytes()
    assert first == project.state_path.read_bytes()
    assert state_copy(project).stat().st_mode & 0o777 == 0o600
    project.deliver(END, client="one")
    assert first != state_copy(project).read_bytes() == project.state_path.read_bytes()


def test_a_recording_that_changes_nothing_of_the_state_does_not_write_the_copy_again(project: Project) -> None:
    before = state_copy(project).stat()
    assert project.faber("note", "add", "remember").returncode == 0
    after = state_copy(project).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_what_another_tool_wrote_is_in_the_copy_after_the_next_recording(project: Project) -> None:
    project.put_state(project.state | {"status": "paused"})
    assert project.faber("note", "add", "remember").returncode == 0
    assert json.loads(state_copy(project).read_text())["status"] == "paused"


def test_no_link_is_followed_to_write_or_read_the_copy(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"run_id": "other"}')
    state_copy(project).unlink()
    state_copy(project).symlink_to(elsewhere)
    project.deliver(END, client="one")
    assert elsewhere.read_text() == '{"run_id": "other"}'
    assert not state_copy(project).is_symlink()
    assert state_copy(project).read_bytes() == project.state_path.read_bytes()


def test_a_copy_that_cannot_be_written_costs_a_warning_only(project: Project) -> None:
    state_copy(project).unlink()
    state_copy(project).mkdir()
    answer = project.deliver(END, client="one")
    assert "the copy of state.json under the git directory is not written" in answer.errors
    assert project.types[-1] == "session_ended"


def test_a_killed_writer_of_the_copy_leaves_nothing_for_long(project: Project) -> None:
    left = kept_folder(project) / "state.json.tmp"
    left.write_text("{")
    project.deliver(END, client="one")
    assert not left.exists()


def test_without_git_nothing_is_kept(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain")
    project.run.mkdir(parents=True)
    project.put_state({"run_id": RUN, "workflow_id": "default", "status": "in_progress"})
    assert kept_run(str(project.root), RUN) is None
    assert run_here(str(project.root), RUN).directory == str(project.run)


def test_the_kept_run_has_the_same_events_and_state(project: Project) -> None:
    kept = kept_run(str(project.root), RUN)
    assert kept is not None
    assert (kept.is_kept, Path(kept.log_path).name) == (True, "log.db")
    assert read_state(kept).value == project.state
    with Log.read(kept.log_path) as log:
        assert [one["id"] for one in log.stream()] == [one["id"] for one in project.events]


def test_a_run_that_was_never_recorded_on_is_not_kept(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    assert kept_run(str(project.root), RUN) is None
    assert run_here(str(project.root), "no-such-run").is_kept is False


@pytest.mark.parametrize("left", [["state.json"], ["ledger.db"]])
def test_a_run_is_here_if_the_tree_has_its_state_or_its_ledger(project: Project, left: list[str]) -> None:
    for name in os.listdir(project.run):
        if name not in left:
            (project.run / name).unlink()
    assert find_run(str(project.root), RUN).is_recorded()
    assert not run_here(str(project.root), RUN).is_kept


def test_a_run_of_which_the_tree_has_only_ignored_files_is_the_kept_one(project: Project) -> None:
    project.state_path.unlink()
    project.ledger_path.unlink()
    assert os.listdir(project.run)  # the lock and the backup
    assert run_here(str(project.root), RUN).is_kept


def test_a_finished_run_is_finished_in_its_copy_too(project: Project) -> None:
    phases = {"release": {"status": "completed"}}
    project.put_state(project.state | {"phases": phases})
    assert project.faber("run", "finish", RUN).returncode == 0
    assert json.loads(state_copy(project).read_text())["status"] == "completed"


def test_a_missing_state_is_restored_from_the_copy(project: Project) -> None:
    before = project.state_path.read_bytes()
    for name in ("state.json", "state.json.backup"):
        (project.run / name).unlink()
    done = project.faber("project")
    assert (done.returncode, "this clone's copy" in done.stdout + done.stderr) == (0, True), done.stdout + done.stderr
    assert project.state_path.read_bytes() == before


def test_the_copy_loses_a_redacted_payload(project: Project) -> None:
    (event,) = [one for one in project.events if one["event"]["type"] == "session_started"]
    secret = project.hostname
    assert secret in state_copy(project).read_text()
    done = project.faber("redact", event["id"], "--yes")
    assert done.returncode == 0, done.stderr
    assert secret not in project.state_path.read_text()
    assert secret not in state_copy(project).read_text()


def test_a_copy_that_no_state_replaces_is_removed_by_a_redaction(project: Project) -> None:
    (event,) = [one for one in project.events if one["event"]["type"] == "session_started"]
    project.state_path.unlink()
    done = project.faber("redact", event["id"], "--yes")
    assert done.returncode == 0, done.stderr
    assert not state_copy(project).exists()


def test_redact_names_a_copy_that_holds_the_text_in_another_tools_key(project: Project) -> None:
    (event,) = [one for one in project.events if one["event"]["type"] == "session_started"]
    project.put_state(project.state | {"machine": project.hostname})
    done = project.faber("redact", event["id"], "--yes")
    assert ".git/faber-ledger/runs" in done.stdout, done.stdout


def test_a_forgotten_run_leaves_nothing_below_the_git_directory(project: Project) -> None:
    for name in os.listdir(project.run):
        (project.run / name).unlink()
    project.run.rmdir()
    done = project.faber("run", "forget", RUN, "--yes")
    assert done.returncode == 0, done.stderr
    assert not kept_folder(project).exists()


LOOKS = {
    "status": ["status", RUN],
    "seal": ["seal"],
    "seal of a named run": ["seal", RUN],
    "project": ["project", RUN],
    "a start": START,
    "a compaction": "PreCompact.auto.print",
}


@pytest.mark.parametrize("status", ["in_progress", "completed"])
@pytest.mark.parametrize("name", LOOKS)
def test_each_look_at_a_run_brings_its_copy_up_to_date(project: Project, name: str, status: str) -> None:
    project.deliver(END, client="one")
    project.git("add", "-A")
    project.git("commit", "-qm", "the run")
    project.put_state(project.state | {"status": status, "current_phase": "release"})
    look = LOOKS[name]
    if isinstance(look, str):
        project.deliver(look, client="one")
    else:
        assert project.faber(*look).returncode == 0
    assert state_copy(project).read_bytes() == project.state_path.read_bytes()
    assert project.state["current_phase"] == "release"


@pytest.mark.parametrize("command", [["run", "resume", RUN], ["project", RUN]], ids=" ".join)
def test_a_run_comes_back_with_the_copy_and_not_with_the_older_backup_that_git_left(
    project: Project, command: list[str]
) -> None:
    project.put_state(project.state | {"status": "completed"})
    assert project.faber("status").returncode == 0
    project.state_path.unlink()
    project.ledger_path.unlink()
    backup = json.loads((project.run / "state.json.backup").read_text())
    assert backup["status"] == "in_progress"
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert project.state["status"] == "completed"
    project.assert_projected()
