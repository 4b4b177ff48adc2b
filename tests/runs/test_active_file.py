"""Which run is active after git has brought an active file of another run: the one that this work tree claims."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.clones import ACTIVE, RUN, Clone
from support.project import Project


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    clone = Clone.first(tmp_path / "one")
    clone.faber("run", "resume", RUN)
    return clone


def start(clone: Clone, run_id: str) -> str:
    clone.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes")
    return run_id


def start_and_commit(clone: Clone, run_id: str) -> None:
    start(clone, run_id)
    clone.commit(run_id)


def in_file(clone: Clone) -> str:
    return (clone.root / ACTIVE).read_text().strip()


def active(clone: Clone) -> str:
    found = json.loads(clone.faber("status", "--json").stdout)["data"]["run_id"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(("how", "committed"), [("--no-rebase", False), ("--rebase", True)])
def test_a_pull_leaves_the_run_that_was_started_here_active(
    one: Clone, other: Clone, how: str, committed: bool
) -> None:
    start_and_commit(one, "theirs")
    start(other, "mine")
    if committed:
        other.commit("mine")
    other.git("pull", "-q", how, "../one", "main")
    assert in_file(other) == "mine"
    assert active(other) == "mine"


# The files below the git directory


@pytest.mark.parametrize(("file", "kind"), [("faber-ledger-run", "link to a pipe"), ("faber-ledger/used-runs", "pipe")])
def test_anything_else_in_place_of_a_file_is_not_waited_for(tmp_path: Path, file: str, kind: str) -> None:
    project = Project.made(tmp_path / "project")
    path = project.root / ".git" / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    assert project.deliver("SessionStart.startup.print").packet is not None
