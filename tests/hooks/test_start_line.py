"""At a session's start the user sees one line: which run, phase and step, or what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

STARTUP = "SessionStart.startup.interactive"
LINE = f"faber-ledger: run {RUN}, phase build"
STATUS = " (faber-ledger status)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.made(tmp_path / "project")
    made.change_state(current_step="implement")
    return made


def test_a_required_artifact_that_is_missing_is_named(project: Project) -> None:
    """(real-client D2)"""
    artifact = {"id": "plan", "type": "markdown", "path": "PLAN.md", "required": True}
    odd = {"id": "odd", "type": "markdown", "path": "odd.md", "condition": "odd +"}
    config = {"critical_artifacts": {"always_load": [artifact], "conditional_load": [odd]}}
    project.write("plugins/faber/config/workflows/default.json", json.dumps(config))
    said = project.deliver(STARTUP).message or ""
    assert said == f"{LINE}; artifact missing{STATUS}"
    project.write("PLAN.md", "# Plan\n")
    said = project.deliver(STARTUP, client="another").message or ""
    assert said == f"{LINE}; 1 warning{STATUS}"
    (project.root / "plugins/faber/config/workflows/default.json").unlink()
    assert project.deliver(STARTUP, client="third").message == LINE


def test_a_damaged_ledger_and_a_broken_state_are_named(project: Project) -> None:
    """(real-client D2)"""
    project.deliver(STARTUP)
    sound = project.state_path.read_bytes()
    project.put_state("{")
    said = project.deliver(STARTUP, client="another").message or ""
    assert said == f"faber-ledger: run {RUN}, phase build; state unreadable{STATUS}"
    project.put_state(sound)
    project.ledger_path.write_bytes(b"scribbled over" * 100)
    said = project.deliver(STARTUP, client="third").message or ""
    assert said == f"{LINE}; 1 warning{STATUS}"


def test_a_value_of_the_state_stays_on_the_line_and_bounded(project: Project) -> None:
    project.change_state(current_phase="build\nforged: \x1b[2J" + "x" * 500)
    said = project.deliver(STARTUP).message or ""
    assert said.isprintable()
    assert len(said) <= 120


def test_nothing_is_shown_of_what_is_no_start_of_a_session(project: Project) -> None:
    assert project.deliver(STARTUP).message == LINE
    assert project.deliver(STARTUP).output == b""  # the same delivery twice
    fields = {"agent_id": "a1", "agent_type": "Explore"}
    assert project.deliver(STARTUP, client="sub", fields=fields).output == b""
    assert project.deliver("SessionEnd.other.print").output == b""
    project.change_state(status="completed")
    assert project.deliver(STARTUP, client="another").output == b""


def test_the_most_urgent_thing_is_said_alone(project: Project) -> None:
    """Nothing recorded before the wrong branch, and that before a required artifact; `status` has all of them."""
    project.name_artifacts({"id": "plan", "path": "PLAN.md", "required": True})
    project.git("branch", "feat/258")
    project.change_state(branch="feat/258")
    assert project.deliver(STARTUP).message == f"{LINE}; off its branch{STATUS}"
    status = project.faber("status").stdout
    assert "\nBranch: feat/258, but `main` is checked out here: run `git switch feat/258` before" in status
    assert "A hook said: SessionStart: ❌ ERROR: Required artifact not found / Artifact: plan / " in status
    project.refuse()
    said = project.deliver(STARTUP, client="another").message
    project.relent()
    assert said == f"{LINE}; not recorded{STATUS}"
    status = project.faber("status").stdout
    assert "1 delivery waits to be recorded" in status
    assert "A hook said: SessionStart: not recorded: " in status
    project.deliver("PreCompact.auto.print", client="another")
    assert "not recorded" not in project.faber("status").stdout  # that is over
    assert "In git: " not in status  # nothing is to be committed or pushed on the wrong branch


AWAY = "Branch: feat/merged, but `main` is checked out here; this clone does not have that branch: "


@pytest.mark.parametrize(
    ("change", "said", "status"),
    [
        (
            {"status": "awaiting_feedback", "feedback_request": {"prompt": "Which cache?"}},
            "waits for you",
            "Question to the user: Which cache?",
        ),
        (
            {"errors": [{"phase": "build", "step": "implement", "message": "no"}] * 3},
            "failed too often",
            "This step has failed 3 times: stop, and ask the user before you try it again.",
        ),
        (
            {"status": "failed", "errors": [{"phase": "build", "step": "implement", "message": "no"}]},
            "the run failed",
            "Last error (build:implement): no",
        ),
        (
            {"approvals": [{"what": "release", "by": "mia"}]},
            "approval waits",
            "Approval that names no phase: (what release, by mia)",
        ),
        (
            {
                "pending_approvals": [{"phase": "build"}],
                "feedback_request": {"prompt": "Which cache?", "response": "Redis"},
                "errors": [{"phase": "build", "message": "red"}],
            },
            "approval waits",
            "Pending approval: build",
        ),
        (
            {"approvals": [{"phase": "build", "status": "rejected", "approved_by": "mia", "reason": "too slow"}]},
            "approval refused",
            "Approval rejected: build: too slow (by mia)",
        ),
        ({"branch": "feat/merged"}, "branch not here", f"{AWAY}ask where it is"),
        (
            {"branch": "feat/merged", "artifacts": {"pr_url": "https://example.org/pull/1"}},
            "branch gone",
            f"{AWAY}merged and deleted? Else ask where it is",
        ),
    ],
)
def test_what_forbids_to_go_on_is_said_first_and_by_status(
    project: Project, change: dict[str, Any], said: str, status: str
) -> None:
    project.name_artifacts({"id": "plan", "path": "PLAN.md", "required": True})
    project.change_state(**change)
    assert project.deliver(STARTUP).message == f"{LINE}; {said}{STATUS}"
    assert f"\n{status}\n" in project.faber("status").stdout


@pytest.mark.parametrize("named", ["feat/258", None])
def test_the_branch_is_said_before_the_files_that_it_has(project: Project, named: str | None) -> None:
    """Also of a state that names no branch: the log has the one that sessions of the run began on."""
    project.change_state(branch=named)
    project.git("switch", "--quiet", "--create", "feat/258")
    project.deliver(STARTUP)
    project.deliver("SessionEnd.other.print")
    project.git("add", ".fractary/runs")
    project.git("commit", "--quiet", "-m", "The run")
    project.git("switch", "--quiet", "main")
    said = project.deliver(STARTUP, client="another").message
    assert (said or "").endswith(f"; not on this branch{STATUS}")
    assert "they are on `feat/258` (`git switch feat/258`).\n" in project.faber("status").stdout


def test_what_hooks_said_before_the_session_is_left_to_doctor(project: Project) -> None:
    project.write(".fractary/faber/logs/hooks.log", "2020-01-01T00:00:00Z SessionStart an old message\n")
    project.deliver(STARTUP)
    status = project.faber("status").stdout
    assert "A hook said" not in status
    assert "Resume point" not in status  # phase and step say it
    project.change_state(status="failed", phases={"build": {"status": "failed", "failed_step": "test"}})
    assert "Resume point: build:test (retry)" in project.faber("status").stdout


def test_what_a_hook_said_of_a_status_is_over_when_it_is_set_right(project: Project) -> None:
    project.change_state(status="doing")
    project.deliver(STARTUP)
    assert "Invalid state status: doing" in project.faber("status").stdout
    project.change_state(status="in_progress")
    assert "A hook said" not in project.faber("status").stdout
