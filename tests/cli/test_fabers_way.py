"""FABER's own way of working, with `init` alone: runs that no hook has seen begin, commits that FABER makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.program import path_with_program
from support.project import Project, usual_state

from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.log import Log
from faber_ledger.runs.run import Run

START, PRE, END = "SessionStart.startup.print", "PreCompact.auto.print", "SessionEnd.other.print"
RUN = "fractary-faber-300"
BRANCH = "feature/300"
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": "me", "CLAUDE_PID": "7"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that was set up, with a remote, in which a client is at work and no run has begun."""
    monkeypatch.setenv("PATH", path_with_program())
    for name, value in IN_CLIENT.items():
        monkeypatch.setenv(name, value)  # as in the client's shell, in which FABER commits
    project = Project.fresh(tmp_path / "laptop", RUN)
    assert project.faber("init").returncode == 0
    project.commit("Set up")
    project.git("clone", "--quiet", "--bare", ".", str(tmp_path / "site.git"))
    project.git("remote", "add", "origin", str(tmp_path / "site.git"))
    project.git("fetch", "--quiet")
    project.git("remote", "set-head", "origin", "main")
    project.deliver(START, client="me", pid="7")
    return project


def faber_starts(project: Project, **state: object) -> None:
    """Start the run on its branch, as FABER's tools do: with their files alone."""
    project.git("checkout", "--quiet", "-b", BRANCH)
    project.run.mkdir(parents=True)
    project.put_state({**usual_state(RUN), "artifacts": {"branch_name": BRANCH}, **state})
    project.active_path.parent.mkdir(parents=True, exist_ok=True)
    project.active_path.write_text(f"{RUN}\n")
    project.write("code.py", "x = 1\n")


def committed(project: Project, folder: Path, ref: str = "HEAD") -> list[dict[str, object]]:
    """Return the events of the ledger that git has."""
    path = folder / "committed.db"
    with path.open("wb") as file:
        import subprocess

        name = f"{ref}:.fractary/runs/{RUN}/ledger.db"
        subprocess.run(["git", "cat-file", "blob", name], cwd=project.root, stdout=file, check=True)
    with Log.read(str(path)) as log:
        return [dict(recorded["event"]) for recorded in log.stream()]


def types(events: list[dict[str, object]]) -> list[object]:
    return [event["type"] for event in events if event["type"] != "checkout_recorded"]


def test_a_run_in_one_client_session_is_whole_in_git(project: Project, tmp_path: Path) -> None:
    faber_starts(project)
    project.commit("Build")
    project.change_state(status="completed", completed_at=utc_text(now()), current_phase="release")
    project.commit("Complete")
    project.git("push", "--quiet", "origin", BRANCH)
    events = committed(project, tmp_path, f"origin/{BRANCH}")
    assert types(events) == ["run_adopted", "session_started", "session_ended"]
    (ended,) = [event for event in events if event["type"] == "session_ended"]
    assert (ended["reason"], ended["inferred"]) == ("normal", True)
    assert project.git("status", "--porcelain") == ""
    project.deliver(END, client="me", pid="7")
    assert project.git("status", "--porcelain") == ""
    assert len(project.history) == 1
    project.git("checkout", "--quiet", "main")
    project.git("checkout", "--quiet", BRANCH)
    assert project.faber("seal", RUN).returncode == 0
    assert [event["inferred"] for event in project.of_type("session_ended")] == [True, False]
    assert len(project.history) == 1


def test_a_commit_of_a_path_gets_no_file_of_a_run(project: Project) -> None:
    faber_starts(project)
    project.commit()
    project.deliver(PRE, client="me", pid="7")
    project.write("code.py", "x = 2\n")
    project.git("commit", "--quiet", "-m", "One file", "code.py")
    assert project.git("show", "--name-only", "--format=").split() == ["code.py"]
    project.git("commit", "--quiet", "--allow-empty", "-m", "Nothing")
    assert project.git("show", "--name-only", "--format=") == ""
    project.commit_file("code.py", "x = 3\n", "Code")
    assert f".fractary/runs/{RUN}/ledger.db" in project.git("show", "--name-only", "--format=").split()


def test_a_run_that_a_commit_removes_does_not_come_back_with_it(project: Project) -> None:
    faber_starts(project)
    project.commit()
    project.git("rm", "-rq", "--cached", ".fractary/runs")
    project.git("commit", "--quiet", "-m", "Remove the run")
    assert ".fractary/runs" not in project.git("ls-files")


def test_no_commit_is_stopped_by_what_is_wrong_with_a_run(project: Project) -> None:
    faber_starts(project)
    project.commit()
    Path(Run(str(project.root), RUN, str(project.run)).log_path).write_bytes(b"no log")
    project.state_path.write_text("{")
    project.commit_file("code.py", "x = 2\n", "Code")
    assert "code.py" in project.git("show", "--name-only", "--format=").split()


def test_only_the_author_continues_a_run_of_main_elsewhere(project: Project, tmp_path: Path) -> None:
    project.run.mkdir(parents=True)
    project.put_state(usual_state(RUN))
    project.active_path.write_text(f"{RUN}\n")
    project.commit()
    project.git("push", "--quiet", "origin", "main")
    project.git("clone", "--quiet", str(tmp_path / "site.git"), str(tmp_path / "desktop"))
    desktop = Project(tmp_path / "desktop", RUN, "desktop")
    assert f"# FABER run {RUN}" in (desktop.deliver(START, client="there", pid="8").packet or "")
    other = Project(tmp_path / "desktop", RUN, "colleagues")
    who = {"GIT_AUTHOR_NAME": "Bob", "GIT_AUTHOR_EMAIL": "bob@example.org"}
    assert other.deliver(START, client="bobs", pid="9", env=who).packet is None


@pytest.mark.parametrize("manager", ["hooksPath", "framework"])
def test_init_leaves_the_hook_to_whom_it_belongs(tmp_path: Path, manager: str) -> None:
    project = Project.made(tmp_path / "project")
    hook = project.root / ".git" / "hooks" / "pre-commit"
    if manager == "hooksPath":
        project.git("config", "core.hooksPath", ".husky")
    else:
        hook.write_text("#!/bin/sh\n# File generated by pre-commit: https://pre-commit.com\nexit 0\n")
        hook.chmod(0o755)
    before = hook.read_bytes() if hook.exists() else None
    done = project.faber("init", "--git-only")
    assert "add the line `faber-ledger seal --pre-commit </dev/null || true` to it" in done.stderr
    assert (hook.read_bytes() if hook.exists() else None) == before
    assert not (project.root / ".husky").exists()


def test_init_can_be_told_to_install_no_hook(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    assert project.faber("init", "--git-only", "--no-pre-commit").returncode == 0
    assert not (project.root / ".git" / "hooks" / "pre-commit").exists()
    assert project.faber("init", "--git-only").returncode == 0
    assert "seal --pre-commit" in (project.root / ".git" / "hooks" / "pre-commit").read_text()


def test_a_fix_on_another_branch_has_no_file_of_the_run(project: Project) -> None:
    faber_starts(project)
    project.commit()
    project.git("checkout", "--quiet", "-b", "hotfix", "main")
    project.write("fix.py", "y = 1\n")
    project.commit("Fix")
    assert project.git("show", "--name-only", "--format=").split() == ["fix.py"]


def test_the_first_commit_has_the_open_session_of_the_client(project: Project, tmp_path: Path) -> None:
    faber_starts(project)
    project.commit()
    assert types(committed(project, tmp_path)) == ["run_adopted", "session_started"]
    assert project.git("status", "--porcelain") == ""
    project.deliver(PRE, client="me", pid="7")
    assert project.types == ["run_adopted", "session_started", "session_ended"]
