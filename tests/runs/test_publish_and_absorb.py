"""Git takes no event from a run and adds none twice, whatever it does to the work tree's `ledger.db`."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from support.folders import copy_prepared
from support.program import path_with_program
from support.project import Project

from faber_ledger.ledger.log import Log
from faber_ledger.runs.run import Run

OTHER = "other"  # a branch that does not have the run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose run is on the branch `work`, and not on `main`; git finds the drivers."""
    monkeypatch.setenv("PATH", path_with_program())
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project")


def prepare(folder: Path) -> None:
    project = Project.made(folder / "project")
    assert project.faber("init", "--git-only").returncode == 0
    project.git("add", "-A", "--", ".", ":(exclude).fractary/runs")
    project.git("commit", "-qm", "Set up")
    project.git("branch", OTHER)
    project.git("checkout", "-qb", "work")
    assert project.faber("run", "resume", project.run_id).returncode == 0
    project.deliver("SessionStart.startup.print")
    commit(project, "begin")


def names_in(path: Path) -> list[str]:
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as connection:
        return [name for (name,) in connection.execute("SELECT id FROM event ORDER BY seq, id")]


def log_of(project: Project) -> Path:
    return Path(Run(str(project.root), project.run_id, str(project.run)).log_path)


def texts_in(path: Path) -> list[str]:
    """Return the texts of the notes that a log has, sorted."""
    with Log.read(str(path)) as log:
        events = [recorded["event"] for recorded in log.stream()]
    return sorted(event["text"] for event in events if event["type"] == "note_recorded")


def note(project: Project, text: str) -> None:
    done = project.faber("note", "add", text, "--run-id", project.run_id)
    assert done.returncode == 0, done.stderr


def commit(project: Project, text: str) -> None:
    note(project, text)
    done = project.faber("seal", project.run_id)
    assert done.returncode == 0, done.stderr
    project.git("commit", "-qm", text)


def clone_of(project: Project, root: Path) -> Project:
    """Clone the project on another machine, on which the run is resumed."""
    project.git("clone", "-q", "-b", "work", str(project.root), str(root))
    clone = Project(root, project.run_id, "dev-machine-2")
    assert clone.faber("init", "--git-only").returncode == 0
    done = clone.faber("run", "resume", clone.run_id)
    assert done.returncode == 0, done.stderr
    return clone


def assert_whole(project: Project, *texts: str) -> None:
    """Check that the log and what `seal` publishes have each of these notes once, and no event twice."""
    done = project.faber("seal", project.run_id)
    assert done.returncode == 0, done.stderr
    assert texts_in(log_of(project)) == sorted(texts)
    names = names_in(log_of(project))
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert names_in(project.ledger_path) == names
    done = project.faber("verify", project.run_id)
    assert done.returncode == 0, done.stdout
    project.assert_projected()


# Two machines


def test_what_was_recorded_before_a_pull_and_never_committed_survives_it(project: Project, tmp_path: Path) -> None:
    other = clone_of(project, tmp_path / "clone")
    commit(other, "there")
    note(project, "not committed")
    project.git("stash", "-q")
    project.git("pull", "-q", "--ff-only", str(other.root), "work")
    project.deliver("PreCompact.auto.print")
    project.git("stash", "drop", "-q")
    assert_whole(project, "begin", "there", "not committed")


# One work tree


def test_without_log_and_file_a_run_goes_on_from_the_commit(project: Project) -> None:
    before = names_in(project.ledger_path)
    shutil.rmtree(log_of(project).parent)
    project.ledger_path.unlink()
    note(project, "two")
    assert names_in(project.ledger_path)[: len(before)] == before
    assert texts_in(log_of(project)) == ["begin", "two"]


def test_a_renamed_folder_of_a_run_has_its_log(project: Project) -> None:
    moved = project.run.with_name("renamed")
    project.run.rename(moved)
    project.deliver("PreCompact.auto.print")
    note(project, "meanwhile")
    moved.rename(project.run)
    assert_whole(project, "begin", "meanwhile")


def test_the_log_has_what_a_removed_work_tree_recorded(project: Project, tmp_path: Path) -> None:
    tree = Project(tmp_path / "tree", project.run_id)
    project.git("checkout", "-q", OTHER)
    project.git("worktree", "add", "-q", str(tree.root), "work")
    note(tree, "in the work tree")
    tree.deliver("PreCompact.auto.print")
    project.git("worktree", "remove", "--force", str(tree.root))
    project.git("checkout", "-q", "work")
    assert_whole(project, "begin", "in the work tree")


def test_a_copied_and_a_moved_clone_go_on_with_their_logs(project: Project, tmp_path: Path) -> None:
    copied = Project(tmp_path / "copied", project.run_id)
    shutil.copytree(project.root, copied.root, symlinks=True)
    note(project, "in the first")
    note(copied, "in the copy")
    assert_whole(copied, "begin", "in the copy")
    moved = Project(tmp_path / "moved", project.run_id)
    project.root.rename(moved.root)
    note(moved, "after it was moved")
    moved.git("commit", "-qam", "Moved")
    copied.git("commit", "-qam", "Copied")
    copied.git("pull", "-q", "--no-rebase", str(moved.root), "work")
    assert_whole(copied, "begin", "in the first", "in the copy", "after it was moved")
