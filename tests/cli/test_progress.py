"""A progress bar over a long log or many runs: on a terminal alone, and only where the work takes long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.project import Project

from faber_ledger.ledger.log import Log

MANY = 70


def make_runs(root: Path, count: int) -> Project:
    project = Project(root)
    for number in range(count):
        run_id = f"run-{number:03}"
        folder = root / ".fractary/runs" / run_id
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"run_id": run_id, "workflow_id": "default", "status": "failed"}))
        with Log.open(str(folder / "ledger.db")) as log:
            started: Any = {"type": "run_started", "run_id": run_id, "workflow_id": "default", "work_id": "258"}
            log.append([{"event": started}], at=1767600000.0, writer="5f" * 16)
            log.commit()
    project.git("init", "--quiet")
    return project


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_runs(tmp_path_factory.mktemp("many") / "project", MANY)


@pytest.mark.parametrize("command", [["verify", "--all"], ["doctor"]])
def test_a_bar_over_many_runs_is_shown_on_a_terminal(many: Project, command: list[str]) -> None:
    shown, _ = many.on_terminal(*command)
    assert f"verifying {MANY} runs" in shown
    assert "100%" in shown


@pytest.mark.parametrize("command", [["verify", "--all"], ["doctor"]])
def test_no_bar_is_shown_without_a_terminal(many: Project, command: list[str]) -> None:
    done = many.faber(*command)
    assert done.stdout
    assert "verifying" not in done.stdout + done.stderr
