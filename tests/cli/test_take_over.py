"""Two starts at once, a start that cannot name its run, and runs found by their work item."""

from __future__ import annotations

import fcntl
import json
import subprocess
from pathlib import Path

import pytest
from support.command import COMMAND, Command, is_waiting_for_lock
from support.project import Project, without_overrides

WARNING = "⚠️  WARNING: Another workflow is active in this worktree"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.made(tmp_path / "myproject")
    project.active_path.unlink()
    for path in project.run.iterdir():
        path.unlink()
    project.run.rmdir()
    return project


def finish(project: Project, run_id: str, status: str, started: str) -> None:
    """Give a run a status and a time, as FABER does."""
    path = project.root / ".fractary/runs" / run_id / "state.json"
    state = {**json.loads(path.read_text()), "status": status, "started_at": started}
    path.write_text(json.dumps(state, indent=2) + "\n")


# Two at the same moment


def test_of_two_starts_at_once_one_wins_and_the_other_is_warned(project: Project) -> None:
    starts = [
        Command(
            [COMMAND, "run", "start", "--work-id", work_id],
            cwd=project.root,
            env=project.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for work_id in ("1", "2", "3", "4")
    ]
    ended = [(*start.communicate(), start.returncode) for start in starts]
    won = [output for output, _, code in ended if code == 0]
    lost = [output for output, _, code in ended if code == 1]
    assert (len(won), len(lost)) == (1, 3), ended
    assert all(WARNING in output for output in lost)
    (run_id,) = [path.name for path in (project.root / ".fractary/runs").iterdir()]
    assert run_id in won[0]
    assert project.active_path.read_text() == f"{run_id}\n"


def test_a_start_leaves_another_runs_worktree_for_the_same_item(project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "-m", "First")
    project.start_run("1")
    other = project.root.parent / f"{project.root.name}-issue-2"
    with open(project.root / ".git/faber-ledger/takeover.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = Command(
            [COMMAND, "run", "start", "--work-id", "2", "--worktree"],
            cwd=project.root,
            env=project.environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not is_waiting_for_lock(start, Path(lock.name)):
            assert start.poll() is None
        project.git("worktree", "add", "-q", "-b", "feature/2", str(other))
    assert f"the folder ../{other.name} exists already" in start.communicate()[1]
    assert (start.returncode, other.exists()) == (1, True)


# What the warning proposes


def test_where_nobody_can_answer_the_warning_names_the_options(project: Project) -> None:
    """(spec-and-session-end remark 1)"""
    project.git("commit", "--quiet", "--allow-empty", "-m", "First")
    first = project.start_run("1")
    done = project.faber("run", "start", "--work-id", "2")
    named = "Add --worktree to create that worktree and start there, or --yes to take over this one.\n"
    assert (done.returncode, named in done.stdout, "Enter w" in done.stdout) == (1, True, False)
    answer = project.faber("run", "start", "--work-id", "2", "--json")
    hint = json.loads(answer.stderr)["error"]["hint"]
    assert hint == "start in its own worktree with --worktree, or take over with --yes"
    taken = project.faber("run", "start", "--work-id", "2", "--yes")
    assert (WARNING in taken.stdout, "Enter w" in taken.stdout, "Add --" in taken.stdout) == (True, False, False)
    back = project.faber("run", "resume", first)
    assert (back.returncode, "\nAdd --yes to take over this worktree.\n" in back.stdout) == (1, True)


# A start that fails


def test_a_start_that_cannot_write_the_active_file_leaves_no_run(project: Project) -> None:
    first = project.start_run("1")
    before = project.active_path.stat().st_mtime_ns
    mirrors = sorted(path.name for path in (project.root / ".git/faber-ledger/runs").iterdir())
    folder = project.active_path.parent
    folder.chmod(0o555)
    try:
        done = project.faber("run", "start", "--work-id", "2", "--yes", preexec_fn=without_overrides)
    finally:
        folder.chmod(0o755)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert [path.name for path in (project.root / ".fractary/runs").iterdir()] == [first]
    assert sorted(path.name for path in (project.root / ".git/faber-ledger/runs").iterdir()) == mirrors
    assert project.active_path.stat().st_mtime_ns == before
    assert project.active_path.read_text() == f"{first}\n"
    assert first in project.faber("status").stdout


# By the work item


@pytest.fixture
def several(project: Project) -> tuple[Project, str, str, str]:
    """Return a project with two runs of work item 258, one of 259, which is active."""
    older, newer = project.start_run("258"), project.start_run("258", "--yes")
    active = project.start_run("259", "--yes")
    finish(project, older, "completed", "2026-01-05T10:00:00Z")
    finish(project, newer, "cancelled", "2026-01-06T10:00:00Z")
    return project, older, newer, active


def test_a_work_item_means_its_newest_run_at_work_else_its_newest(several: tuple[Project, str, str, str]) -> None:
    project, older, newer, _ = several
    assert f"Run: {newer}\n" in project.faber("status", "--work-id", "258").stdout
    finish(project, older, "paused", "2026-01-05T10:00:00Z")
    assert f"Run: {older}\n" in project.faber("status", "--work-id", "258").stdout
    finish(project, newer, "in_progress", "2026-01-06T10:00:00Z")
    done = project.faber("log", "--work-id", "258")
    assert f"run {newer} started" in done.stdout
    assert f"note: {newer} is meant; the work item 258 also has {older}" in done.stderr


def test_a_work_item_without_a_run_is_an_error(project: Project) -> None:
    project.start_run("258")
    done = project.faber("session-load", "--work-id", "25")
    assert done.returncode == 1
    assert "no run here has the work item 25" in done.stderr


def test_a_work_item_is_resumed(several: tuple[Project, str, str, str]) -> None:
    project, older, _, _ = several
    finish(project, older, "in_progress", "2026-01-05T10:00:00Z")
    for named in (["--work-id", "258"], ["258"]):
        done = project.faber("run", "resume", *named, "--yes")
        assert (done.returncode, project.active_path.read_text()) == (0, f"{older}\n"), done.stderr
        project.active_path.unlink()


@pytest.mark.parametrize("command", [["status"], ["log"], ["search", "it", "--run-id"]])
def test_a_work_item_may_stand_where_a_run_is_named(several: tuple[Project, str, str, str], command: list[str]) -> None:
    project, older, *_ = several
    finish(project, older, "in_progress", "2026-01-05T10:00:00Z")
    done = project.faber(*command, "258")
    assert (done.returncode, done.stdout) == (0, project.faber(*command, older).stdout), done.stderr
    begins = project.start_run("25", "--run-id", "258-first", "--yes")  # a run of that name is meant
    assert f"Run: {begins}\n" in project.said("status", "258")


# Another branch than the active run's


def test_on_another_branch_the_active_run_is_only_named(project: Project) -> None:
    """Row 31: a developer who begins the next issue on its own branch is not asked about the last one."""
    project.git("checkout", "--quiet", "-b", "feature/1")
    first = project.start_run("1")
    project.git("checkout", "--quiet", "-b", "feature/2")
    done = project.faber("run", "start", "--work-id", "2")
    assert (done.returncode, WARNING in done.stdout) == (0, False), done.stderr
    assert f"ℹ Active until now: {first} (in_progress), on another branch\n" in done.stdout


def test_nobody_is_asked_about_a_run_that_is_finished_where_it_was_merged(project: Project) -> None:
    """The branch was merged elsewhere; here it is checked out as it was."""
    project.git("switch", "--quiet", "--create", "feature/1")
    run_id = project.start_run("1")
    project.git("add", ".fractary")
    project.git("commit", "--quiet", "-m", "The run")
    finish(project, run_id, "completed", "2026-01-05T14:30:22Z")
    project.git("commit", "--quiet", "-am", "Done")
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("remote", "add", "origin", "elsewhere")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    assert WARNING not in project.faber("run", "start", "--work-id", "2").stdout


# A run that only a scan finds


@pytest.mark.parametrize(
    ("command", "is_named"),
    [
        (["status"], False),
        (["session-load", "--dry-run"], False),
        (["session-load"], True),
        (["note", "add", "text"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_command_finds_the_run_that_a_scan_finds(project: Project, command: list[str], is_named: bool) -> None:
    run_id = project.start_run("1")
    project.active_path.unlink()
    done = project.faber(*command)
    assert f"✓ Auto-detected active workflow: {run_id}" in done.stdout + done.stderr
    assert project.active_path.exists() == is_named
    assert (f"✓ {run_id} is the active run of this work tree now" in done.stdout + done.stderr) == is_named
