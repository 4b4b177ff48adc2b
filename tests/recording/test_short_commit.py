"""The commit of a session's environment is as short as git shows it, without asking git (DECISIONS 18)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.project import Project

from faber_ledger.recording.call import read_environment

MANY = 17_000  # objects, of which git shows 8 digits


@pytest.mark.parametrize("kind", ["small", "many objects", "core.abbrev", "packed reference"])
def test_the_commit_is_what_git_shows(tmp_path: Path, kind: str) -> None:
    project = Project.made(tmp_path / "project")
    if kind == "many objects":
        blobs = "".join([f"blob\ndata {len(str(number))}\n{number}\n" for number in range(MANY)])
        subprocess.run(["git", "fast-import", "--quiet"], cwd=project.root, input=blobs.encode(), check=True)
    if kind == "core.abbrev":
        project.git("config", "core.abbrev", "12")
    if kind == "packed reference":
        project.git("pack-refs", "--all")
    shown = project.git("rev-parse", "--short", "HEAD")
    assert len(shown) == {"many objects": 8, "core.abbrev": 12}.get(kind, 7)
    assert read_environment(str(project.root))["git_commit"] == shown
