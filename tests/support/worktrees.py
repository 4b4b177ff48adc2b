"""Projects with work trees."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema

from support.folders import copy_prepared
from support.project import Project

REGISTRY = ".fractary/faber/worktrees.json"
START = "SessionStart.startup.print"
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/json/worktrees.schema.json").read_text())


def begin_project(root: Path) -> Project:
    """Copy a committed git project, set up, with the run of work item 258 active in it."""
    copy_prepared(_begin, root)
    return Project(root, Project(root).active_path.read_text().strip())


def _begin(root: Path) -> None:
    project = Project(root)
    project.git("init", "--quiet", "--initial-branch=main")
    assert project.faber("init").returncode == 0
    project = Project(root, project.start_run("258"))
    project.commit("Begin")


def start_in_worktree(project: Project, work_id: str) -> Project:
    """Start a run in a worktree of its own."""
    run_id = project.start_run(work_id, "--worktree")
    return Project(project.root.parent / f"{project.root.name}-issue-{work_id}", run_id)


def finish_run(tree: Project, status: str = "completed") -> None:
    """Finish a run as FABER's own tools do, and commit."""
    tree.change_state(status=status)
    tree.commit(f"Finish {tree.run_id}")


def list_worktrees(project: Project) -> dict[str, dict[str, Any]]:
    return {os.path.basename(row["path"]): row for row in project.data("worktree", "list")}


def clean_up(project: Project, *arguments: str) -> dict[str, dict[str, Any]]:
    done = project.faber("worktree", "cleanup", "--json", *arguments)
    rows = json.loads(done.stdout)["data"]["worktrees"]
    return {os.path.basename(row["path"]): row for row in rows}


def records(project: Project) -> list[dict[str, Any]]:
    document = json.loads((project.root / REGISTRY).read_text())
    jsonschema.validate(document, SCHEMA)
    found: list[dict[str, Any]] = document["worktrees"]
    return found


# The end of a run


def complete_phases(tree: Project) -> None:
    tree.change_state(phases={name: {"status": "completed"} for name in tree.state["phases"]})
