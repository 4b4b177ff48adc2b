"""The first minute: `init`, the start of a run, a session, in each kind of project that a user may have."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.patients import Patient
from support.project import PROTOCOL
from support.sizes import pair

WORKFLOWS = Path(__file__).parents[1] / "fixtures" / "workflows"


def empty(project: Patient) -> None:
    """Nothing of FABER anywhere."""


def with_the_plugin(project: Patient) -> None:
    """FABER's plugin, installed for the user: a marketplace that the client has."""
    put_files(project.home / ".claude/plugins/marketplaces/fractary-faber")


def with_files_in_the_tree(project: Patient) -> None:
    put_files(project.root)


def put_files(folder: Path) -> None:
    """Write FABER's own workflows, which require the protocol, and the protocol."""
    shutil.copytree(WORKFLOWS, folder / "plugins/faber/config/workflows")
    (folder / PROTOCOL).parent.mkdir(parents=True, exist_ok=True)
    (folder / PROTOCOL).write_text("# Orchestration\n\nOne step after the other.\n")


def start_ours(project: Patient) -> None:
    done = project.call("run", "start", "--work-id", "258", "--run-id", project.run_id)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def start_fabers(project: Patient) -> None:
    """Write what FABER's workflow-run writes: the state and the active file."""
    state: dict[str, Any] = {"run_id": project.run_id, "workflow_id": "fractary-faber:default", "work_id": "258"}
    project.run.mkdir(parents=True)
    project.put_state({**state, "status": "in_progress", "current_phase": "frame", "phases": {}, "artifacts": {}})
    project.active_path.parent.mkdir(parents=True, exist_ok=True)
    project.active_path.write_text(f"{project.run_id}\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("prepare", "start"), pair([empty, with_the_plugin, with_files_in_the_tree], [start_ours, start_fabers])
)
def test_the_first_minute_meets_no_error(tmp_path: Path, prepare: Any, start: Any) -> None:
    """(spec-and-session-end 3)"""
    project = Patient(tmp_path / "project")
    project.root.mkdir()
    subprocess.run(["git", "init", "--quiet", project.root], check=True)
    prepare(project)
    assert project.call("init").returncode == 0
    start(project)
    answer = project.deliver("SessionStart.startup.interactive")
    assert (answer.packet or "").startswith("# FABER run ")
    assert ("One step after the other." in (answer.packet or "")) == (prepare is not empty)
    assert (answer.errors, project.log_lines) == ("", [])
    done = project.call("session-load")
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stdout + done.stderr
    assert project.metadata["reload_count"] == 2
    found = {one["check"]: one for one in json.loads(project.call("doctor", "--json").stdout)["data"]["checks"]}
    assert found["workflow.artifacts"]["findings"] == found["hooks.log"]["findings"] == []
    assert project.call("doctor").returncode == 0
