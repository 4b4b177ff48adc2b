"""A command that finds no run, or several, says so and names what to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path

START_ONE = "start one with `faber-ledger run start --work-id ID`"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A git project without a run."""
    return Project.fresh(tmp_path / "project")


def test_without_any_run_the_command_that_starts_one_is_named(project: Project) -> None:
    """(spec-and-session-end remark 9)"""
    for command in [["status"], ["log"], ["replay"], ["verify"], ["export"], ["project"], ["note", "add", "text"]]:
        done = project.faber(*command)
        assert done.stderr == f"error: no run is active here\n\nhint: no runs yet: {START_ONE}\n"
        assert done.returncode == 10


RUN_COMMANDS = ["status", "log", "replay", "verify", "export", "project", "seal", "reconstitute", "run resume --yes"]


@pytest.mark.parametrize("command", [*RUN_COMMANDS, "timeline --output -"])
def test_a_run_is_named_by_its_id_or_its_work_item(project: Project, command: str) -> None:
    first, second = project.start_run("258", "--yes"), project.start_run("259", "--yes")
    for words in ([first], ["--run-id", first], ["--work-id", "258"]):
        done = project.faber(*command.split(), *words)
        assert done.returncode == 0, done.stderr
        assert second not in done.stdout or "--yes" in command  # which warns of the other
    wrong = project.faber(*command.split(), "--work-id", "7")
    assert wrong.returncode == (1 if command == "reconstitute" else 10)
    assert "no run here has the work item 7" in wrong.stderr
    both = project.faber(*command.split(), first, "--run-id", second)
    assert both.returncode == 2 or command == "reconstitute"


@pytest.mark.parametrize(
    ("command", "code"),
    [("show 1", 0), ("redact 1 --dry-run", 0), ("search manual", 0), ("resolve", 0), ("run forget", 1)],
)
def test_every_command_about_a_run_takes_its_work_item(project: Project, command: str, code: int) -> None:
    first, second = project.start_run("258", "--yes"), project.start_run("259", "--yes")
    for words in (["--run-id", first], ["--work-id", "258"]):
        done = project.faber(*command.split(), *words)
        assert done.returncode == code, done.stderr
        assert second not in done.stdout + done.stderr
    assert project.faber(*command.split(), "--work-id", "7").returncode == 10


def test_every_command_says_that_a_prefix_is_ambiguous(project: Project) -> None:
    """(spec-and-session-end 14)"""
    runs = sorted([project.start_run("258", "--yes"), project.start_run("259", "--yes")])
    for command, code in [
        (["session-save", "--run-id"], 1),
        (["session-load", "--run-id"], 1),
        (["reconstitute"], 1),
        (["run", "resume"], 10),
        (["status"], 10),
        (["note", "add", "text", "--run-id"], 10),
    ]:
        done = project.faber(*command, "project-")
        said = f"error: project- is the beginning of several runs: {', '.join(runs)}\n\nhint: give more of the id\n"
        assert (done.returncode, done.stdout, done.stderr) == (code, "", said)
    assert project.faber("status", runs[0][:-1]).returncode == 0
