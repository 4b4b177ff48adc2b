"""The workflows of the hosting site: what they may do, and what they run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
WORKFLOWS = sorted((PROJECT / ".github" / "workflows").iterdir())

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def read(name: str | Path) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((PROJECT / ".github" / "workflows" / name).read_text())
    return read


def steps(name: str | Path) -> list[dict[str, Any]]:
    return [step for job in read(name)["jobs"].values() for step in job.get("steps", [])]


@each_workflow
def test_what_may_write_runs_no_code_of_the_repository(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        writes = job.get("permissions", {"contents": "read"}) != {"contents": "read"}
        assert writes == ((path.name, name) == ("release.yml", "attach"))
        assert not (writes and [step for step in job["steps"] if "checkout" in step.get("uses", "")])


@each_workflow
def test_no_workflow_step_has_a_secret_or_foreign_text(path: Path) -> None:
    assert "secrets" not in path.read_text()
    for step in steps(path):
        assert "${{" not in step.get("run", "")
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@each_workflow
def test_actions_are_pinned(path: Path) -> None:
    for step in steps(path):
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@(v\d+|[0-9a-f]{40})", step["uses"])
