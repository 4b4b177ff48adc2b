"""A command that finds no run, or several, says so and names what to run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path

START_ONE = "start one with `faber-ledger run start --work-id ID`"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A git project without a run."""
    project = Project(tmp_path / "project")
    project.root.mkdir()
    project.git("init", "--quiet", "--initial-branch=main")
    return project


def start(project: Project, work_id: str) -> str:
    done = project.faber("run", "start", "--work-id", work_id, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["data"]["run_id"])


def test_without_any_run_the_command_that_starts_one_is_named(project: Project) -> None:
    """(spec-and-session-end remark 9)"""
    for command in [["status"], ["log"], ["replay"], ["verify"], ["export"], ["project"], ["note", "add", "text"]]:
        done = project.faber(*command)
        assert done.stderr == f"error: no run is active here\n\nhint: no runs yet: {START_ONE}\n"
        assert done.returncode == 10


RUN_COMMANDS = ["status", "log", "replay", "verify", "export", "project", "seal", "reconstitute", "run resume --yes"]


@pytest.mark.parametrize("command", [*RUN_COMMANDS, "timeline --output -"])
def test_a_run_is_named_by_its_id_or_its_work_item(project: Project, command: str) -> None:
    first, second = start(project, "258"), start(project, "259")
    for words in ([first], ["--run-id", first], ["--work-id", "258"]):
        done = project.faber(*command.split(), *words)
        assert done.returncode == 0, done.stderr
        assert second not in done.stdout or "--yes" in command  # which warns of the other
    wrong = project.faber(*command.split(), "--work-id", "7")
    assert wrong.returncode == (1 if command == "reconstitute" else 10)
    assert "no run here has the work item 7" in wrong.stderr
    both = project.faber(*command.split(), first, "--run-id", second)
    assert both.returncode == 2 or command == "reconstitute"


@pytest.mark.parametrize("command", [["session-load"], ["reconstitute"]])
def test_a_load_without_a_run_names_one_that_is_there(project: Project, command: list[str]) -> None:
    """(spec-and-session-end remark 9)"""
    nothing = project.faber(*command)
    assert "--run-id <run-id> [faber-ledger session-load --run-id <run-id>]" in nothing.stderr
    for work_id in ("258", "259"):
        path = project.root / ".fractary/runs" / start(project, work_id) / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": "completed"}))
    run_id = path.parent.name
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "started_at": "2099-01-05T14:30:22Z"}))
    project.active_path.unlink()
    done = project.faber(*command)
    assert f"--run-id {run_id} [faber-ledger session-load --run-id {run_id}]" in done.stderr
    assert "{" not in nothing.stderr + done.stderr


def test_an_unknown_run_is_answered_without_braces(project: Project) -> None:
    """(spec-and-session-end remark 9)"""
    done = project.faber("session-load", "--run-id", "nowhere")
    assert "/fractary-faber:workflow-run <work-id> [faber-ledger run start --work-id <work-id>]" in done.stderr
    assert "{" not in done.stderr


def test_every_command_says_that_a_prefix_is_ambiguous(project: Project) -> None:
    """(spec-and-session-end 14)"""
    runs = sorted([start(project, "258"), start(project, "259")])
    for command, code in [
        (["session-save", "--run-id"], 1),
        (["session-end", "--run-id"], 1),
        (["session-load", "--run-id"], 1),
        (["session-load", "--dry-run", "--run-id"], 1),
        (["reconstitute"], 1),
        (["run", "resume"], 10),
        (["run", "finish"], 10),
        (["workflow-run", "--resume"], 10),
        (["status"], 10),
        (["log"], 10),
        (["replay"], 10),
        (["verify"], 10),
        (["export"], 10),
        (["project"], 10),
        (["seal"], 10),
        (["note", "add", "text", "--run-id"], 10),
    ]:
        done = project.faber(*command, "project-")
        said = f"error: project- is the beginning of several runs: {', '.join(runs)}\n\nhint: give more of the id\n"
        assert (done.returncode, done.stdout, done.stderr) == (code, "", said)
    assert project.faber("status", runs[0][:-1]).returncode == 0
