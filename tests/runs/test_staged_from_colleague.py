"""Nothing is recorded on a colleague's run that git staged here, also after an ordinary commit of it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.project import RUN, Project, usual_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACTIVE = ".fractary/faber/.active-run-id"
STARTUP, COMPACT, END = "SessionStart.startup.print", "SessionStart.compact.print", "SessionEnd.other.print"
OURS = "example-9-20260105-143022-aaaaaa"


@pytest.fixture
def ann(tmp_path: Path) -> Project:
    """A clone in which Ann's client works on her run, with Bob's at work on the remote's branch `bob`."""
    bob = Project.made(tmp_path / "bob")
    bob.active_path.unlink()
    bob.write("code", "1\n")
    bob.git("init", "--quiet", "--initial-branch=main")
    bob.write(".fractary/.gitignore", "logs/\n*.lock\n*.backup\n")
    bob.git("add", "code", ".fractary/.gitignore")
    bob.git("commit", "--quiet", "-m", "Begin")
    ann = Project(tmp_path / "ann", OURS, hostname="ann")
    bob.git("clone", "--quiet", ".", str(ann.root))
    bob.git("checkout", "--quiet", "-b", "bob")
    bob.write(ACTIVE, f"{RUN}\n")
    bob.deliver(STARTUP, client="bob")
    bob.git("add", "-A")
    bob.git("commit", "--quiet", "-m", "Bob's run")
    ann.git("checkout", "--quiet", "-b", "ann")
    ann.run.mkdir(parents=True)
    ann.put_state(usual_state(OURS))
    ann.write(ACTIVE, f"{OURS}\n")
    for number in range(2):
        ann.deliver(STARTUP, client=f"ann{number}", pid=f"10{number}")
    ann.git("add", "-A")
    ann.git("commit", "--quiet", "-m", "Ann's run")
    ann.git("fetch", "--quiet")
    return ann


def packet(project: Project, recorded: str, client: str, pid: str) -> str:
    return project.deliver(recorded, client=client, pid=pid).packet or ""


def assert_goes_on(ann: Project, number: int = 0) -> None:
    """Check that a client of Ann's and a new one work on her run, and that nothing happens to Bob's."""
    assert OURS in packet(ann, COMPACT, f"ann{number}", f"10{number}")
    assert OURS in packet(ann, STARTUP, f"new{number}", f"20{number}")
    bobs = Project(ann.root)
    assert bobs.current is not None
    assert bobs.types.count("session_started") == 1


STAGED: dict[str, Callable[[Project], object]] = {
    "squash": lambda ann: (ann.git("checkout", "main"), ann.git("merge", "--squash", "origin/bob")),
    "soft reset": lambda ann: (
        ann.git("checkout", "main"),
        ann.git("merge", "--no-ff", "--no-edit", "origin/bob"),
        ann.git("reset", "--soft", "HEAD~1"),
    ),
    "cherry-pick": lambda ann: (ann.git("checkout", "main"), ann.git("cherry-pick", "-n", "origin/bob")),
    "checkout of files": lambda ann: ann.git("checkout", "origin/bob", "--", ".fractary"),
    "restore": lambda ann: ann.git("restore", "--source=origin/bob", "--staged", "--worktree", ".fractary"),
}


@pytest.mark.parametrize("how", STAGED)
def test_a_clients_own_run_goes_on(ann: Project, how: str) -> None:
    STAGED[how](ann)
    assert ann.git("show", f":{ACTIVE}") == RUN
    assert_goes_on(ann)
    ann.git("commit", "--quiet", "-m", "Their work")
    assert_goes_on(ann, 1)


def test_without_an_own_run_it_is_shown(ann: Project) -> None:
    cleo = ann.clone(ann.root.parent / "cleo", "cleo")
    cleo.git("checkout", "--quiet", "main")
    cleo.git("fetch", "--quiet", str(ann.root.parent / "bob"), "bob:refs/remotes/origin/bob")
    cleo.git("merge", "--squash", "origin/bob")
    cleo.git("commit", "--quiet", "-m", "Their work")
    assert f"{RUN} came with git and was never used" in packet(cleo, STARTUP, "cleo", "301")
    assert Project(cleo.root).types.count("session_started") == 1


def test_back_on_the_branch_of_a_run_that_was_committed_here_its_end_is_recorded(ann: Project) -> None:
    """FABER began a run and finished it while no hook was called, and its branch was left between."""
    second = Project(ann.root, "example-10-20260105-143022-bbbbbb")
    ann.change_state(status="completed")
    ann.git("commit", "--quiet", "-am", "Done")
    ann.git("checkout", "--quiet", "-b", "second", "main")
    assert packet(ann, STARTUP, "late", "103") == ""
    second.run.mkdir(parents=True)
    second.put_state(usual_state(second.run_id))
    ann.write(ACTIVE, f"{second.run_id}\n")
    ann.git("add", "-A")
    ann.git("commit", "--quiet", "-m", "Second run")
    ann.git("checkout", "--quiet", "main")
    ann.git("checkout", "--quiet", "second")
    second.change_state(status="completed", completed_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
    second.deliver(END, client="late", pid="103")
    assert "session_ended" in second.types


def test_a_conflict_that_is_resolved_to_it_before_the_commit(ann: Project) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        ann.git("merge", "origin/bob")
    ann.git("checkout", "--theirs", "--", ACTIVE)
    assert ann.active_path.read_text() == f"{RUN}\n"
    assert_goes_on(ann)
    ann.git("add", "-A")
    ann.git("commit", "--quiet", "--no-edit")
    assert_goes_on(ann, 1)
