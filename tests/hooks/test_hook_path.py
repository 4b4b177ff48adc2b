"""What a hook costs: it loads the cheap part of the standard library, and none of the large packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import COMMAND
from support.loaded_modules import HOOKS, loaded_by, loaded_by_hook

TOO_EXPENSIVE = {
    *("alembic", "argparse", "click", "dataclasses", "datetime", "hashlib", "importlib.metadata", "inspect"),
    *("json", "pathlib", "pydantic", "signal", "sqlite3", "sqlalchemy", "subprocess", "threading", "tomllib"),
    *("anyio", "mcp", "typing", "typing_extensions", "ulid", "uuid"),
}
OURS_OF_TEXTCONV = 16
RUN = "fractary-faber-258-20260105-143022-a1b2c3"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def activate_run(project: Path) -> Path:
    """Make an active run as another tool leaves it; return its folder."""
    active = project / ".fractary" / "faber" / ".active-run-id"
    active.parent.mkdir(parents=True)
    active.write_text(f"{RUN}\n")
    folder = project / ".fractary" / "runs" / RUN
    folder.mkdir(parents=True)
    state = {"run_id": RUN, "workflow_id": "default", "work_id": "258", "status": "in_progress"}
    (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")
    return folder


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_in_a_project_without_a_run_loads_nothing_expensive(project: Path, name: str) -> None:
    loaded = loaded_by_hook(name, project)
    assert "faber_ledger.hooks.main" in loaded
    assert loaded & (TOO_EXPENSIVE | {"_sqlite3"}) == set()


@pytest.mark.parametrize("name", HOOKS)
def test_no_hook_loads_patterns_or_json(project: Path, name: str) -> None:
    """They cost two thirds of starting Python. Of pip's own scripts, those of versions before 25 load them anyway."""
    activate_run(project)
    delivery = json.dumps({"session_id": "3f1c", "cwd": str(project)} | HOOKS[name]).encode()
    command: list[str | Path] = [sys.executable, "-c", "from faber_ledger.cli.entry import main; main()", "hook", name]
    loaded = loaded_by(command, project, delivery)
    assert "faber_ledger.ledger.log" in loaded
    assert loaded & {"enum", "json", "re"} == set()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_records_loads_nothing_expensive(project: Path, name: str) -> None:
    """Nor, without a free text, a rule for secrets."""
    folder = activate_run(project)
    subprocess.run([COMMAND, "init", "--git-only"], cwd=project, check=True, capture_output=True)
    if name != "session-start":
        loaded_by_hook("session-start", project)
    loaded = loaded_by_hook(name, project)
    assert (folder / "ledger.db").exists()
    assert "faber_ledger.ledger.log" in loaded
    assert loaded & TOO_EXPENSIVE == set()
    assert ("faber_ledger.recording.secrets.mask" in loaded) == (name == "post-compact")  # which has a summary
    assert "faber_ledger.recording.secrets.named" not in loaded  # nothing in it is called a secret
    assert ("faber_ledger.context.packet" in loaded) == (name == "session-start")


def test_git_showing_a_ledger_loads_nothing_expensive(project: Path) -> None:
    folder = activate_run(project)
    loaded_by_hook("session-start", project)
    command: list[str | Path] = [COMMAND, "textconv", folder / "ledger.db"]
    loaded = loaded_by(command, project) - loaded_by([sys.executable, "-c", "pass"], project)
    assert "faber_ledger.ledger.log" in loaded
    assert loaded & TOO_EXPENSIVE == set()
    ours = {module for module in loaded if module.split(".")[0] == "faber_ledger"}
    assert len(ours) == OURS_OF_TEXTCONV, sorted(ours)
