"""Where git has taken a run out of the work tree, hooks and commands go on with the run that the clone keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.folders import copy_prepared
from support.project import RUN, Project

from faber_ledger.ledger.log import Log

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

START, COMPACTED = "SessionStart.startup.print", "SessionStart.compact.print"
PRE, POST, END = "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"
NOT_IN_TREE = f"This work tree does not have the files of {RUN}."


def kept_events(project: Project) -> list[Recorded]:
    with Log.read(str(kept_folder(project) / "log.db")) as log:
        return list(log.stream())


def kept_folder(project: Project) -> Path:
    common = Path(project.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    return common / "faber-ledger" / "runs" / project.run_id


def made(root: Path, *, commit: bool = True) -> Project:
    """Make a project set up on main, and a run on the branch `feature` in which one session is open."""
    project = Project.made(root)
    active, state = project.active_path.read_text(), project.state_path.read_text()
    project.active_path.unlink()
    project.state_path.unlink()
    project.run.rmdir()
    project.faber("init", "--git-only")
    project.git("add", "-A")
    project.git("commit", "-qm", "set up")
    project.git("checkout", "-qb", "feature")
    project.run.mkdir(parents=True)
    project.active_path.write_text(active)
    project.state_path.write_text(state)
    project.deliver(START, client="one", pid="1")
    if commit:
        project.git("add", "-A")
        project.git("commit", "-qm", "a run")
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has left the branch of its run in mid-session; the active file is there, as a tool wrote it."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project")


def prepare(folder: Path) -> None:
    project = made(folder / "project")
    project.git("checkout", "-q", "main")
    project.active_path.parent.mkdir(parents=True, exist_ok=True)
    project.active_path.write_text(f"{RUN}\n")
    assert not project.state_path.exists()


RECORDING = {
    "note": ["note", "add", "remember"],
    "session-save": ["session-save"],
    "session-load": ["session-load", "--force"],
}


@pytest.mark.parametrize("name", RECORDING)
def test_a_command_records_on_the_kept_run_and_says_so(project: Project, name: str) -> None:
    before = len(kept_events(project))
    done = project.faber(*RECORDING[name])
    assert done.returncode == 0, done.stderr
    assert NOT_IN_TREE in done.stderr
    assert len(kept_events(project)) > before
    assert not project.run.exists() or not project.ledger_path.exists()


@pytest.mark.parametrize("command", [["run", "finish"], ["seal", RUN]])
def test_a_command_that_writes_the_runs_files_names_what_brings_them_back(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert done.returncode == 10, done.stdout + done.stderr
    assert f"faber-ledger run resume {RUN}" in done.stderr
    assert not project.state_path.exists()


def test_an_uncommitted_state_is_not_set_back_to_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setenv("GIT_COMMITTER_DATE", "2026-01-05T14:30:22Z")
        project = made(tmp_path / "project")
    project.change_state(current_phase="evaluate")
    project.deliver(PRE, client="one", pid="1")
    project.git("checkout", "-q", "--force", "main")
    assert "Phase: evaluate" in (project.deliver(COMPACTED, client="one", pid="1").packet or "")
    assert "evaluate" in project.faber("status", RUN).stdout
