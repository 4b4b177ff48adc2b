"""A progress bar over a long log or many runs: on a terminal alone, and only where the work takes long."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.project import RUN, Project

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


def make_kept_run(root: Path, *texts: str) -> Project:
    """Make a run that the clone keeps, whose work tree has neither its state nor its published file."""
    project = Project.made(root)
    assert project.faber("note", "add", "it went well").returncode == 0
    with Log.open(str(project.clones_log)) as log:
        for text in texts:
            note: Any = {"type": "note_recorded", "kind": "note", "text": text, "phase": None, "step": None}
            log.append([{"event": note}], at=1767600000.0, writer="5f" * 16)
        log.commit()
    shutil.rmtree(project.run)
    return project


def test_a_bar_is_shown_over_the_long_log_of_a_kept_run(tmp_path: Path) -> None:
    project = make_kept_run(tmp_path / "project", *["long " * 1_500_000] * 3)
    shown, code = project.on_terminal("export", RUN, "-o", "events.jsonl")
    assert code == 0, shown
    assert f"exporting {RUN}" in shown
    assert "100%" in shown
