"""What a worktree's removal, and a run's start, must never cost: through the installed command and real git."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.program import make_program
from support.project import Project
from support.sizes import few
from support.worktrees import begin_project, clean_up, finish_run, start_in_worktree


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A committed git project, set up, with the run of work item 258 active in it."""
    return begin_project(tmp_path / "project")


# An id is used once in a clone


@pytest.mark.parametrize("where", ["worktree", "branch", "log"])
def test_a_run_id_that_the_clone_uses_elsewhere_is_refused(project: Project, where: str) -> None:
    tree = start_in_worktree(project, "259")
    if where == "branch":
        finish_run(tree)
    if where != "worktree":
        project.git("worktree", "remove", "--force", str(tree.root))
    before = project.active_path.read_bytes()
    done = project.faber("run", "start", "--yes", "--work-id", "9", "--run-id", tree.run_id)
    assert done.returncode == 1
    named = {"worktree": str(tree.run), "branch": "refs/heads/feature/259", "log": "this clone's log"}
    assert f"the run {tree.run_id} exists already" in done.stderr
    assert named[where] in done.stderr
    assert not (project.root / ".fractary/runs" / tree.run_id).exists()
    assert project.active_path.read_bytes() == before


# Where no run can be


@pytest.mark.parametrize("arguments", [("run", "start", "--work-id", "1"), ("init",), ("init", "--git-only")])
def test_a_bare_repository_gets_no_run_and_no_files(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    bare = Project(tmp_path / "bare.git")
    bare.root.mkdir()
    bare.git("init", "--quiet", "--bare")
    before = sorted(path.name for path in bare.root.iterdir())
    done = bare.faber(*arguments)
    assert done.returncode == 1
    assert "this is a bare repository" in done.stderr
    assert sorted(path.name for path in bare.root.iterdir()) == before
    (bare.root / ".fractary").mkdir()
    done = bare.faber("doctor")
    assert (done.returncode, "bare repository" in done.stderr, "git init" in done.stdout) == (1, True, False)


# What else lies in its folder


def test_a_worktree_in_an_ignored_folder_of_another_keeps_that(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.write(".gitignore", "trees/\n")
    finish_run(tree)
    project.git("merge", "--quiet", "feature/259")
    inner = tree.root / "trees" / "deep" / "inner"
    project.git("worktree", "add", "--quiet", str(inner), "-b", "inner")
    (inner / "work.txt").write_text("nowhere else")
    for names in ([], ["project-issue-259"]):
        row = clean_up(project, *names)["project-issue-259"]
        assert (row["action"], row["why"]) == ("kept", [f"another worktree is in it: {inner}"])
    assert (inner / "work.txt").read_text() == "nowhere else"
    project.git("worktree", "remove", "--force", str(inner))
    assert clean_up(project)["project-issue-259"]["action"] == "removed"


def test_cleanup_names_the_ignored_files_that_go(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.write(".gitignore", ".env\n")
    finish_run(tree)
    project.git("merge", "--quiet", "feature/259")
    tree.write(".env", "SECRET=1")
    row = clean_up(project, "--dry-run")["project-issue-259"]
    assert (row["action"], row["why"][1:]) == ("would be removed", ["files that git ignores are removed with it: .env"])


# What goes wrong while a worktree is made


def test_a_hook_of_the_users_that_fails_does_not_stop_a_start(project: Project) -> None:
    make_program(project.root / ".git/hooks/post-checkout", "echo 'no linter' >&2\nexit 1")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert done.returncode == 0, done.stderr
    assert "no linter" in done.stderr
    assert project.root.with_name("project-issue-259").is_dir()


def test_a_worktree_that_git_cannot_fill_is_removed_with_its_branch(project: Project) -> None:
    project.write(".gitattributes", "*.txt filter=broken\n")
    project.write("a.txt", "a")
    project.commit("Filtered")
    project.git("config", "filter.broken.smudge", "false")
    project.git("config", "filter.broken.required", "true")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert (done.returncode, "`git worktree add` failed" in done.stderr) == (1, True)
    assert not project.root.with_name("project-issue-259").exists()
    assert project.git("branch", "--list", "feature/259") == ""


# What a cloned repository's links lead to


@pytest.mark.long
@pytest.mark.parametrize("name", few([".fractary", ".fractary/faber", ".fractary/runs"], 1))
def test_a_link_out_of_the_project_is_not_written_through(project: Project, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    link = project.root / name
    shutil.move(link, outside)
    link.symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    done = project.faber("run", "start", "--work-id", "260", "--yes")
    assert done.returncode == 1
    assert "leads out of" in done.stderr
    project.faber("init")
    project.faber("run", "resume", project.run_id)
    project.git("worktree", "add", "--quiet", "../other", "-b", "other")
    project.faber("worktree", "list")
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


# What is reported, and where
