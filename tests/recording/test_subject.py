"""Which run a delivery is about: the run of the client's session, or the active one (DECISIONS 2, 37, 38)."""

from __future__ import annotations

from typing import Any

from support.project import RUN, Project, usual_state

from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import ACTIVE_FILES

START = "SessionStart.startup.interactive"
END = "SessionEnd.other.interactive"
OURS, FABERS = ACTIVE_FILES
ME = {"client": "me", "pid": "7"}


def name(project: Project, run_id: str, file: str = OURS) -> None:
    """Name a run in an active file, as another tool does."""
    project.write(file, f"{run_id}\n")


def add_run(project: Project, run_id: str, **state: Any) -> Project:
    """Make another run as another tool leaves it."""
    made = Project(project.root, run_id, project.hostname)
    made.run.mkdir(parents=True)
    made.put_state({**usual_state(run_id), **state})
    return made


def commit(project: Project, message: str = "Work") -> None:
    project.write(".fractary/.gitignore", "logs/\n*.backup\n*.lock\n")
    project.git("add", "-A")
    project.git("commit", "--quiet", "--allow-empty", "-m", message)


def active(project: Project) -> str | None:
    return active_run(str(project.root)).run_id


# Two active files (H3 a)


def test_if_both_runs_are_at_work_the_newer_file_holds(project: Project) -> None:
    assert project.faber("run", "resume", RUN).returncode == 0
    live = add_run(project, "live")
    name(project, "live", FABERS)
    assert "live" in (live.deliver(START).packet or "")
    name(project, RUN)
    assert RUN in (project.deliver(START).packet or "")


def test_a_file_that_is_older_than_the_command_does_not_hold(project: Project) -> None:
    add_run(project, "old")
    name(project, "old", FABERS)
    assert project.faber("run", "resume", RUN, "--yes").returncode == 0
    assert active(project) == RUN


# A client stays with its run


# Another work tree (real-client, D1)


def test_a_client_that_left_the_worktree_is_still_recorded_there(project: Project) -> None:
    commit(project)
    project.deliver(START, **ME)
    tree = Project(project.root.parent / "tree", "wt-400")
    project.git("worktree", "add", "--quiet", "-b", "wt9", str(tree.root))
    variables = {"CLAUDE_CODE_SESSION_ID": "me", "CLAUDE_PID": "7"}
    assert tree.faber("run", "start", "--work-id", "400", "--run-id", "wt-400", "--yes", env=variables).returncode == 0
    project.deliver(END, **ME)
    assert tree.current is None
    assert len(tree.of_type("session_ended")) == 1


# What the user is told (D2)
