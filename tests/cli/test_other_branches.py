"""A run that another branch has, here or at the remote, is named with the command that leads to it."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from support.folders import copy_prepared
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path


class Desk(Project):
    """A second machine's clone, on the main branch; `runs` are those of the work items 1 and 2, by their branches."""

    @property
    def runs(self) -> dict[str, str]:
        listed = self.git("log", "--all", "--format=", "--name-only", "--", ".fractary/runs/*/state.json").splitlines()
        names = [path.split("/")[2] for path in set(listed)]
        return {name.split("-")[1]: name for name in names}

    def way(self, work_id: str, command: str = "") -> str:
        """Return how a run of the other machine is named."""
        branch = f"feature/{work_id}"
        way = command or f"git switch {branch}"
        return f"{self.runs[work_id]} (work item {work_id}) on origin/{branch}: `{way}`"


def prepare(folder: Path) -> None:
    laptop = Project.fresh(folder / "laptop")
    laptop.faber("init", "--git-only")
    laptop.commit("init")
    for work_id in ("1", "2"):
        laptop.git("switch", "--quiet", "--create", f"feature/{work_id}", "main")
        laptop.start_run(work_id, "--yes")
        laptop.commit(f"start {work_id}")
    laptop.git("switch", "--quiet", "main")


@pytest.fixture
def laptop(tmp_path: Path) -> Project:
    """A project whose main has no run; two branches have one each."""
    copy_prepared(prepare, tmp_path / "machines")
    return Project(tmp_path / "machines" / "laptop")


@pytest.fixture
def desktop(laptop: Project) -> Desk:
    return clone(laptop)


def clone(laptop: Project) -> Desk:
    desktop = Desk(laptop.root.parent / "desktop", hostname="desktop")
    laptop.git("clone", "--quiet", ".", str(desktop.root))
    desktop.faber("init", "--git-only")
    return desktop


def work_and_leave(desktop: Desk, work_id: str) -> None:
    """Work on a run on its branch, and go back to main, which has not its files."""
    desktop.git("switch", "--quiet", f"feature/{work_id}")
    desktop.said("run", "resume", "--work-id", work_id)
    desktop.said("note", "add", "resumed")
    desktop.commit("resumed")
    desktop.git("switch", "--quiet", "main")


def start_here(project: Project) -> str:
    """Start a run as the branch's first one, and finish it."""
    run_id = project.start_run("9")
    Project(project.root, run_id).change_state(status="completed")
    project.commit("nine")
    return run_id


@pytest.mark.parametrize("has_finished", [False, True])
def test_where_no_run_is_at_work_those_of_the_branches_are_named(desktop: Desk, has_finished: bool) -> None:
    finished = start_here(desktop) if has_finished else ""
    if has_finished:
        desktop.active_path.unlink()
    one, two = desktop.way("1"), desktop.way("2")
    *before, head, first, second = desktop.said("run", "list").splitlines()
    assert (head, {first, second}) == ("runs of other branches:", {f"  {one}", f"  {two}"})
    assert (finished in "".join(before), "no runs yet" in before) == (True, False)
    newest_first = "; ".join([first.strip(), second.strip()])
    for command in ("status", "log"):
        assert desktop.said(command, code=10).endswith(f"\n\nhint: other branches have runs: {newest_first}\n")
    assert desktop.said("run", "list", "--work-id", "2") == f"runs of other branches:\n  {two}\n"
    assert desktop.said("run", "list", "--work-id", "3") == "no run matches\n"
    assert desktop.said("run", "list", "--failed") == "no run matches\n"


@pytest.mark.parametrize("command", ["run resume", "session-load", "status"])
def test_the_branch_of_a_work_item_or_a_run_is_named(desktop: Desk, command: str) -> None:
    hint = f"\n\nhint: another branch has a run: {desktop.way('2')}\n"
    code = 1 if command == "session-load" else 10
    assert desktop.said(*command.split(), "--work-id", "2", code=code).endswith(hint)
    run = desktop.runs["2"]
    for name in (run, run[:-2]):
        said = desktop.said(*command.split(), "--run-id", name, code=code)
        if command != "session-load":  # which prints the documents' error
            assert said == f"error: there is no run {name}{hint}"
    desktop.git("switch", "--quiet", "feature/2")
    assert f"✓ Workflow resumed: {run}\n" in desktop.said("run", "resume", "--work-id", "2")
    assert desktop.said("run", "list").splitlines()[-1].startswith(f"* {run}  ")


def test_no_server_is_named_where_none_was_joined(desktop: Desk) -> None:
    assert "server" not in desktop.said("run", "resume", "--work-id", "7", code=10)


def test_a_run_that_this_clone_keeps_is_not_left_out(desktop: Desk) -> None:
    """`run list` shows it, and those of the branches."""
    work_and_leave(desktop, "2")
    desktop.active_path.unlink()
    listed = desktop.said("run", "list")
    assert f"\n~ {desktop.runs['2']}  " in listed
    assert "\n~ not in this work tree, but on its branch\n" in listed
    assert listed.endswith(f"\nruns of other branches:\n  {desktop.way('1')}\n")
    said = desktop.said("session-load", "--work-id", "7", code=1)
    assert "run `faber-ledger run list` to see the runs of this clone" in said


def test_a_kept_run_is_not_projected_over_the_files_of_its_branch(desktop: Desk) -> None:
    """Git would refuse to switch to the branch."""
    work_and_leave(desktop, "2")
    hint = "\n\nhint: they are on `feature/2` (`git switch feature/2`)\n"
    for options in ([], ["--rebuild"], ["--restore"]):
        assert desktop.said("project", desktop.runs["2"], *options, code=10).endswith(hint)
    desktop.git("switch", "--quiet", "feature/2")
    shutil.rmtree(desktop.root / ".fractary/runs" / desktop.runs["2"])
    assert "state.json restored from this clone's copy" in desktop.said("project", desktop.runs["2"])


def test_run_start_names_the_unfinished_run_of_another_branch(desktop: Desk) -> None:
    way = desktop.way("1")
    assert f"\n  An unfinished run of this work item is {way}\n" in desktop.said("run", "start", "--work-id", "1")
    assert "unfinished run" not in desktop.said("run", "start", "--work-id", "3", "--yes")


def test_a_branch_that_began_at_another_runs_is_not_that_runs(laptop: Project) -> None:
    laptop.git("switch", "--quiet", "--create", "feature/3", "feature/1")
    laptop.start_run("3", "--yes")
    laptop.commit("start 3")
    laptop.git("switch", "--quiet", "main")
    said = clone(laptop).said("run", "list")
    assert "(work item 1) on origin/feature/1: `git switch feature/1`\n" in said
    assert "(work item 3) on origin/feature/3: `git switch feature/3`\n" in said


def test_a_run_that_is_finished_at_the_remote_is_not_at_work(laptop: Project, desktop: Desk) -> None:
    desktop.git("switch", "--quiet", "--create", "other")
    laptop.git("merge", "--quiet", "feature/1")
    Project(laptop.root, desktop.runs["1"]).change_state(status="completed")
    laptop.commit("finish 1")
    desktop.git("fetch", "--quiet")
    assert desktop.said("run", "list") == f"runs of other branches:\n  {desktop.way('2')}\n"
    said = desktop.said("run", "resume", "--work-id", "1", code=10)
    assert f"{desktop.runs['1']} (work item 1, completed) on origin/main: `git switch main`\n" in said
    desktop.git("switch", "--quiet", "main")
    assert "(work item 1, completed) on origin/main: `git pull`\n" in desktop.said("status", "--work-id", "1", code=10)


def test_a_branch_that_another_work_tree_has_is_worked_on_there(desktop: Desk) -> None:
    desktop.git("worktree", "add", "--quiet", "../two", "feature/2")
    way = desktop.way("2", "cd ../two").replace("origin/", "")
    assert way in desktop.said("status", code=10)


def test_of_many_runs_a_few_are_named(laptop: Project) -> None:
    for work_id in ("3", "4", "5"):
        laptop.git("switch", "--quiet", "--create", f"feature/{work_id}", "main")
        laptop.start_run(work_id, "--yes")
        laptop.commit(f"start {work_id}")
    laptop.git("switch", "--quiet", "main")
    desktop = clone(laptop)
    assert desktop.said("status", code=10).endswith("; 2 more\n")
    assert len(desktop.said("run", "list").splitlines()) == 6


def test_a_project_in_a_folder_and_a_branch_without_a_commit(tmp_path: Path) -> None:
    top = tmp_path / "top"
    shop = Project(top / "shop")
    shop.root.mkdir(parents=True)
    shop.git("init", "--quiet", "--initial-branch=feature/1", "..")
    shop.write(".fractary/faber/x", "")
    shop.start_run("1")
    shop.commit("start 1")
    shop.git("switch", "--quiet", "--orphan", "main")
    shop.write(".fractary/faber/x", "")
    (top / ".git/faber-ledger").rename(tmp_path / "away")  # as in a clone
    assert "(work item 1) on feature/1: `git switch feature/1`\n" in shop.said("run", "list")


def test_a_kept_run_that_was_merged_elsewhere_is_pulled(laptop: Project, desktop: Desk) -> None:
    work_and_leave(desktop, "1")
    assert f"work tree does not have the files of {desktop.runs['1']}: they are on `feature/1`" in desktop.said(
        "status"
    )
    laptop.git("merge", "--quiet", "feature/1")
    Project(laptop.root, desktop.runs["1"]).change_state(status="completed")
    laptop.commit("finish 1")
    desktop.git("fetch", "--quiet")
    said = desktop.said("status")
    assert "\nIn git: origin/main has a newer version: `git pull`\n" in said
    assert "does not have the files" not in said


def test_a_kept_run_that_was_finished_and_merged_elsewhere_is_listed_as_done(laptop: Project, desktop: Desk) -> None:
    for work_id in ("1", "2"):
        work_and_leave(desktop, work_id)
    one, two = desktop.runs["1"], desktop.runs["2"]
    assert re.search(rf"^~ {one} .* at work$", desktop.said("run", "list"), re.MULTILINE)
    laptop.git("merge", "--quiet", "feature/1")
    Project(laptop.root, one).change_state(status="completed")
    laptop.commit("finish 1")
    desktop.git("fetch", "--quiet")
    listed = desktop.said("run", "list")
    assert re.search(rf"^  {one} .* done$", listed, re.MULTILINE)
    assert re.search(rf"^\* {two} .* at work$", listed, re.MULTILINE)
    assert one not in desktop.said("run", "list", "--status", "in_progress")
    start_here(desktop)
    assert "\nThis clone knows 1 other run at work: `faber-ledger run list`\n" in desktop.said("status")


def test_a_finished_run_says_that_others_are_at_work(desktop: Desk) -> None:
    run = start_here(desktop)
    assert "\nThis clone knows 2 other runs at work: `faber-ledger run list`\n" in desktop.said("status")
    assert "at work" not in desktop.said("status", run)


@pytest.fixture
def older(laptop: Project, desktop: Desk) -> Desk:
    """A clone that has read the finished, merged run 1 on main, on a branch that is older than the merge."""
    desktop.git("switch", "--quiet", "--create", "feature/3")
    laptop.git("switch", "--quiet", "feature/1")
    run = Project(laptop.root, desktop.runs["1"])
    run.change_state(status="completed", updated_at="2030-01-01T00:00:00Z")
    laptop.commit("finish 1")
    laptop.git("switch", "--quiet", "main")
    laptop.git("merge", "--quiet", "feature/1")
    laptop.git("branch", "--quiet", "--delete", "feature/1")
    desktop.git("switch", "--quiet", "main")
    desktop.git("pull", "--quiet", "--prune")
    return desktop


@pytest.mark.parametrize("read", ["run list", "log --work-id 1", "status --work-id 1"])
def test_a_finished_run_stays_finished_on_a_branch_that_lacks_it(older: Desk, read: str) -> None:
    run = older.runs["1"]
    older.said(*read.split())
    older.git("switch", "--quiet", "feature/3")
    assert re.search(rf"^  {run} .* done$", older.said("run", "list"), re.MULTILINE)
    assert "\nStatus: completed\n" in older.said("status", run)
    three = older.start_run("3")
    assert "Workflow already completed - nothing to resume" in older.said("run", "resume", run)
    assert older.git("status", "--short", "--untracked-files=all", "--", f":!*{three}*") == ""


def test_a_finished_run_that_goes_on_again_is_at_work_whoever_wrote_it(desktop: Desk) -> None:
    """A tool may change the status alone."""
    run = start_here(desktop)
    assert re.search(rf"^\* {run} .* done$", desktop.said("run", "list"), re.MULTILINE)
    Project(desktop.root, run).change_state(status="failed")
    assert re.search(rf"^\* {run} .* failed$", desktop.said("run", "list"), re.MULTILINE)
    assert "\nStatus: failed\n" in desktop.said("status", run)


def test_a_branch_with_an_older_state_does_not_undo_what_is_known(older: Desk) -> None:
    older.said("run", "list")
    older.git("switch", "--quiet", "--detach", "HEAD^")
    assert " done\n" in older.said("run", "list")
    older.git("switch", "--quiet", "feature/3")
    assert " done\n" in older.said("run", "list")


def test_the_default_branch_has_the_files_of_a_merged_run(older: Desk) -> None:
    run = older.runs["1"]
    older.said("run", "list")
    older.git("switch", "--quiet", "feature/3")
    (older.root / ".git/faber-ledger/runs" / run / "state.json").unlink()
    there = "they are on `main` (`git switch main`)\n"
    assert re.search(rf"^  {run} +1 .* done$", older.said("run", "list"), re.MULTILINE)
    older.start_run("3")
    for command, code in (("status", 1), ("run resume", 10)):
        assert older.said(*command.split(), run, code=code).endswith(f"hint: {there}"), command
    older.git("update-ref", "refs/heads/main", "feature/3")
    assert "hint: they are on `main` (`git switch main`, `git pull`)\n" in older.said("status", run, code=1)
