"""A hint names a command that works exactly as printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Give a project whose run has a session and a note, committed."""
    return Project.noted(tmp_path / "p")


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
