"""A hint names a command that works exactly as printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.command import COMMAND
from support.forging import forge
from support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Give a project whose run has a session and a note, committed."""
    return Project.noted(tmp_path / "p")


def forged(project: Project) -> None:
    """Change an event with sqlite3."""
    forge(project.ledger_path, "UPDATE event SET payload = replace(payload, 'went well', 'went ill')")


@pytest.mark.parametrize("kept", ["mirror", "HEAD"])
def test_a_changed_event_is_restored_by_the_command_that_verify_names(project: Project, kept: str) -> None:
    before = project.events
    if kept == "HEAD":
        shutil.rmtree(project.root / ".git" / "faber-ledger")
    forged(project)
    verified = project.faber("verify", project.run_id)
    assert verified.returncode == 20
    (command,) = set(re.findall(r"run `(.*union.*?)` in the run's folder", verified.stdout))
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project.run, env={**project.environment(), "PATH": path}, check=False
    )
    assert done.returncode == 0
    (project.run / "unchanged.db").unlink(missing_ok=True)
    assert project.faber("verify", project.run_id).returncode == 0
    assert project.events == before


def test_without_an_unchanged_copy_verify_names_the_command_that_takes_the_event_out(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    forged(project)
    shown = project.faber("verify", project.run_id).stdout
    assert f"run `faber-ledger quarantine {project.run_id}`, which takes it out" in shown
    assert "union" not in shown


def test_doctor_names_the_scope_to_take_hooks_out_of(project: Project) -> None:
    assert project.faber("init").returncode == 0
    settings = project.root / ".claude" / "settings.json"
    local = project.root / ".claude" / "settings.local.json"  # where `init` puts none beside them
    local.write_text(settings.read_text())
    settings.write_text(settings.read_text().replace("hook session-start", "hook  session-start"))
    output = project.faber("doctor").stdout
    assert "faber-ledger uninstall --scope local" in output
    assert "`faber-ledger uninstall --scope`" not in output


def test_doctor_names_no_run_that_is_not_there(project: Project) -> None:
    project.write(".gitignore", "*.db\n")
    output = project.faber("doctor", "--json").stdout
    paths = re.findall(r"\.fractary/runs/[^ \"]*/ledger\.db", json.dumps(json.loads(output)))
    assert "a run's ledger.db, in .fractary/runs/" in output
    assert {path.split("/")[2] for path in paths} == {project.run_id}
