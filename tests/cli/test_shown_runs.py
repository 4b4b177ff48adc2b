"""Commands and a run that is shown, not used: whoever records names it, whoever reads takes it and says so."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project, usual_state

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = f"the FABER run {RUN} came with git and was never used in this clone"
RESUME = f"`faber-ledger run resume {RUN}`"
START = "SessionStart.startup.interactive"


@pytest.fixture
def second(tmp_path: Path) -> Project:
    """A clone that has pulled a run whose own branch is another than the one checked out."""
    first = Project.made(tmp_path / "first")
    first.change_state(artifacts={"branch_name": "feature/258"})
    first.deliver(START)
    first.write(".fractary/.gitignore", "logs/\n*.lock\n*.backup\n")
    first.git("add", "-A")
    first.git("commit", "--quiet", "-m", "Work")
    clone = first.clone(tmp_path / "second", "second-machine")
    assert clone.faber("init", "--git-only").returncode == 0
    return clone


def is_used(project: Project, client: str = "again") -> bool:
    """Return whether a session's start is recorded on the run."""
    return "# FABER run" in (project.deliver(START, client=client).packet or "")


@pytest.mark.parametrize(
    ("command", "code"),
    [(("session-load",), 1), (("session-save",), 0), (("note", "add", "text"), 1), (("run", "finish"), 1)],
)
def test_a_command_that_records_does_not_take_it(second: Project, command: tuple[str, ...], code: int) -> None:
    before = second.ledger_path.read_bytes()
    done = second.faber(*command)
    assert done.returncode == code
    assert SHOWN in done.stdout + done.stderr
    assert RESUME in done.stdout + done.stderr
    assert second.ledger_path.read_bytes() == before
    assert not is_used(second)


@pytest.mark.parametrize(
    "command", [("session-load", "--dry-run"), ("status",), ("log",), ("verify",), ("replay",), ("reconstitute",)]
)
def test_a_command_that_reads_takes_it_and_says_so(second: Project, command: tuple[str, ...]) -> None:
    before = second.ledger_path.read_bytes()
    done = second.faber(*command)
    assert done.returncode in (0, 1), done.stderr  # the dry run exits with 1 for a missing file
    assert f"note: {SHOWN}" in done.stderr
    assert done.stdout
    assert second.ledger_path.read_bytes() == before
    assert not is_used(second)


@pytest.mark.parametrize("command", [("session-load", "--run-id", RUN), ("note", "add", "text", "--run-id", RUN)])
def test_whoever_names_it_uses_it_from_then_on(second: Project, command: tuple[str, ...]) -> None:
    assert SHOWN not in second.faber(*command).stderr
    assert is_used(second)


def test_session_save_that_names_it_uses_it_from_then_on(second: Project) -> None:
    assert second.faber("session-save", "--run-id", RUN).returncode == 0
    assert is_used(second)


def test_run_resume_uses_it_on_any_branch(second: Project) -> None:
    assert second.faber("run", "resume", RUN).returncode == 0
    assert is_used(second)
    second.git("add", "-A")
    second.git("commit", "--quiet", "-m", "Work")
    second.git("checkout", "--quiet", "-b", "elsewhere")
    assert is_used(second, "once more")


def test_run_start_asks_no_question_about_it(second: Project) -> None:
    done = second.faber("run", "start", "--work-id", "1")
    assert done.returncode == 0
    assert "Another workflow is active" not in done.stdout + done.stderr


def test_status_config_doctor_and_seal_name_it(second: Project) -> None:
    shown = json.loads(second.faber("config", "show", "--json").stdout)["data"]
    assert shown["active_run_is_shown"] is True
    assert "which git brought: shown, not used" in second.faber("config", "show").stdout
    assert SHOWN in second.faber("doctor").stdout
    assert SHOWN in second.faber("seal").stdout


def test_a_scan_that_finds_it_alone_does_not_take_it(second: Project) -> None:
    second.active_path.unlink()
    done = second.faber("session-load")
    assert done.returncode == 1
    assert SHOWN in done.stderr
    dry = second.faber("session-load", "--dry-run")
    assert f"✓ Auto-detected active workflow: {RUN}" in dry.stdout
    assert SHOWN in dry.stderr


def test_a_scan_prefers_a_run_of_this_clone(second: Project) -> None:
    mine = Project(second.root, "mine-1", second.hostname)
    mine.run.mkdir(parents=True)
    mine.put_state(usual_state("mine-1"))
    second.active_path.unlink()
    assert "✓ Auto-detected active workflow: mine-1" in second.faber("session-load").stdout


@pytest.mark.parametrize("has_git", [True, False])
def test_a_scan_takes_what_a_tool_wrote_here_whatever_its_branch(tmp_path: Path, has_git: bool) -> None:
    project = Project.made(tmp_path / "project")
    project.change_state(artifacts={"branch_name": "feature/258"})
    project.active_path.unlink()
    if not has_git:
        shutil.rmtree(project.root / ".git")
    assert f"✓ Auto-detected active workflow: {RUN}" in project.faber("session-load").stdout


@pytest.mark.parametrize(
    ("command", "code"),
    [(("status",), 10), (("session-load",), 1), (("note", "add", "text"), 10), (("session-save",), 1)],
)
def test_an_active_file_that_names_a_missing_run_is_named(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    project = Project.made(tmp_path / "project")
    project.active_path.write_text("gone-1\n")
    done = project.faber(*command)
    assert done.returncode == code
    assert ".fractary/faber/.active-run-id names gone-1, which is not here" in done.stderr
