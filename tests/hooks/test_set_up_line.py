"""A start in a clone that was never set up tells the user once, and never where the project does not use our driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.project import RUN, Project

STARTUP, RESUME = "SessionStart.startup.print", "SessionStart.resume.print"
PRE, END = "PreCompact.auto.print", "SessionEnd.other.print"
LINE = f"faber-ledger: run {RUN}, phase build"
SAID = "; not set up (faber-ledger status)"
WITHOUT_RUN = "this clone was never set up, and git will not merge its files: run `faber-ledger init --git-only`"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that was set up and committed, as a clone has it: with the attributes, without the driver."""
    project = Project.made(tmp_path / "project")
    project.faber("init", "--git-only")
    project.commit("set up")
    project.git("config", "--local", "--remove-section", "merge.faber-ledger")
    project.git("config", "--local", "--remove-section", "diff.faber-ledger")
    return project


def without_run(project: Project) -> None:
    project.active_path.unlink()
    project.git("rm", "-rqf", ".fractary/runs")


def finished(project: Project) -> None:
    project.change_state(status="completed")


def shown(project: Project) -> None:
    """Make the run a colleague's, whose own branch is not checked out."""
    project.change_state(branch="feature")
    project.commit("a run")
    project.git("clone", "-q", ".", "../clone")
    project.root = project.root.parent / "clone"


@pytest.mark.parametrize("change", [None, without_run, finished, shown])
def test_the_first_start_tells_the_user_and_no_other(project: Project, change: Any) -> None:
    if change is not None:
        change(project)
    answer = project.deliver(STARTUP)
    said = {None: f"{LINE}{SAID}", shown: f"{LINE}; branch not here (faber-ledger status)"}
    assert answer.message == said.get(change, f"faber-ledger: {WITHOUT_RUN}")
    assert len(answer.message or "") <= 120
    assert "not set up" not in (answer.packet or "")
    assert (answer.packet is not None) == (change in (None, shown))
    again = project.deliver(STARTUP, client="another").message or ""
    assert SAID not in again
    assert WITHOUT_RUN not in again
    if answer.packet is not None:
        assert "This clone: git has no driver" in project.faber("status").stdout


@pytest.mark.parametrize("recorded", [PRE, END])
def test_only_a_start_tells(project: Project, recorded: str) -> None:
    project.deliver(recorded)
    project.deliver(STARTUP, fields={"agent_id": "a1", "agent_type": "Explore"})
    assert SAID in (project.deliver(STARTUP).message or "")


def test_a_clone_that_was_set_up_is_never_told_again(project: Project) -> None:
    project.faber("init", "--git-only")
    assert project.deliver(STARTUP).message == LINE
    project.git("config", "--local", "--remove-section", "merge.faber-ledger")
    assert project.deliver(RESUME).message == LINE
    assert "`faber-ledger init --git-only`" in project.faber("status").stdout


def no_attributes(project: Project) -> None:
    (project.root / ".fractary" / ".gitattributes").unlink()


def other_attributes(project: Project) -> None:
    (project.root / ".fractary" / ".gitattributes").write_text("*.md text\n")


@pytest.mark.parametrize("change", [no_attributes, other_attributes])
def test_a_project_without_our_attributes_is_told_once_it_has_them(project: Project, change: Any) -> None:
    change(project)
    assert project.deliver(STARTUP).message == LINE
    project.git("checkout", "-q", "--", ".fractary/.gitattributes")
    assert SAID in (project.deliver(RESUME).message or "")
