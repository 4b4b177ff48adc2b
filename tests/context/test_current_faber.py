"""States and workflows as FABER's tools write them since February 2026."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import RUN, Project

from faber_ledger.runs.progress import current_step

if TYPE_CHECKING:
    from pathlib import Path

STARTUP = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
STATE: dict[str, Any] = {
    "run_id": RUN,
    "workflow_id": "fractary-faber:default",
    "work_id": "258",
    "plan_id": "fractary-faber-258-" + "x" * 52,
    "status": "in_progress",
    "current_phase": "build",
    "current_step_id": "build:implement",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "myproject", STATE)


# The step


@pytest.mark.parametrize(
    ("members", "step"),
    [
        ({"current_step_id": "build:implement"}, "implement"),
        ({"current_step_id": "implement"}, "implement"),
        ({"current_step": "test", "current_step_id": "build:implement"}, "test"),
        ({"current_step": None, "current_step_id": "evaluate:review"}, None),
        ({"current_step_id": "build:"}, None),
        ({"current_step_id": "build:a:b"}, "a:b"),
        ({"current_step_id": 7}, None),
    ],
)
def test_a_step_may_be_named_by_its_id(members: dict[str, Any], step: str | None) -> None:
    assert current_step({"current_phase": "build", **members}) == step


def test_the_step_is_in_packet_hint_events_status_and_reconstitution(project: Project) -> None:
    packet = project.deliver(STARTUP).packet or ""
    assert "Step: implement" in packet
    assert "Phase: build\nStep: implement\nWhat to do: Implement" in packet
    hint = project.deliver(PRE).hint or ""
    assert "`build:implement`" in hint
    assert project.of_type("session_started")[0]["step"] == "implement"
    assert "Phase: build\nStep: implement\n" in project.faber("status").stdout
    assert "Phase: build\nStep: implement\n" in project.faber("reconstitute", RUN).stdout


# The workflow


def test_a_workflow_of_february_finds_the_runs_own_state(project: Project) -> None:
    """Without a plan id, with one of 71 characters as a real run has it, with another plan's."""
    state = {
        "id": "workflow-state",
        "type": "json",
        "required": True,
        "path": ".fractary/faber/runs/{plan_id}/state-{run_suffix}.json",
    }
    config = json.dumps({"critical_artifacts": {"always_load": [state]}})
    project.write(".fractary/plugins/faber/workflows/default.json", config)
    project.write(".fractary/faber/runs/another-plan/state-x.json", "{}")
    for plan in (STATE["plan_id"], None, "another-plan"):
        project.put_state({**STATE, "workflow_id": "default", "plan_id": plan})
        assert (project.deliver(STARTUP, client=str(plan), pid=None).packet or "").startswith("# FABER run")
        assert project.in_context == ["workflow-state"]
        done = project.faber("session-load", "--force")
        assert (done.returncode, done.stderr) == (0, "")
    assert {event["source"] for event in project.of_type("artifact_loaded")} == {f".fractary/runs/{RUN}/state.json"}


@pytest.mark.parametrize("workflow_id", [None, ""])
def test_a_missing_workflow_id_is_looked_up_in_the_metadata(project: Project, workflow_id: Any) -> None:
    """(faber-as-it-runs-today H13.6)"""
    project.put_state({**STATE, "workflow_id": workflow_id})
    assert "State file missing required fields" in (project.deliver(STARTUP).packet or "")
    project.write(f".fractary/runs/{RUN}/metadata.json", json.dumps({"workflow_id": "fractary-faber:default"}))
    assert "missing required fields" not in (project.deliver(STARTUP, client="another").packet or "")
    assert "Workflow: fractary-faber:default" in project.faber("session-load", "--force", "--verbose").stdout
    assert json.loads(project.faber("status", "--json").stdout)["data"]["workflow_id"] == "fractary-faber:default"
    assert project.state["workflow_id"] == workflow_id  # it is another tool's key


def test_metadata_behind_a_link_out_of_the_run_is_not_read(project: Project, tmp_path: Path) -> None:
    project.put_state({**STATE, "workflow_id": None})
    (tmp_path / "elsewhere.json").write_text(json.dumps({"workflow_id": "fractary-faber:default"}))
    (project.run / "metadata.json").symlink_to(tmp_path / "elsewhere.json")
    assert project.faber("session-load").returncode == 1
