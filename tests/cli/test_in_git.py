"""`status` says in one line what of a run is not committed, not pushed or not pulled, and nothing if all is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.clones import FOLDER, RUN, Clone
from support.command import COMMAND
from support.folders import copy_prepared
from support.sizes import few

SEAL = "`faber-ledger seal && git commit"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone whose run is committed and pushed to a bare repository."""
    copy_prepared(prepare, tmp_path)
    return Clone(tmp_path / "laptop")


def prepare(folder: Path) -> None:
    made = Clone.first(folder / "laptop")
    made.git("init", "-q", "--bare", "-b", "main", "../origin")
    made.git("remote", "add", "origin", "../origin")
    made.git("push", "-qu", "origin", "main")


def second(clone: Clone, *options: str, name: str = "desktop") -> Clone:
    """Clone the bare repository, as on another machine."""
    clone.git("clone", "-q", *options, f"file://{clone.root.parent}/origin", f"../{name}")
    made = Clone(clone.root.parent / name)
    made.faber("init", "--git-only")
    made.name_run()
    return made


def line_of(clone: Clone, *command: str, begin: str = "In git: ") -> str | None:
    """Return the line of `status` that begins so; None if there is none."""
    lines = [line for line in clone.faber("status", *command).stdout.splitlines() if line.startswith(begin)]
    assert len(lines) < 2
    return lines[0].removeprefix(begin) if lines else None


def data_of(clone: Clone, *command: str) -> dict[str, Any]:
    found = json.loads(clone.faber("status", *command, "--json").stdout)["data"]["in_git"]
    assert isinstance(found, dict)
    return found


def test_nothing_is_said_if_all_is_in(clone: Clone) -> None:
    assert line_of(clone) is None
    assert data_of(clone) == {
        "uncommitted": [],
        "uncommitted_of_faber": [],
        "is_tracked": True,
        "is_pushed": True,
        "to_pull": None,
        "branch": "main",
        "upstream": "origin/main",
    }


@pytest.mark.parametrize(
    ("records", "by_faber", "begin"),
    [
        (True, False, "ledger.db and state.json not committed: `faber-ledger seal && git commit"),
        (True, True, f"ledger.db, state.json and events not committed: `git add {FOLDER}/events && faber-"),
        (False, True, f"events not committed: `git add {FOLDER}/events && git commit && git push`"),
    ],
)
def test_the_commands_of_the_line_bring_all_in(clone: Clone, records: bool, by_faber: bool, begin: str) -> None:
    if records:
        clone.record("second")
    if by_faber:
        (clone.root / FOLDER / "events").mkdir(exist_ok=True)
        (clone.root / FOLDER / "events/001-step_complete.json").write_text("{}")
    assert (line_of(clone) or "").startswith(begin)
    command = (line_of(clone) or "").partition("`")[2].removesuffix("`").replace("git commit", "git commit -qm x")
    done = clone.call("sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert line_of(clone) is None
    assert clone.git("rev-parse", "origin/main") == clone.git("rev-parse", "HEAD")
    assert clone.git("status", "--short") == ""


def test_no_push_brings_a_merged_branch_back(clone: Clone) -> None:
    clone.git("switch", "-qc", "feature")
    clone.git("push", "-qu", "origin", "feature")
    clone.git("push", "-q", "origin", "--delete", "feature")
    clone.advance("second")
    gone = "feature is gone at the remote, as after a merge: commit on the branch that has it"
    assert line_of(clone) == f"committed, not pushed, {gone}"


def test_a_new_run_is_untracked(clone: Clone) -> None:
    clone.faber("run", "start", "--work-id", "9", "--run-id", "nine", "--yes")
    said = "ledger.db and state.json not committed (the run is untracked, and `git commit -a` leaves it out)"
    assert line_of(clone) == f"{said}: {SEAL} && git push`"
    assert data_of(clone)["is_tracked"] is False
    assert line_of(clone, RUN) is None


def test_without_a_remote_nothing_is_said_of_pushing(tmp_path: Path) -> None:
    clone = Clone.first(tmp_path / "laptop")
    assert line_of(clone) is None
    clone.record("second")
    assert line_of(clone) == f"ledger.db and state.json not committed: {SEAL}`"


def test_a_branch_without_an_upstream_has_pushed_what_the_default_branch_has(clone: Clone) -> None:
    clone.git("checkout", "-qb", "feature/258")
    assert line_of(clone) is None
    clone.advance("second")
    assert line_of(clone) == "committed, not pushed: `git push -u origin feature/258`"
    clone.git("push", "-q", "origin", "feature/258")
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
    assert line_of(clone) == "origin/main has a newer version: `git pull`"
    assert data_of(clone)["to_pull"] == "origin/main"
    clone.record("at-home")
    assert f", origin/main has a newer version: {SEAL} && git pull && git push`" in (line_of(clone) or "")
    clone.faber("seal")
    clone.git("commit", "-qm", "at home")
    clone.git("pull", "-q", "--no-rebase")
    clone.git("push", "-q")
    clone.faber("project")
    assert "newer" not in (line_of(clone) or "")


def test_a_branch_and_its_upstream_that_went_apart_are_pulled_as_git_lets_one(clone: Clone) -> None:
    other = second(clone)
    other.advance("at-work")
    other.git("push", "-q")
    clone.advance("at-home")
    clone.git("fetch", "-q")
    said = "committed, not pushed, origin/main has a newer version: "
    assert line_of(clone) == f"{said}`git pull --no-rebase && git push`"
    clone.git("config", "pull.rebase", "true")
    assert line_of(clone) == f"{said}`git pull && git push`"


def test_a_push_that_git_would_refuse_comes_after_a_pull(clone: Clone) -> None:
    other = second(clone)
    (other.root / "code.py").write_text("pass\n")
    other.commit("code")
    other.git("push", "-q")
    clone.advance("at-home")
    clone.git("fetch", "-q")
    assert line_of(clone) == "committed, not pushed, origin/main has newer commits: `git pull --no-rebase && git push`"


def test_a_colleagues_commit_of_code_alone_is_not_to_pull(clone: Clone) -> None:
    other = second(clone)
    (other.root / "code.py").write_text("pass\n")
    other.git("add", "code.py")
    other.git("commit", "-qm", "code")
    other.git("push", "-q")
    clone.git("fetch", "-q")
    assert line_of(clone) is None


def test_a_project_that_does_not_commit_runs(clone: Clone) -> None:
    (clone.root / ".gitignore").write_text(".fractary/runs/\n")
    clone.git("rm", "-rq", "--cached", ".fractary/runs")
    clone.commit("runs stay here")
    clone.record("second")
    assert line_of(clone) is None
    assert json.loads(clone.faber("status", "--json").stdout)["data"]["in_git"] is None


def test_without_an_answer_of_git_nothing_is_said(clone: Clone) -> None:
    (clone.root / ".git" / "index").write_bytes(b"no index")
    assert line_of(clone) is None


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


def test_where_a_branch_was_pushed_it_is_named(clone: Clone, without_runs: Clone) -> None:
    clone.git("push", "-q", "origin", "HEAD~1:refs/heads/feature/258")
    without_runs.git("fetch", "-q")
    said = f"hint: another branch has a run: {RUN} (work item 258) on origin/feature/258: `git switch feature/258`\n"
    assert said in without_runs.faber("status", code=10).stderr
    without_runs.git("switch", "-q", "feature/258")
    assert without_runs.faber("status").stdout.startswith(f"Run: {RUN}\n")


@pytest.mark.long
@pytest.mark.parametrize("name", few(["feat/$(touch${IFS}x)", "--orphan=x"], 1))
def test_no_command_has_a_branch_name_that_is_misread(clone: Clone, without_runs: Clone, name: str) -> None:
    clone.git("push", "-q", "origin", f"HEAD~1:refs/heads/{name}")
    without_runs.git("fetch", "-q")
    hint = f"hint: another branch has a run: {RUN} (work item 258) on origin/{name}\n"
    assert without_runs.faber("status", code=10).stderr.endswith(hint)
    without_runs.git("update-ref", f"refs/heads/{name}", f"refs/remotes/origin/{name}")
    without_runs.git("symbolic-ref", "HEAD", f"refs/heads/{name}")
    without_runs.git("reset", "-q", "--hard")
    without_runs.faber("run", "resume", RUN)
    without_runs.advance("second")
    assert (line_of(without_runs) or "").endswith(": `git push -u origin HEAD`")
    without_runs.git("push", "-q", "-u", "origin", "HEAD")
    assert line_of(without_runs) is None
