"""`status` says in one line what of a run is not committed, not pushed and not fetched, and nothing if all is in."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clones import LEDGER, RUN, STATE, Clone
from support.command import COMMAND

AGO = re.compile(r"last fetch (just now|\d+ \w+ ago)")
SEAL = "`faber-ledger seal && git commit"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone whose run is committed and pushed to a bare repository."""
    made = Clone.first(tmp_path / "laptop")
    made.git("init", "-q", "--bare", "-b", "main", "../origin")
    made.git("remote", "add", "origin", "../origin")
    made.git("push", "-qu", "origin", "main")
    return made


def second(clone: Clone, *options: str, name: str = "desktop") -> Clone:
    """Clone the bare repository, as on another machine."""
    clone.git("clone", "-q", *options, f"file://{clone.root.parent}/origin", f"../{name}")
    made = Clone(clone.root.parent / name)
    made.faber("init", "--git-only")
    made.name_run()
    return made


def line_of(clone: Clone, *command: str, begin: str = "In git: ") -> str | None:
    """Return the line of `status` that begins so, the age of the last fetch replaced; None if there is none."""
    lines = [line for line in clone.faber("status", *command).stdout.splitlines() if line.startswith(begin)]
    assert len(lines) < 2
    return AGO.sub("last fetch AGO", lines[0].removeprefix(begin)) if lines else None


def data_of(clone: Clone, *command: str) -> dict[str, Any]:
    found = json.loads(clone.faber("status", *command, "--json").stdout)["data"]["in_git"]
    assert isinstance(found, dict)
    return found


def events_in(clone: Clone, revision: str) -> int:
    """Count a committed ledger's events with SQLite alone."""
    copy = clone.root.parent / "committed.db"
    copy.write_bytes(b"")
    clone.call("sh", "-c", f"git cat-file blob {revision}:{LEDGER} > {copy}")
    with sqlite3.connect(copy) as connection:
        (count,) = connection.execute("SELECT count(*) FROM event").fetchone()
    connection.close()
    return int(count)


def test_nothing_is_said_if_all_is_in(clone: Clone) -> None:
    assert line_of(clone) is None
    count = len(clone.ids())
    assert data_of(clone) == {
        "events": count,
        "committed": count,
        "pushed": count,
        "to_pull": 0,
        "is_tracked": True,
        "state_committed": True,
        "state_pushed": True,
        "branch": "main",
        "upstream": "origin/main",
        "fetched_at": None,
    }


def test_events_that_are_not_committed_are_counted(clone: Clone) -> None:
    before = events_in(clone, "HEAD")
    clone.record("second")
    count = len(clone.ids())
    assert before < count
    said = f"{before} of {count} events committed, {before} pushed"
    assert line_of(clone) == f"{said}, none to pull (no fetch since the clone): {SEAL} && git push`"
    assert (data_of(clone)["committed"], data_of(clone)["pushed"]) == (before, before)


def test_the_commands_of_the_line_bring_all_in(clone: Clone) -> None:
    clone.record("second")
    command = (line_of(clone) or "").partition("`")[2].removesuffix("`").replace("git commit", "git commit -qm x")
    done = clone.call("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert line_of(clone) is None
    assert events_in(clone, "origin/main") == len(clone.ids())


def test_what_is_committed_and_not_pushed(clone: Clone) -> None:
    before = events_in(clone, "HEAD")
    clone.advance("second")
    count = len(clone.ids())
    said = f"{count} of {count} events committed, {before} pushed"
    assert line_of(clone) == f"{said}, none to pull (no fetch since the clone): `git push`"
    clone.git("push", "-q")
    assert line_of(clone) is None


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_state_that_other_tools_changed(clone: Clone, is_committed: bool) -> None:
    clone.change(current_phase="evaluate")
    count = len(clone.ids())
    if is_committed:
        clone.commit("evaluate")
        said, command = f"{count} of {count} events committed, {count} pushed, state.json is not", "`git push`"
    else:
        said = f"{count} of {count} events committed, state.json is not, {count} pushed"
        command = f"{SEAL} && git push`"
    assert line_of(clone) == f"{said}, none to pull (no fetch since the clone): {command}"
    assert data_of(clone)["state_committed"] is is_committed
    assert data_of(clone)["state_pushed"] is (not is_committed)


def test_a_new_run_is_untracked(clone: Clone) -> None:
    clone.faber("run", "start", "--work-id", "9", "--run-id", "nine", "--yes")
    count = data_of(clone)["events"]
    said = f"0 of {count} events committed (the run is untracked, and `git commit -a` leaves it out), 0 pushed"
    assert line_of(clone) == f"{said}, none to pull (no fetch since the clone): {SEAL} && git push`"
    assert data_of(clone)["is_tracked"] is False
    assert line_of(clone, RUN) is None


def test_a_run_that_is_not_active_is_sealed_by_its_name(clone: Clone) -> None:
    clone.faber("run", "start", "--work-id", "9", "--run-id", "nine", "--yes")
    clone.commit("nine")
    clone.git("push", "-q")
    clone.change(current_phase="evaluate")
    assert f"`faber-ledger seal {RUN} && git commit && git push`" in (line_of(clone, RUN) or "")


def test_a_staged_run_is_not_committed(clone: Clone) -> None:
    clone.faber("run", "start", "--work-id", "9", "--run-id", "nine", "--yes")
    clone.faber("seal")
    assert (line_of(clone) or "").startswith(f"0 of {data_of(clone)['events']} events committed, 0 pushed")
    assert data_of(clone)["is_tracked"] is True


def test_without_a_remote_nothing_is_said_of_pushing(tmp_path: Path) -> None:
    clone = Clone.first(tmp_path / "laptop")
    assert line_of(clone) is None
    before = len(clone.ids())
    clone.record("second")
    said = f"{before} of {len(clone.ids())} events committed"
    assert line_of(clone) == f"{said}: {SEAL}`"
    assert data_of(clone)["pushed"] is None


def test_a_remote_to_which_nothing_was_pushed_yet(tmp_path: Path) -> None:
    clone = Clone.first(tmp_path / "laptop")
    clone.git("init", "-q", "--bare", "-b", "main", "../origin")
    clone.git("remote", "add", "origin", "../origin")
    count = len(clone.ids())
    assert line_of(clone) == f"{count} of {count} events committed, 0 pushed: `git push -u origin main`"
    clone.git("push", "-qu", "origin", "main")
    assert line_of(clone) is None


def test_a_branch_without_an_upstream_has_pushed_what_the_default_branch_has(clone: Clone) -> None:
    before = len(clone.ids())
    clone.git("checkout", "-qb", "feature/258")
    assert line_of(clone) is None
    clone.advance("second")
    count = len(clone.ids())
    said = f"{count} of {count} events committed, {before} pushed"
    assert line_of(clone) == f"{said}: `git push -u origin feature/258`"
    clone.git("push", "-q", "origin", "feature/258")
    assert line_of(clone) is None


def test_a_branch_that_follows_the_default_branch_is_pushed_to_its_own(clone: Clone) -> None:
    clone.git("checkout", "-qb", "feature", "origin/main")
    clone.advance("second")
    assert (line_of(clone) or "").endswith(": `git push -u origin feature`")
    clone.git("push", "-q", "origin", "feature")
    assert line_of(clone) is None


def test_a_branch_that_was_squashed_into_main_and_deleted_is_pushed(clone: Clone) -> None:
    clone.git("checkout", "-qb", "feature")
    clone.advance("second")
    clone.git("push", "-qu", "origin", "feature")
    other = second(clone)
    other.git("merge", "-q", "--squash", "origin/feature")
    other.git("commit", "-qm", "squashed")
    other.git("push", "-q", "origin", "main", ":feature")
    clone.git("fetch", "-q", "--prune")
    assert line_of(clone) is None


def test_what_another_machine_pushed_is_to_pull(clone: Clone) -> None:
    other = second(clone)
    other.advance("at-work")
    other.git("push", "-q")
    assert line_of(clone) is None  # nothing of it is here yet
    clone.git("fetch", "-q")
    count, more = len(clone.ids()), len(other.ids() - clone.ids())
    said = f"{count} of {count} events committed, {count} pushed, {more} to pull from origin/main"
    assert line_of(clone) == f"{said}: `git pull`"
    clone.record("at-home")
    assert f", {more} to pull from origin/main: {SEAL} && git pull && git push`" in (line_of(clone) or "")
    clone.faber("seal")
    clone.git("commit", "-qm", "at home")
    clone.git("pull", "-q", "--no-rebase")
    clone.git("push", "-q")
    clone.faber("project")
    assert "to pull" not in (line_of(clone) or "").replace("none to pull", "")


def test_the_age_of_the_last_fetch(clone: Clone) -> None:
    clone.git("fetch", "-q")
    clone.record("second")
    assert "none to pull (last fetch AGO)" in (line_of(clone) or "")
    fetched = clone.root / ".git" / "FETCH_HEAD"
    os.utime(fetched, (time.time() - 7200, time.time() - 7200))
    assert "(last fetch 2 hours ago)" in clone.faber("status").stdout
    clone.call("git", "fetch", "-q", "../nowhere")
    assert fetched.stat().st_size == 0
    assert "no fetch since the clone" in (line_of(clone) or "")  # one that failed does not count


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_old_fetch_is_worth_a_line_where_other_machines_work_on_the_run(clone: Clone, is_shared: bool) -> None:
    if is_shared:
        other = second(clone)
        other.advance("at-work")
        other.git("push", "-q")
    clone.git("pull", "-q")
    fetched = clone.root / ".git" / "FETCH_HEAD"
    assert line_of(clone) is None
    os.utime(fetched, (time.time() - 86400 * 3, time.time() - 86400 * 3))
    count = len(clone.ids())
    said = f"{count} of {count} events committed, {count} pushed, none to pull (last fetch AGO): `git fetch`"
    assert line_of(clone) == (said if is_shared else None)


def test_a_detached_head(clone: Clone) -> None:
    clone.git("checkout", "-q", "--detach")
    assert line_of(clone) is None
    before = len(clone.ids())
    clone.record("second")
    said = f"{before} of {len(clone.ids())} events committed, {before} pushed"
    commands = f"`git switch -c BRANCH && {SEAL[1:]} && git push -u origin BRANCH`"
    assert line_of(clone) == f"{said}, no branch is checked out: {commands}"
    assert data_of(clone)["branch"] is None


def test_commits_on_no_branch_are_not_pushed(clone: Clone) -> None:
    before = len(clone.ids())
    clone.git("checkout", "-q", "--detach")
    clone.advance("second")
    count = len(clone.ids())
    said = f"{count} of {count} events committed, {before} pushed, no branch is checked out"
    assert line_of(clone) == f"{said}: `git switch -c BRANCH && git push -u origin BRANCH`"
    clone.git("checkout", "-q", "main")
    clone.advance("third")
    clone.git("checkout", "-q", "--detach", "HEAD~1")
    clone.record("fourth")
    assert clone.call("git", "switch", "main").returncode  # git refuses it over the changed ledger
    command = (line_of(clone) or "").partition("`")[2].removesuffix("`")
    command = command.replace("git commit", "git commit -qm x").replace("BRANCH", "found")
    done = clone.call("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert (line_of(clone), data_of(clone)["branch"]) == (None, "found")


def test_a_pushed_commit_is_found_however_many_branches_are_newer(clone: Clone) -> None:
    clone.git("checkout", "-q", "-b", "older")
    clone.advance("second")
    clone.git("push", "-q", "origin", "older")
    clone.git("checkout", "-q", "main")
    for number in range(25):
        date = f"{2_000_000_000 + number} +0000"
        clone.git("checkout", "-q", "-b", f"newer-{number}")
        done = clone.call("git", "commit", "-q", "--allow-empty", "-m", "x", GIT_COMMITTER_DATE=date)
        assert done.returncode == 0, done.stderr
    clone.git("push", "-q", "origin", "--all")
    clone.git("checkout", "-q", "--detach", "older")
    assert line_of(clone) is None


def test_no_branch_is_named_as_long_as_git_bisects(clone: Clone) -> None:
    clone.advance("second")
    clone.git("push", "-q")
    clone.git("bisect", "start", "-q", "HEAD", "HEAD~1")
    clone.git("checkout", "-q", "--detach")
    clone.deliver("session-start", "third", hook_event_name="SessionStart", source="startup")
    assert (line_of(clone) or "").endswith(", no branch is checked out as long as git rebases or bisects")
    assert "end that first, as `git status` says" in clone.call(str(COMMAND), "doctor").stdout


def test_a_shallow_clone(clone: Clone) -> None:
    clone.advance("second")
    clone.git("push", "-q")
    shallow = second(clone, "--depth=1")
    assert line_of(shallow) is None
    shallow.advance("at-work")
    assert "`git push`" in (line_of(shallow) or "")
    shallow.git("push", "-q")
    assert line_of(shallow) is None


@pytest.mark.parametrize("given", ["blob:none", "tree:0"])
def test_a_partial_clone_counts_what_it_has(clone: Clone, given: str) -> None:
    clone.call("git", "-C", "../origin", "config", "uploadpack.allowFilter", "true")
    partial = second(clone, f"--filter={given}")
    assert line_of(partial) is None
    clone.advance("second")
    clone.git("push", "-q")
    partial.git("fetch", "-q")
    count = len(partial.ids())
    said = line_of(partial)
    assert said == f"{count} of {count} events committed, some to pull from origin/main: `git pull`"
    assert (data_of(partial)["to_pull"], data_of(partial)["pushed"]) == (None, None)
    partial.git("pull", "-q")
    assert line_of(partial) is None


def ignore_runs(clone: Clone) -> None:
    (clone.root / ".gitignore").write_text(".fractary/runs/\n")
    clone.git("rm", "-rq", "--cached", ".fractary/runs")
    clone.commit("runs stay here")


def test_a_project_that_does_not_commit_runs(clone: Clone) -> None:
    ignore_runs(clone)
    clone.record("second")
    assert line_of(clone) is None
    assert json.loads(clone.faber("status", "--json").stdout)["data"]["in_git"] is None


def leave_git(clone: Clone) -> None:
    shutil.rmtree(clone.root / ".git")


def break_git(clone: Clone) -> None:
    (clone.root / ".git" / "index").write_bytes(b"no index")


@pytest.mark.parametrize("change", [leave_git, break_git])
def test_without_an_answer_of_git_nothing_is_said(clone: Clone, change: Callable[[Clone], None]) -> None:
    change(clone)
    assert line_of(clone) is None


def test_a_ledger_in_git_that_cannot_be_read_is_not_counted(clone: Clone) -> None:
    content = clone.ledger.read_bytes()
    clone.ledger.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    clone.git("commit", "--no-verify", "-qam", "a pointer")
    clone.ledger.write_bytes(content)
    assert data_of(clone)["committed"] is None


def test_a_project_in_a_folder_of_its_repository(tmp_path: Path) -> None:
    clone = Clone.first(tmp_path / "laptop")
    shutil.rmtree(clone.root / ".git")
    top = Clone(tmp_path)
    top.git("init", "-q", "-b", "main")
    clone.name_run()
    top.git("config", "user.name", "dev")
    (tmp_path / ".gitignore").write_text("/home-*\n")
    assert "the run is untracked" in (line_of(clone) or "")
    top.commit("all")
    assert line_of(clone) is None
    clone.record("second")
    assert f" of {len(clone.ids())} events committed" in (line_of(clone) or "")


def test_a_run_that_only_the_log_has(clone: Clone) -> None:
    clone.git("checkout", "-qb", "feature")
    clone.advance("second")
    before = len(clone.ids())
    clone.git("checkout", "-q", "main")
    clone.git("rm", "-rq", ".fractary/runs")
    clone.git("commit", "-qm", "no run on main")
    assert "all on branches that are not checked out" in (line_of(clone) or "")
    assert data_of(clone)["committed"] == before  # on feature
    clone.git("push", "-q", "origin", "feature")
    assert line_of(clone) is None
    done = clone.call(str(COMMAND), "note", "add", "from main")
    assert done.returncode == 0, done.stderr
    said = f"{before} of {before + 1} events committed, {before} pushed, all on branches that are not checked out"
    assert line_of(clone) == said


def test_the_end_of_a_finished_run_that_stays_in_the_log(clone: Clone) -> None:
    clone.change(status="completed")
    clone.commit("finish")
    clone.git("push", "-q")
    delivery = '{"session_id":"first","hook_event_name":"SessionEnd","reason":"other"}'
    clone.call("sh", "-c", f"echo '{delivery}' | {COMMAND} hook session-end")
    assert "Not published yet: " in clone.faber("status", RUN).stdout
    assert line_of(clone, RUN) is None


def test_what_another_work_tree_records_is_its_own_matter(clone: Clone) -> None:
    clone.git("worktree", "add", "-q", "-b", "feature", "../tree")
    tree = Clone(clone.root.parent / "tree")
    tree.faber("run", "resume", RUN)
    tree.record("in-the-tree")
    assert "events committed" in (line_of(tree) or "")
    assert line_of(clone, RUN) is None
    tree.commit("in the tree")
    assert "`git push -u origin feature`" in (line_of(tree) or "")
    assert line_of(clone, RUN) is None


def test_a_merge_that_has_stopped(clone: Clone) -> None:
    clone.forget_driver()
    clone.git("checkout", "-qb", "topic")
    clone.advance("on-topic")
    clone.git("checkout", "-q", "main")
    clone.faber("note", "add", "on main")
    clone.faber("seal", RUN)
    clone.commit("on main")
    clone.git("merge", "-q", "topic", code=1)
    clone.git("checkout", "--ours", STATE)
    assert line_of(clone) is None
    assert "run `faber-ledger resolve`" in clone.faber("status").stderr


@pytest.mark.parametrize("place", ["the clone", "the user's config"])
def test_a_clone_without_the_driver_is_named(clone: Clone, place: str) -> None:
    assert line_of(clone, begin="This clone: ") is None
    clone.forget_driver()
    if place == "the user's config":
        home = clone.root.parent / "home-laptop"
        home.mkdir(exist_ok=True)
        (home / "config").write_text('[merge "faber-ledger"]\n\tdriver = faber-ledger merge-driver %O %A %B -- %P\n')
        done = clone.call(str(COMMAND), "status", GIT_CONFIG_GLOBAL=str(home / "config"))
        assert "This clone" not in done.stdout
        return
    said = "git has no driver that merges the run's files: `faber-ledger init --git-only` sets it up"
    assert line_of(clone, begin="This clone: ") == said
    assert json.loads(clone.faber("status", "--json").stdout)["data"]["is_set_up"] is False
    (clone.root / ".fractary" / ".gitattributes").unlink()
    assert line_of(clone, begin="This clone: ") is None


@pytest.mark.parametrize("command", [["resolve"], ["resolve", "--dry-run"]])
def test_resolve_says_that_the_next_merge_needs_the_driver(clone: Clone, command: list[str]) -> None:
    assert clone.faber(*command).stderr == ""
    clone.forget_driver()
    said = "note: git has no driver that merges these files in this clone: `faber-ledger init --git-only` sets it up\n"
    assert clone.faber(*command).stderr == said


@pytest.fixture
def without_runs(clone: Clone) -> Clone:
    """A second machine's clone of a repository whose main branch has no run."""
    clone.git("rm", "-rq", ".fractary/runs")
    clone.git("commit", "-qm", "no run")
    clone.git("push", "-q")
    return second(clone)


def test_where_nothing_was_pushed_the_other_machine_is_named(without_runs: Clone) -> None:
    said = "this branch has no run; if you worked on another machine, commit and push there, then `git pull` here"
    said += "; if not, start one with `faber-ledger run start --work-id ID`"
    assert f"hint: {said}" in without_runs.faber("status", code=10).stderr
    loaded = without_runs.faber("session-load", code=1)
    assert f"\nT{said[1:]}\n" in loaded.stdout + loaded.stderr


def test_without_a_remote_nothing_can_come_from_another_machine(without_runs: Clone) -> None:
    without_runs.git("remote", "remove", "origin")
    assert "another machine" not in without_runs.faber("status", code=10).stderr


def test_where_a_branch_was_pushed_it_is_named(clone: Clone, without_runs: Clone) -> None:
    clone.git("push", "-q", "origin", "HEAD~1:refs/heads/feature/258")
    without_runs.git("fetch", "-q")
    said = "hint: this branch has no run, but origin/feature/258 has: run `git switch feature/258`"
    assert said in without_runs.faber("status", code=10).stderr
    without_runs.git("switch", "-q", "feature/258")
    assert without_runs.faber("status").stdout.startswith(f"Run: {RUN}\n")


@pytest.mark.parametrize("name", ["feat/$(touch${IFS}x)", "--orphan=x", "a;b", "`x`"])
def test_no_command_has_a_branchs_name_that_a_shell_or_git_could_misread(
    clone: Clone, without_runs: Clone, name: str
) -> None:
    clone.git("push", "-q", "origin", f"HEAD~1:refs/heads/{name}")
    without_runs.git("fetch", "-q")
    hint = f"hint: this branch has no run, but origin/{name} has\n"
    assert without_runs.faber("status", code=10).stderr.endswith(hint)
    without_runs.git("update-ref", f"refs/heads/{name}", f"refs/remotes/origin/{name}")
    without_runs.git("symbolic-ref", "HEAD", f"refs/heads/{name}")
    without_runs.git("reset", "-q", "--hard")
    without_runs.faber("run", "resume", RUN)
    without_runs.advance("second")
    assert (line_of(without_runs) or "").endswith(": `git push -u origin HEAD`")
    without_runs.git("push", "-q", "-u", "origin", "HEAD")
    assert line_of(without_runs) is None


def test_where_the_branch_itself_has_a_run_to_pull(clone: Clone, without_runs: Clone) -> None:
    clone.git("revert", "--no-edit", "HEAD")
    clone.git("push", "-q")
    without_runs.git("fetch", "-q")
    said = "hint: this branch has no run, but origin/main has: run `git pull`"
    assert said in without_runs.faber("status", code=10).stderr


def doctor_of(clone: Clone) -> dict[str, str]:
    """Return what `doctor` says of runs that are not in git, with the hint of each."""
    done = clone.call(str(COMMAND), "doctor", "--json")
    (check,) = [one for one in json.loads(done.stdout)["data"]["checks"] if one["check"] == "clone.in_git"]
    assert {one["level"] for one in check["findings"]} <= {"note"}
    return {one["what"]: one["hint"] for one in check["findings"]}


def test_doctor_says_the_same_with_a_hint(clone: Clone) -> None:
    assert doctor_of(clone) == {}
    before = len(clone.ids())
    clone.record("second")
    said = f"{before} of {len(clone.ids())} events committed, {before} pushed, none to pull (no fetch since the clone)"
    assert doctor_of(clone) == {f"{RUN}: {said}": "run `faber-ledger seal && git commit && git push`"}


def test_doctor_counts_the_active_run_and_five_others(clone: Clone) -> None:
    for number in range(7):
        clone.faber("run", "start", "--work-id", f"{number}", "--run-id", f"run-{number}", "--yes")
    found = doctor_of(clone)
    assert len(found) == 7
    (active,) = [what for what, hint in found.items() if hint == "run `faber-ledger seal && git commit && git push`"]
    assert active.startswith("run-6: 0 of ")
    assert found["other runs have changes that are not committed, pushed or pulled"]
    clone.commit("seven runs")
    clone.git("push", "-q")
    assert doctor_of(clone) == {}


def test_doctor_names_the_branch_of_a_run_that_the_work_tree_lacks(clone: Clone) -> None:
    clone.git("checkout", "-qb", "feature")
    clone.advance("second")
    clone.git("checkout", "-q", "main")
    clone.git("rm", "-rq", ".fractary/runs")
    clone.git("commit", "-qm", "no run on main")
    ((what, hint),) = doctor_of(clone).items()
    assert "all on branches that are not checked out" in what
    assert "after a checkout of its branch" in hint
