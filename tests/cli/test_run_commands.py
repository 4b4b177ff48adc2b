"""Starting, resuming and listing runs, through the installed command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.project import Project

from faber_ledger.ledger.errors import InvalidRunId
from faber_ledger.runs.layouts import find_run

IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": "client-1", "CLAUDE_PID": "77"}
MADE_ID = re.compile(r"project-258-\d{8}-\d{6}-[a-z0-9]{6}")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A git project in which no run was started yet."""
    return Project.fresh(tmp_path / "project")


def state_of(project: Project, run_id: str) -> dict[str, Any]:
    """Read a run's state."""
    state: dict[str, Any] = json.loads((project.root / ".fractary/runs" / run_id / "state.json").read_text())
    return state


def test_a_started_run_is_complete_and_active(project: Project) -> None:
    run_id = project.start_run("258")
    assert MADE_ID.fullmatch(run_id)
    assert (project.root / ".fractary/faber/.active-run-id").read_text() == f"{run_id}\n"
    assert {path.name for path in (project.root / ".fractary/runs" / run_id).iterdir()} == {
        "state.json",
        "metadata.json",
        "ledger.db",
    }
    state = state_of(project, run_id)
    assert (state["run_id"], state["work_id"], state["status"]) == (run_id, "258", "in_progress")
    schema = json.loads((Path(__file__).parents[2] / "schemas/json/state.schema.json").read_text())
    jsonschema.validate(state, schema)
    assert state["sessions"]["session_history"] == []  # no client has started it
    assert project.faber("verify").returncode == 0


def test_options_stand_in_the_state(project: Project) -> None:
    run_id = "org/project/R-1"
    project.said("run", "start", "--run-id", run_id, "--target", "the parser", "--plan-id", "plan-9")
    state = state_of(project, run_id)
    assert (state["target"], state["plan_id"], state["work_id"]) == ("the parser", "plan-9", None)


@pytest.mark.parametrize("run_id", ["../x", "a/../b", "/etc", "a/b/c/d", ".hidden", "", "a b", "x" * 256, "a\n"])
def test_an_id_that_is_none_is_refused_and_nothing_is_written(project: Project, run_id: str) -> None:
    done = project.faber("run", "start", "--work-id", "1", "--run-id", run_id)
    if run_id:
        assert done.returncode == 1
        assert "is not a run id" in done.stderr
        assert not (project.root / ".fractary").exists()
    with pytest.raises(InvalidRunId):
        find_run(str(project.root), run_id)


def test_a_run_behind_a_link_that_leads_outside_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project.root / ".fractary/runs").mkdir(parents=True)
    (project.root / ".fractary/runs/out").symlink_to(tmp_path / "elsewhere")
    done = project.faber("run", "resume", "out")
    assert done.returncode == 1
    assert "leads out" in done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_start_with_an_unknown_workflow_writes_nothing(project: Project) -> None:
    done = project.faber("run", "start", "--work-id", "1", "--workflow", "fractary-faber:nope")
    assert done.returncode == 1
    assert "❌ ERROR: Workflow configuration not found: fractary-faber:nope" in done.stderr
    assert not (project.root / ".fractary").exists()


def test_a_run_is_never_started_twice(project: Project) -> None:
    run_id = project.start_run("1")
    before = (project.root / ".fractary/runs" / run_id / "state.json").read_bytes()
    done = project.faber("run", "start", "--work-id", "1", "--run-id", run_id)
    assert done.returncode == 1
    assert f"run resume {run_id}" in done.stderr
    assert (project.root / ".fractary/runs" / run_id / "state.json").read_bytes() == before


def set_status(project: Project, run_id: str, status: str) -> None:
    """Change a run's status as FABER's own tools do."""
    path = project.root / ".fractary/runs" / run_id / "state.json"
    path.write_text(path.read_text().replace('"status": "in_progress"', f'"status": "{status}"', 1))


def test_the_active_run_is_resumed_without_a_warning(project: Project) -> None:
    run_id = project.start_run("258")
    done = project.faber("run", "resume", run_id)
    assert done.returncode == 0
    assert "WARNING" not in done.stdout + done.stderr
    assert f"✓ Workflow resumed: {run_id}" in done.stdout
    assert done.stdout.endswith("\n  Phase: frame\n")


def test_resuming_a_run_that_waits_says_for_what(project: Project) -> None:
    run_id = project.start_run("258")
    set_status(project, run_id, 'awaiting_feedback", "feedback_request": {"prompt": "60 or 600?"}, "was": "')
    assert "  Question to the user: 60 or 600?\n" in project.faber("run", "resume", run_id).stdout


def test_status_of_a_cancelled_run_says_which_phases_were_completed(project: Project) -> None:
    run_id = project.start_run("258")
    Project(project.root, run_id).change_state(status="cancelled", phases={"frame": {"status": "completed"}})
    assert "\nPhases completed: frame\n" in project.said("status", run_id)


def test_status_says_for_what_a_run_waits_without_orders_to_the_agent(project: Project) -> None:
    run_id = project.start_run("258")
    Project(project.root, run_id).change_state(pending_approvals=[{"phase": "release", "reason": "it deploys"}])
    assert "\nPending approval: release: it deploys\n" in project.said("status")
    assert "  Pending approval: release: it deploys\n" in project.said("run", "resume", run_id)


@pytest.mark.parametrize(
    ("phase", "state", "shown"),
    [
        ("build", {}, "build is done, evaluate is next"),
        ("release", {}, "release is done"),
        ("build", {"workflow_id": "gone"}, "build is done"),
        ("build", {"status": "failed"}, "build"),
    ],
)
def test_status_names_the_phase_after_one_that_is_done(
    project: Project, phase: str, state: dict[str, str], shown: str
) -> None:
    done = {"current_phase": phase, "current_step": "last", "phases": {phase: {"status": "completed"}}}
    Project(project.root, project.start_run("258")).change_state(**done, **state)
    said = project.said("status")
    assert f"\nPhase: {shown}\n" in said
    assert ("Step: last" in said) == (shown == "build")
    assert ("Workflow: gone" in said) == ("Workflow" in said) == ("workflow_id" in state)


def test_resume_without_a_run_names_the_active_one(project: Project) -> None:
    run_id = project.start_run("258")
    done = project.faber("run", "resume")
    assert (done.returncode, f"hint: run `faber-ledger run resume {run_id}`\n" in done.stderr) == (2, True)


def test_a_run_that_is_not_released_says_what_its_state_lacks(project: Project) -> None:
    run_id = project.start_run("258")
    done = project.faber("run", "finish")
    path = f".fractary/runs/{run_id}/state.json"
    assert done.stderr.endswith(f"hint: when it is released, set phases.release.status to completed in {path}\n")


def test_the_worktree_that_is_recommended_can_be_made(project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "-m", "first")
    first = project.start_run("258")
    new = "  git worktree add ../project-issue-7"
    done = project.faber("run", "start", "--work-id", "7")
    assert (f"{new} -b feature/7\n" in done.stdout, "Add --worktree" in done.stdout) == (True, True)
    project.git("branch", "feature/7")
    done = project.faber("run", "start", "--work-id", "7")
    assert (f"{new}-2 -b feature/7-2\n" in done.stdout, "Add --worktree" in done.stdout) == (True, False)
    project.git("switch", "--quiet", "--create", "feature/first")
    Project(project.root, first).change_state(branch="feature/first")
    project.git("switch", "--quiet", "-")
    project.start_run("8", "--yes")
    again = project.faber("run", "resume", first)
    assert "  git worktree add ../project-issue-258 feature/first\n" in again.stdout, again.stdout
    project.git("worktree", "add", "--quiet", "../first", "feature/first")
    again = project.faber("run", "resume", first)
    assert ("  cd ../first\n" in again.stdout, "git worktree add" in again.stdout) == (True, False), again.stdout


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("completed", "ℹ Workflow already completed - nothing to resume\n"),
        ("cancelled", "ℹ Workflow was cancelled - cannot resume\n"),
    ],
)
def test_a_finished_run_is_not_resumed(project: Project, status: str, message: str) -> None:
    first = project.start_run("1")
    set_status(project, first, status)
    second = project.start_run("2")
    done = project.faber("run", "resume", first)
    assert (done.returncode, done.stdout) == (0, message)
    assert (project.root / ".fractary/faber/.active-run-id").read_text() == f"{second}\n"


def test_workflow_run_is_start_and_resume(project: Project) -> None:
    done = project.faber("workflow-run", "--work-id", "258", "--json")
    run_id = json.loads(done.stdout)["data"]["run_id"]
    assert project.faber("workflow-run", "--resume", run_id).stdout.startswith("✓ Workflow resumed: " + run_id)
    assert project.faber("workflow-run", "--resume", "nope").returncode == 10


def test_a_start_inside_a_client_opens_its_session_at_once(project: Project) -> None:
    run_id = project.start_run("258", **IN_CLIENT)
    sessions = state_of(project, run_id)["sessions"]
    assert sessions["total_sessions"] == 1
    assert sessions["current_session_id"] == sessions["session_history"][0]["session_id"]
    assert "ended_at" not in sessions["session_history"][0]
    again = project.faber("run", "resume", run_id, env=dict(IN_CLIENT))
    assert again.returncode == 0
    assert state_of(project, run_id)["sessions"]["total_sessions"] == 1


def test_a_client_that_changes_runs_ends_its_session_there(project: Project) -> None:
    first = project.start_run("258", **IN_CLIENT)
    second = project.start_run("259", "--yes", **IN_CLIENT)
    left, taken = state_of(project, first)["sessions"], state_of(project, second)["sessions"]
    assert left["current_session_id"] is None
    assert left["session_history"][0]["end_reason"] == "normal"
    assert left["session_history"][0]["ended_at"] == taken["session_history"][0]["started_at"]
    assert taken["current_session_id"] is not None


def test_the_list_shows_every_run_in_both_layouts_and_filters(project: Project) -> None:
    project.start_run("1", "--run-id", "one")
    project.start_run("2", "--run-id", "org/two", "--yes")
    old = project.root / ".fractary/faber/runs/org/project/three"
    old.mkdir(parents=True)
    (old / "state.json").write_text('{"run_id": "org/project/three", "workflow_id": "w", "status": "completed"}')
    rows = json.loads(project.faber("run", "list", "--json").stdout)["data"]
    assert {row["run_id"]: row["active"] for row in rows} == {"one": False, "org/project/three": False, "org/two": True}
    assert len(rows) == 3
    filtered = json.loads(project.faber("run", "list", "--status", "completed", "--json").stdout)["data"]
    assert [row["run_id"] for row in filtered] == ["org/project/three"]
    by_work = json.loads(project.faber("run", "list", "--work-id", "2", "--json").stdout)["data"]
    assert [row["run_id"] for row in by_work] == ["org/two"]
    assert "* org/two" in project.faber("run", "list").stdout
