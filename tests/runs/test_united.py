"""Reports of this clone show a run's file and its mirror united; state.json is compared with the file's own events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.project import RUN, Project

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
NOTE = "only the mirror has this"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A finished run that is committed, whose last session's end is in the mirror alone."""
    project = Project.made(tmp_path / "project")
    project.faber("init", "--git-only")
    project.deliver(START, client="one", pid="1")
    project.put_state(project.state | {"status": "completed"})
    project.git("add", "-A")
    project.git("commit", "-qm", "finish the run")
    project.deliver(END, client="one", pid="1")
    assert project.git("status", "--porcelain") == ""
    return project


def data_of(project: Project, *command: str) -> dict[str, object]:
    done = project.faber(*command, "--json")
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)["data"]
    return data


def test_status_shows_the_end_and_says_that_it_is_not_in_the_file_yet(project: Project) -> None:
    done = project.faber("status")
    assert "Session: none open (1 in all)" in done.stdout
    assert f"Not in the file yet: 2 events; `faber-ledger seal {RUN}` adds them" in done.stdout
    assert "differs" not in done.stdout
    data = data_of(project, "status")
    assert data["state_agrees"] is True
    assert data["not_in_file"]


def test_verify_finds_nothing_wrong_and_names_the_events(project: Project) -> None:
    done = project.faber("verify")
    assert done.returncode == 0, done.stdout
    assert f"{RUN}: sound" in done.stdout
    assert "not in the file yet" in done.stdout
    assert f"run `faber-ledger seal {RUN}` to add them" in done.stdout
    assert "rolled" not in done.stdout
    assert project.faber("project", "--check").returncode == 0


def test_doctor_reports_no_open_session_and_nothing_rolled_back(project: Project) -> None:
    done = project.faber("doctor", "--json")
    assert "git restored an older version" not in done.stdout
    assert "is open since" not in done.stdout
    assert "not in the file yet" in done.stdout


@pytest.mark.parametrize(
    "command",
    [["log"], ["export"], ["replay"], ["timeline", "--output", "-"], ["log", "--type", "session_ended"]],
    ids=" ".join,
)
def test_each_report_has_the_end(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert "session_ended" in done.stdout or "ended" in done.stdout


def test_an_event_that_only_the_mirror_has_can_be_shown_by_its_id(project: Project) -> None:
    lines = project.faber("log", "--type", "session_ended", "--json").stdout.splitlines()
    (event,) = [json.loads(line) for line in lines]
    shown = project.faber("show", event["id"])
    assert (shown.returncode, "session_ended" in shown.stdout) == (0, True), shown.stderr


def test_run_list_shows_the_end_also_when_it_has_listed_the_run_before(project: Project) -> None:
    listed = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    again = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    assert listed == again
    assert listed[0]["open_session"] is None


def test_a_redaction_in_the_mirror_alone_removes_the_payload_from_every_report(project: Project) -> None:
    (start,) = [one for one in project.events if one["event"]["type"] == "session_started"]
    project.faber("redact", start["id"], "--field", "environment.hostname", "--yes")
    project.git("checkout", "-q", "HEAD", "--", ".")  # the file has the payload again
    assert project.hostname not in project.faber("export").stdout


def test_what_git_rolled_back_is_in_the_reports_too_and_verify_says_what_git_did(tmp_path: Path) -> None:
    project = Project.noted(tmp_path / "project")
    assert project.faber("note", "add", NOTE).returncode == 0
    project.git("checkout", "-q", "HEAD", "--", ".")
    assert NOTE in project.faber("log").stdout
    done = project.faber("verify")
    assert (done.returncode, "git restored an older version" in done.stdout) == (20, True)
    assert "1 event" in project.faber("status").stdout


def test_a_damaged_mirror_changes_no_report(project: Project) -> None:
    mirror = project.root / ".git" / "faber-ledger" / "runs" / RUN / "ledger.db"
    content = bytearray(mirror.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    mirror.write_bytes(content)
    done = project.faber("log")
    assert (done.returncode, "session_started" in done.stdout) == (0, True), done.stderr


def test_once_the_events_are_in_the_file_nothing_is_left_to_say(project: Project) -> None:
    assert project.faber("seal", RUN).returncode == 0
    assert "Not in the file yet" not in project.faber("status").stdout
    assert "not in the file yet" not in project.faber("verify").stdout


def test_an_event_that_another_work_tree_has_got_is_still_not_called_rolled_back_here(
    project: Project, tmp_path: Path
) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    linked = Project(tmp_path / "linked")
    assert linked.faber("project", RUN).returncode == 0
    project.git("worktree", "remove", "--force", str(tmp_path / "linked"))
    done = project.faber("verify")
    assert (done.returncode, "not in the file yet" in done.stdout) == (0, True), done.stdout
    assert project.git("status", "--porcelain") == ""
