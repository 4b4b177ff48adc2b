"""When the work tree's `ledger.db` and the blocks are written, and when events stay in the log (DECISIONS 51)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.folders import copy_prepared
from support.project import RUN, Project

START, END = "SessionStart.startup.print", "SessionEnd.other.print"
BRANCH = "feature/258"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run on its own branch, committed with a session, in a project whose remote is up to date."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project")


def prepare(folder: Path) -> None:
    project = Project.made(folder / "project")
    assert project.faber("init", "--git-only").returncode == 0
    project.git("add", "-A", "--", ".", ":!.fractary/runs")
    project.git("commit", "--quiet", "-m", "Set up")
    project.git("clone", "--quiet", "--bare", ".", "../remote.git")
    project.git("remote", "add", "origin", "../remote.git")
    project.git("fetch", "--quiet")
    project.git("remote", "set-head", "origin", "main")
    project.git("checkout", "--quiet", "-b", BRANCH)
    project.change_state(artifacts={"branch_name": BRANCH})
    project.deliver(START, client="first", pid="1")
    project.commit("Run")
    project.git("push", "--quiet", "--set-upstream", "origin", BRANCH)


def changed(project: Project) -> str:
    return project.git("status", "--porcelain", "--untracked-files=all")


def not_in_file(project: Project) -> int:
    return int(project.data("status", RUN)["not_in_file"])


def record(project: Project) -> None:
    """Start and end a session, as a client that is new here."""
    project.deliver(START, client="second", pid="2")
    project.deliver(END, client="second", pid="2")


def test_project_says_why_it_writes_nothing(project: Project) -> None:
    project.git("checkout", "--quiet", "-b", "other")
    record(project)
    done = project.faber("project", RUN)
    assert (done.returncode, changed(project)) == (0, "")
    assert "nothing is written, because the branch other is not the run's; `faber-ledger seal" in done.stdout
    assert project.faber("seal", RUN).returncode == 0
    assert "already shows what the log says" in project.faber("project", RUN).stdout


def test_a_colleagues_branch_stays_clean_until_the_run_is_taken_up(project: Project, tmp_path: Path) -> None:
    project.git("clone", "--quiet", "--branch", BRANCH, str(tmp_path / "remote.git"), str(tmp_path / "theirs"))
    theirs = Project(tmp_path / "theirs", RUN, "their-machine")
    reviewer = {"GIT_AUTHOR_EMAIL": "dev@REVIEWER"}
    theirs.said("reconstitute", RUN, "--only", "notes")  # which is recorded, and nothing to publish
    assert (not_in_file(theirs), theirs.said("verify", RUN)) == (0, f"{RUN}: sound\n")
    packet = theirs.deliver(START, client="reviewer", pid="9", env=reviewer).packet or ""
    assert f"# FABER run {RUN}" in packet
    assert "last committed by dev@AUTHOR. " in packet
    own = theirs.deliver(START, client="author", pid="8").packet or ""
    assert "last committed by" not in own
    assert 0 < packet.find(f"first run `faber-ledger run resume {RUN}`: your commits ") < packet.index("Phase: ")
    assert (changed(theirs), not_in_file(theirs) > 0) == ("", True)
    done = theirs.faber("verify", RUN)
    assert (done.returncode, "has not taken the run up" in done.stdout) == (0, True)
    assert theirs.faber("run", "resume", RUN).returncode == 0
    theirs.deliver(END, client="reviewer", pid="9")
    assert (not_in_file(theirs), "ledger.db" in changed(theirs)) == (0, True)


def test_a_client_changes_no_file_after_a_checkout_of_main(project: Project) -> None:
    project.git("merge", "--quiet", "--no-ff", "-m", "Merge", "main")
    project.git("checkout", "--quiet", "-b", "other")
    project.deliver(END, client="first", pid="1")
    assert (changed(project), not_in_file(project) > 0) == ("", True)
    assert "the branch other is not the run's" in project.faber("verify", RUN).stdout
    project.git("checkout", "--quiet", BRANCH)
    record(project)
    assert not_in_file(project) == 0


def test_an_event_that_was_recorded_elsewhere_is_one(project: Project) -> None:
    project.git("checkout", "--quiet", "-b", "other")
    assert project.faber("note", "alone").returncode == 0
    project.git("checkout", "--quiet", BRANCH)
    said = project.said("verify", RUN)
    assert "1 event of the log is not in .fractary" in said
    assert "ledger.db: it was recorded elsewhere in this clone" in said


def test_what_git_stash_took_away_is_one_finding(project: Project) -> None:
    record(project)
    project.git("stash", "--quiet")
    done = project.faber("verify", RUN)
    assert (done.returncode, done.stdout.count("hint: ")) == (20, 1)
    assert " of this clone's log, and state.json differs from the log\n" in done.stdout
    assert f"`faber-ledger project {RUN}`, which writes both again" in done.stdout
    assert project.faber("project", RUN).returncode == 0
    assert project.said("verify", RUN) == f"{RUN}: sound\n"


def test_a_detached_head_is_no_other_branch(project: Project) -> None:
    project.git("checkout", "--quiet", "--detach")
    record(project)
    assert not_in_file(project) == 0


def test_a_run_that_is_completed_is_published_until_it_is_committed(project: Project) -> None:
    project.change_state(status="completed", completed_at="2026-01-05T18:00:00Z")
    project.deliver(END, client="first", pid="1")
    assert not_in_file(project) == 0


def test_the_last_end_leaves_a_clean_tree_until_seal(project: Project) -> None:
    project.change_state(status="completed", completed_at="2026-01-05T18:00:00Z")
    project.commit("Complete")
    project.deliver(END, client="first", pid="1")
    assert project.faber("session-load", "--force").returncode == 0
    assert (changed(project), not_in_file(project) > 0) == ("", True)
    assert project.said("verify", RUN) == f"{RUN}: sound\n"
    assert "ledger.db" not in project.said("status", RUN)
    project.git("checkout", "--quiet", "main")
    assert project.said("verify", RUN) == f"{RUN}: sound\n"  # nobody wants a finished run's files here
    project.git("merge", "--quiet", BRANCH)
    assert project.said("verify", RUN) == f"{RUN}: sound\n"  # on main as on the run's branch
    project.git("checkout", "--quiet", BRANCH)
    assert project.faber("seal", RUN).returncode == 0
    assert (not_in_file(project), "M  .fractary" in changed(project)) == (0, True)


@pytest.mark.parametrize("is_clone", [True, False])
def test_a_squashed_run_is_not_published_once_the_clone_knows(project: Project, tmp_path: Path, is_clone: bool) -> None:
    if not is_clone:  # `git init` and `git remote add` know no default branch of the remote
        project.git("remote", "set-head", "origin", "--delete")
    project.git("clone", "--quiet", str(tmp_path / "remote.git"), str(tmp_path / "site"))
    site = Project(tmp_path / "site")
    site.git("merge", "--quiet", "--squash", f"origin/{BRANCH}")
    site.git("commit", "--quiet", "-m", "Pull request")
    site.git("push", "--quiet", "origin", "main")
    record(project)
    assert not_in_file(project) == 0
    project.git("checkout", "--quiet", "--", ".")
    project.git("fetch", "--quiet")
    record(project)
    assert (changed(project), not_in_file(project) > 0) == ("", True)
    assert "the run is merged" in project.faber("verify", RUN).stdout
    project.git("merge", "--quiet", "origin/main")
    record(project)
    assert not_in_file(project) == 0
    project.git("stash", "--quiet")
    project.git("reset", "--quiet", "--hard", "HEAD~1")  # the merge never was
    record(project)
    assert changed(project) == ""


@pytest.mark.parametrize("picked", ["HEAD~1", "HEAD"])
def test_a_branch_of_which_one_commit_was_picked_is_not_merged(project: Project, picked: str) -> None:
    for name in ("fix.py", "more.py"):
        record(project)
        project.write(name, "x = 1\n")
        project.commit(name)
    commit = project.git("rev-parse", picked).strip()
    project.git("checkout", "--quiet", "main")
    project.git("cherry-pick", commit, code=1)
    assert project.faber("resolve").returncode == 0
    project.git("-c", "core.editor=true", "cherry-pick", "--continue")
    project.git("push", "--quiet", "origin", "main")
    project.git("checkout", "--quiet", BRANCH)
    record(project)
    assert not_in_file(project) == 0


def test_a_run_on_main_alone_needs_no_command(tmp_path: Path) -> None:
    alone = Project.made(tmp_path / "alone")
    record(alone)
    assert not_in_file(alone) == 0
    alone.commit("Run")
    record(alone)
    assert not_in_file(alone) == 0


def test_only_this_work_trees_index_says_that_git_commits_here(project: Project, tmp_path: Path) -> None:
    (project.root / ".git/index.lock").touch()
    for index, is_published in ((tmp_path / "blog/.git/index", False), (project.root / ".git/index", True)):
        project.deliver(START, client="second", pid="2", env={"GIT_INDEX_FILE": str(index)})
        assert (not_in_file(project) == 0) == is_published
