"""What `doctor` says of a merge that has stopped, and of a memory that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clones import LEDGER, STATE, Clone
from support.command import COMMAND
from support.project import Project


@pytest.fixture
def one(tmp_path: Path) -> Clone:
    return Clone.first(tmp_path / "one", driver=False)


def doctor(clone: Clone, *arguments: str) -> str:
    done = clone.call(str(COMMAND), "doctor", *arguments)
    return done.stdout + done.stderr


def test_a_stopped_merge_is_an_error_without_an_offered_backup(one: Clone) -> None:
    other = one.clone("other", driver=False)
    for clone in (one, other):
        clone.change(status="paused", who=clone.root.name)
        clone.advance(clone.root.name)
    one.git("pull", "--no-rebase", "../other", "main", code=1)
    output = doctor(one)
    assert f"git.repository: git has stopped at {LEDGER} and {STATE}\n" in output
    assert "ledger.sound" not in output
    assert output.count("faber-ledger resolve") == 1
    assert "--restore" not in output
    before = one.state_path.read_bytes()
    doctor(one)
    assert one.state_path.read_bytes() == before


def test_a_run_that_its_branch_made_active_is_no_finding(tmp_path: Path) -> None:
    project = Project.fresh(tmp_path / "project")
    project.said("init", "--git-only")  # by which git ignores the active file
    project.commit("begin")
    first = begin_on_branch(project, "1")
    second = begin_on_branch(project, "2")
    project.git("switch", "--quiet", "feature/1")
    assert project.said("status").startswith(f"Run: {first}\n")
    assert second not in project.said("doctor", code=23)


def begin_on_branch(project: Project, work_id: str) -> str:
    project.git("switch", "--quiet", "--create", f"feature/{work_id}")
    run_id = project.start_run(work_id)
    project.commit(f"start {work_id}")
    return run_id
