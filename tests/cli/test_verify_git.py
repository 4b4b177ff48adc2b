"""`verify --git` compares a log with the copies in git and in this clone, and claims no more than they show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.forging import forge
from support.project import Project

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run of three committed versions in a clone with a mirror."""
    project = Project.made(tmp_path / "project")
    for number in range(3):
        project.deliver((START, END)[number % 2], client="one", pid="1")
        project.git("add", "--all", "--", ".fractary")
        project.git("commit", "-m", f"Version {number}")
    return project


def without(project: Project, where: str) -> None:
    """Remove events from the log, past its triggers, and correct its heads."""
    forge(
        project.ledger_path,
        f"DELETE FROM event WHERE {where}",
        "DELETE FROM head",
        "INSERT INTO head SELECT hash, seq FROM event ORDER BY seq DESC LIMIT 1",
    )


def forget(project: Project) -> None:
    shutil.rmtree(project.root / ".git" / "faber-ledger" / "runs")


def test_an_event_cut_off_the_end_is_missed(project: Project) -> None:
    count = len(project.events)
    forget(project)
    without(project, f"seq = {count}")
    project.faber("project")
    forget(project)
    assert project.faber("verify").returncode == 0  # nothing in the file shows it
    done = project.faber("verify", "--git", "--json")
    assert done.returncode == 20
    (found,) = json.loads(done.stdout)["data"]["runs"]
    assert [item["kind"] for item in found["findings"]] == ["missing_event"]
    assert found["anchors"] == ["3 versions in the history of HEAD"]


def test_versions_of_the_other_layout_and_merges_count(project: Project) -> None:
    project.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    project.git("mv", ".fractary/runs", ".fractary/faber/runs")
    project.git("commit", "-m", "Moved")
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "-s", "ours", "--no-edit", "side")
    done = project.faber("verify", "--git")
    assert done.returncode == 0
    assert "3 versions in the history" in done.stdout


def test_a_torn_version_is_named_and_not_counted(project: Project) -> None:
    whole = project.ledger_path.read_bytes()
    project.ledger_path.write_bytes(whole[:9000])
    project.git("commit", "--all", "-m", "Torn")
    torn = project.git("rev-parse", "--short=12", "HEAD")
    project.ledger_path.write_bytes(whole)
    done = project.faber("verify", "--git")
    assert done.returncode == 0, done.stdout
    assert f"commit {torn} is not counted" in done.stdout
    assert "3 versions in" in done.stdout


def test_what_upstream_has_beyond_head_is_not_lost_but_not_pulled(project: Project, tmp_path: Path) -> None:
    clone = project.clone(tmp_path / "clone", "desktop")
    project.deliver(END, client="one", pid="1")
    project.git("commit", "--all", "-m", "Ahead")
    clone.git("fetch", "--quiet")
    done = clone.faber("verify", "--git")
    assert done.returncode == 0, done.stdout
    assert "note: event" not in done.stderr
    assert "is not here yet" in done.stdout
    assert done.stdout.endswith("; 1 version in origin/main, as last fetched, beyond HEAD\n")


def test_an_event_of_this_clone_that_only_upstream_has_is_reported_missing(project: Project, tmp_path: Path) -> None:
    project.git("init", "--bare", "--quiet", str(tmp_path / "remote.git"))
    project.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    project.git("push", "--quiet", "--set-upstream", "origin", "main")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    forget(project)
    done = project.faber("verify", "--git")
    assert done.returncode == 20
    assert "missing_event" in done.stdout


def test_of_a_sound_run_it_says_that_nothing_is_missing(project: Project, tmp_path: Path) -> None:
    """And nothing of places that have no version."""
    clone = project.clone(tmp_path / "clone", "desktop")
    done = clone.faber("verify", "--git")
    compared = "compared with 3 versions in the history of HEAD: nothing there is missing here"
    assert done.stdout.splitlines()[-1].endswith(f": {compared}")


def test_without_git_it_says_that_nothing_shows_what_is_missing(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    done = project.faber("verify", "--git")
    assert done.returncode == 0
    assert "missing events cannot be detected" in done.stdout


def test_a_run_of_another_branch_is_compared_with_that_branch(project: Project) -> None:
    count = len(project.events)
    project.git("switch", "--quiet", "--orphan", "empty")
    branches = "3 versions in the history of other branches, as last fetched"
    assert f"compared with {branches}: nothing there is missing here\n" in project.said(
        "verify", "--git", project.run_id
    )
    forge(
        project.clones_log,
        f"DELETE FROM event WHERE seq = {count}",
        "DELETE FROM head",
        "INSERT INTO head SELECT hash, seq FROM event ORDER BY seq DESC LIMIT 1",
    )
    assert "missing_event: event " in project.said("verify", "--git", project.run_id, code=20)


def test_what_another_branch_has_of_another_clone_is_a_note(project: Project, tmp_path: Path) -> None:
    desktop = project.clone(tmp_path / "desktop", "desktop")
    desktop.said("log")
    project.said("note", "add", "later")
    project.commit()
    desktop.git("switch", "--quiet", "--orphan", "empty")
    desktop.git("fetch", "--quiet")
    said = desktop.said("verify", "--git", project.run_id)
    assert ": note: event " in said
    assert "\n  hint: they are on `main` (`git switch main`)\n" in said
    assert "is not here yet" in said
    assert "nothing there is missing" not in said
