"""One run per worktree: what is created, reported, kept and removed, with the installed command and real git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from support.command import COMMAND
from support.project import Project
from support.sizes import few
from support.worktrees import (
    REGISTRY,
    START,
    begin_project,
    clean_up,
    complete_phases,
    finish_run,
    list_worktrees,
    records,
    start_in_worktree,
)

if TYPE_CHECKING:
    from collections.abc import Callable
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": "client-1", "CLAUDE_PID": "77"}


# Starting in a worktree of its own


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A committed git project, set up, with the run of work item 258 active in it."""
    return begin_project(tmp_path / "project")


def test_worktree_makes_folder_and_branch_and_starts_there(project: Project) -> None:
    """The state and the registry name it."""
    before = project.active_path.read_bytes()
    tree = start_in_worktree(project, "259")
    assert tree.git("branch", "--show-current") == "feature/259"
    assert tree.active_path.read_text() == f"{tree.run_id}\n"
    assert project.active_path.read_bytes() == before
    assert not (project.root / ".fractary/runs" / tree.run_id).exists()
    member = tree.state["worktree"]
    assert (member["path"], member["created_by"], member["branch"], member["auto_cleanup"]) == (
        "../project-issue-259",
        "fractary-faber",
        "feature/259",
        True,
    )
    (record,) = records(project)
    assert (record["path"], record["workflow_run_id"], record["status"]) == (str(tree.root), tree.run_id, "active")
    assert (record["created_by"], record["branch"], record["work_id"]) == ("fractary-faber", "feature/259", "259")
    state_schema = json.loads((Path(__file__).parents[2] / "schemas/json/state.schema.json").read_text())
    jsonschema.validate(tree.state, state_schema)
    assert project.git("status", "--porcelain") == ""


def test_a_client_asking_for_a_worktree_keeps_its_session(project: Project) -> None:
    project.faber("run", "resume", project.run_id, env=IN_CLIENT)
    before = project.current
    run_id = project.start_run("259", "--worktree", **IN_CLIENT)
    tree = Project(project.root.parent / "project-issue-259", run_id)
    assert before is not None
    assert project.current == before
    assert tree.current is None


@pytest.mark.parametrize(("answer", "code"), [("w", 0), ("y", 0), ("", 1)])
def test_a_conflict_is_answered_each_way(project: Project, answer: str, code: int) -> None:
    shown, ended = project.on_terminal("run", "start", "--work-id", "259", answers=[answer])
    assert "\nEnter w to create that worktree and start there.\n\nDo you want to proceed anyway?" in shown
    assert ended == code
    tree = project.root.parent / "project-issue-259"
    assert tree.exists() == (answer.strip().lower() == "w")
    assert (project.active_path.read_text().strip() == project.run_id) == (answer.strip() != "y")


def test_an_existing_folder_is_named_and_not_touched(project: Project) -> None:
    folder = project.root.parent / "project-issue-259"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert done.returncode == 1
    assert "../project-issue-259 exists already" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    assert "feature/259" not in project.git("branch", "--list", "feature/259")


@pytest.mark.parametrize("ref", ["refs/heads/feature/259", "refs/remotes/origin/feature/259"])
def test_an_existing_branch_is_named_and_not_touched(project: Project, ref: str) -> None:
    project.git("update-ref", ref, "HEAD")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert done.returncode == 1
    assert "the branch feature/259 exists already" in done.stderr
    assert not (project.root.parent / "project-issue-259").exists()


def test_a_run_that_cannot_start_leaves_no_worktree(project: Project) -> None:
    project.git("rm", "-r", "--quiet", "--cached", ".fractary")
    project.git("commit", "--quiet", "-m", "Without")
    (project.root / ".fractary-file").write_text("")
    blob = project.git("hash-object", "-w", ".fractary-file")
    project.git("update-index", "--add", "--cacheinfo", f"100644,{blob},.fractary")
    project.git("commit", "--quiet", "-m", "A file in the folder's place")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert done.returncode == 1
    assert not (project.root.parent / "project-issue-259").exists()
    assert project.git("branch", "--list", "feature/259") == ""


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda root: git_in(root, "init", "--quiet", "--bare", "."), "this is a bare repository"),
        (lambda root: git_in(root, "init", "--quiet", "."), "no commit yet"),
        (lambda root: None, "git has no work tree here: not a git repository"),
    ],
)
def test_where_no_worktree_can_be_made_the_error_says_why(
    tmp_path: Path, prepare: Callable[[Path], object], message: str
) -> None:
    project = Project(tmp_path / "here")
    project.root.mkdir()
    prepare(project.root)
    done = project.faber("run", "start", "--work-id", "1", "--worktree")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "here-issue-1").exists()


def git_in(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


# What a fresh worktree inherits


@pytest.fixture
def fresh(project: Project) -> Project:
    """A worktree made by SPEC's own recipe, in which nothing was started yet."""
    project.git("worktree", "add", "--quiet", "../project-issue-259", "-b", "feature/259")
    return Project(project.root.parent / "project-issue-259", project.run_id)


def test_a_run_resumed_in_a_second_worktree_is_active_twice(project: Project, fresh: Project) -> None:
    assert fresh.faber("run", "resume", project.run_id).returncode == 0
    assert fresh.deliver(START).packet is not None
    assert list_worktrees(project)["project-issue-259"]["run_id"] == project.run_id
    assert fresh.faber("run", "start", "--work-id", "260").returncode == 1
    assert project.faber("status").returncode == 0


def test_a_worktree_made_by_hand_is_recorded_so(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    finish_run(tree, "in_progress")
    project.git("worktree", "add", "--quiet", "../second", "-b", "second", "feature/259")
    second = Project(project.root.parent / "second", tree.run_id)
    assert second.faber("run", "resume", tree.run_id).returncode == 0
    made = {os.path.basename(record["path"]): record["created_by"] for record in records(project)}
    assert made == {"project-issue-259": "fractary-faber", "second": "manual"}


def test_a_hook_in_a_removed_folder_looks_above_it(project: Project, tmp_path: Path) -> None:
    gone = str(tmp_path / "elsewhere" / "gone")
    answer = project.deliver(START, env={"CLAUDE_PROJECT_DIR": gone})
    assert (answer.code, answer.output) == (0, b"")
    assert f"{gone} does not exist" in answer.errors
    assert "No active workflow found" in answer.errors
    assert project.current is None
    project.git("worktree", "add", "--quiet", ".worktrees/x", "-b", "feature/259")
    tree = Project(project.root / ".worktrees" / "x")
    tree = Project(tree.root, tree.start_run("259"))
    below = tree.root / "sub" / "gone"
    cwd = {"cwd": str(tree.root)}
    assert project.deliver(START, env={"CLAUDE_PROJECT_DIR": str(below)}, fields=cwd).packet is not None
    assert tree.current is not None
    assert project.current is None
    before = project.ledger_path.read_bytes()
    shutil.rmtree(tree.root)
    for _ in ("git names it", "the registry names it"):
        answer = project.deliver(START, env={"CLAUDE_PROJECT_DIR": str(below)})
        assert f"was in the worktree {tree.root}, which is gone: nothing is recorded" in answer.errors
        project.git("worktree", "prune")
    assert (project.current, project.ledger_path.read_bytes()) == (None, before)


# The registry


@pytest.mark.long(alone=True)
def test_many_starts_at_once_are_all_kept(project: Project) -> None:
    command = [COMMAND, "run", "start", "--worktree", "--work-id"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    env = project.environment()
    running = [
        subprocess.Popen([*command, str(number)], cwd=project.root, env=env, **quiet)  # type: ignore[call-overload]  # options in a dict
        for number in range(300, 306)
    ]
    failed = [process for process in running if process.communicate()[1] and process.returncode]
    made = {path.name for path in project.root.parent.glob("project-issue-*")}
    assert len(made) == len(running) - len(failed)
    assert {os.path.basename(record["path"]) for record in records(project)} == made
    assert len(made) >= 1


@pytest.mark.long
@pytest.mark.parametrize("content", few(["{", '{"worktrees": [{"path": "x"}]}', "[]", "\x00", "[" * 9999], 2))
def test_a_malformed_registry_is_moved_aside_and_rebuilt(project: Project, content: str) -> None:
    tree = start_in_worktree(project, "259")
    (project.root / REGISTRY).write_text(content)
    done = tree.faber("worktree", "list")
    assert done.returncode == 0
    assert "malformed" in done.stderr
    assert (project.root / f"{REGISTRY}.broken").read_text() == content
    (record,) = records(project)
    assert (record["workflow_run_id"], record["created_by"], record["auto_cleanup"]) == (
        tree.run_id,
        "fractary-faber",
        True,
    )


def test_a_clone_without_a_run_in_a_worktree_gets_no_registry(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.root.mkdir()
    project.git("init", "--quiet")
    assert list_worktrees(project)["project"]["run_id"] is None
    assert project.git("status", "--porcelain") == ""


def test_what_other_tools_put_into_a_record_stays(project: Project) -> None:
    start_in_worktree(project, "259")
    document = json.loads((project.root / REGISTRY).read_text())
    document["worktrees"][0] |= {"pr_number": "17", "note": "theirs"}
    (project.root / REGISTRY).write_text(json.dumps({**document, "more": 1}))
    list_worktrees(project)
    assert (records(project)[0]["pr_number"], records(project)[0]["note"]) == ("17", "theirs")
    before = (project.root / REGISTRY).read_bytes()
    assert json.loads(before)["more"] == 1
    list_worktrees(project)
    assert (project.root / REGISTRY).read_bytes() == before


def test_worktrees_of_a_bare_repository_share_one_registry(project: Project, tmp_path: Path) -> None:
    bare = tmp_path / "store.git"
    project.git("clone", "--quiet", "--bare", str(project.root), str(bare))
    subprocess.run(["git", "worktree", "add", "--quiet", "../one"], cwd=bare, check=True, capture_output=True)
    one = Project(tmp_path / "one", project.run_id)
    assert one.faber("run", "start", "--work-id", "300", "--yes").returncode == 0
    assert len(json.loads((bare / "faber-ledger/worktrees.json").read_text())["worktrees"]) == 1
    assert list_worktrees(one)["one"]["run_id"] is not None


# The list


def test_the_list_says_run_branch_phase_session_and_last_event(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.deliver(START, client="c-259")
    row = list_worktrees(project)["project-issue-259"]
    assert (row["run_id"], row["branch"], row["phase"]) == (tree.run_id, "feature/259", "frame")
    assert row["open_session"] == tree.current
    assert row["last_event_at"] == tree.events[-1]["at"]
    assert "../project-issue-259" in project.faber("worktree", "list").stdout


def test_a_run_whose_files_are_on_its_branch_is_no_problem(project: Project) -> None:
    project.git("switch", "--quiet", "--create", "feature/258", "HEAD")
    Project(project.root, project.run_id).change_state(branch="feature/258")
    project.commit("the run's branch")
    project.said("status")  # which keeps the state
    project.git("switch", "--quiet", "--create", "bare", "HEAD")
    project.git("rm", "-rq", ".fractary/runs")
    project.commit("no run")
    row = list_worktrees(project)["project"]
    assert (row["run_id"], row["phase"], row["problem"]) == (project.run_id, "frame", None)


def test_a_folder_without_state_and_ledger_is_not_where_the_files_are(project: Project) -> None:
    project.git("switch", "--quiet", "--create", "feature/258")
    project.git("worktree", "add", "--quiet", "../other")
    other = Project(project.root.parent / "other")
    other.git("rm", "-rq", ".fractary/runs")
    other.commit("no run")
    assert "they are in ../project (`cd ../project`)\n" in other.said("verify", project.run_id)
    project.git("merge", "--quiet", "other")
    (project.run / "events").mkdir(parents=True, exist_ok=True)
    assert "they are in ../project" not in other.said("verify", project.run_id)


def test_a_worktree_with_untracked_settings_says_it_has_no_hooks(project: Project) -> None:
    project.git("rm", "--quiet", "-r", "--cached", ".claude")
    project.git("commit", "--quiet", "-m", "Untracked")
    done = project.faber("run", "start", "--work-id", "259", "--worktree")
    assert "A client has not all hooks there: `faber-ledger doctor`" in done.stdout


# Cleaning up


@pytest.fixture
def merged(project: Project) -> Project:
    """A worktree whose run is completed and merged."""
    tree = start_in_worktree(project, "259")
    finish_run(tree)
    project.git("merge", "--quiet", "feature/259")
    return tree


def test_a_finished_and_merged_worktree_is_removed_and_its_branch_stays(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    finish_run(tree)
    for names in ([], ["project-issue-259"]):
        assert clean_up(project, *names)["project-issue-259"]["why"] == ["feature/259 is not merged"]
    project.git("merge", "--quiet", "feature/259")
    dry = clean_up(project, "--dry-run")["project-issue-259"]
    assert (dry["action"], dry["why"]) == (
        "would be removed",
        ["its run is completed, and feature/259 is merged into main"],
    )
    assert tree.root.exists()
    assert clean_up(project)["project-issue-259"]["action"] == "removed"
    assert not tree.root.exists()
    assert "feature/259" in project.git("branch", "--list", "feature/259")
    (record,) = records(project)
    assert record["status"] == "removed"
    assert "removed_at" in record


def test_a_run_that_git_ignores_keeps_its_worktree(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write(".gitignore", ".fractary\n")
    project.git("init", "--quiet", "--initial-branch=main")
    project.commit("Begin")
    tree = start_in_worktree(project, "259")
    tree.change_state(status="completed")
    for names in ([], ["project-issue-259"]):
        row = clean_up(project, *names)["project-issue-259"]
        assert row["action"] == "kept"
        (why,) = row["why"]
        assert why.startswith("git ignores .fractary/runs/")
    assert tree.state_path.exists()


def test_a_squashed_merge_is_a_merge(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.write("a.txt", "a")
    finish_run(tree)
    tree.write("b.txt", "b")
    finish_run(tree, "completed")
    project.git("merge", "--quiet", "--squash", "feature/259")
    project.git("commit", "--quiet", "-m", "Squashed")
    assert clean_up(project)["project-issue-259"]["action"] == "removed"


def test_uncommitted_work_is_never_removed_even_by_name(project: Project, merged: Project) -> None:
    merged.write("draft.txt", "not yet")
    before = Project(project.root, merged.run_id).ledger_path.read_bytes()
    for names in ([], ["project-issue-259"]):
        row = clean_up(project, *names)["project-issue-259"]
        assert (row["action"], row["why"]) == ("kept", ["uncommitted work: draft.txt; commit and merge it first"])
    assert project.faber("worktree", "cleanup", "project-issue-259").returncode == 1
    assert (merged.root / "draft.txt").exists()
    assert Project(project.root, merged.run_id).ledger_path.read_bytes() == before


def test_a_git_hooks_variables_count_in_no_other_worktree(project: Project, merged: Project) -> None:
    (merged.root / ".claude/settings.json").unlink()
    env = {"GIT_DIR": str(project.root / ".git"), "GIT_INDEX_FILE": str(project.root / ".git/index")}
    done = project.faber("worktree", "cleanup", "--json", env=env)
    (row,) = json.loads(done.stdout)["data"]["worktrees"]
    assert row["why"] == ["uncommitted work: .claude/settings.json; commit and merge it first"]


def test_an_open_session_keeps_its_worktree(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.deliver(START, client="c-259")
    finish_run(tree)
    project.git("merge", "--quiet", "feature/259")
    row = clean_up(project, "project-issue-259")["project-issue-259"]
    assert row["why"] == [f"the session {tree.current} of the run {tree.run_id} is open"]


def test_a_locked_worktree_stays_and_says_why(project: Project, merged: Project) -> None:
    project.git("worktree", "lock", "--reason", "on a stick", str(merged.root))
    reason = "it is locked: on a stick; `git worktree unlock` unlocks it"
    assert clean_up(project)["project-issue-259"]["why"] == [reason]
    assert "locked: on a stick" in project.faber("worktree", "list").stdout


def test_the_worktree_that_the_user_is_in_is_not_removed(project: Project, merged: Project) -> None:
    assert clean_up(merged)["project-issue-259"]["why"] == ["you are in it"]


def test_the_main_work_tree_and_foreign_worktrees_are_no_business_of_cleanup(project: Project) -> None:
    project.git("worktree", "add", "--quiet", "../theirs", "-b", "theirs")
    assert clean_up(project) == {}
    assert clean_up(project, "theirs")["theirs"]["action"] == "kept"
    assert clean_up(project, ".")["project"]["why"] == ["it is the main work tree"]
    assert project.faber("worktree", "cleanup", "nothing").returncode == 1


def test_a_record_without_auto_cleanup_is_removed_only_by_name(project: Project, merged: Project) -> None:
    document = json.loads((project.root / REGISTRY).read_text())
    document["worktrees"][0]["auto_cleanup"] = False
    (project.root / REGISTRY).write_text(json.dumps(document))
    assert "only by name" in clean_up(project)["project-issue-259"]["why"][0]
    assert clean_up(project, merged.run_id)["project-issue-259"]["action"] == "removed"


# What is wrong with a worktree


def test_a_folder_deleted_by_hand_is_reported_until_pruned(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    shutil.rmtree(tree.root)
    row = list_worktrees(project)["project-issue-259"]
    assert row["run_id"] == tree.run_id
    assert "`git worktree repair NEW-PATH`; if it is gone for good, `git worktree remove PATH`" in row["problem"]
    assert clean_up(project, "project-issue-259")["project-issue-259"]["action"] == "kept"
    project.git("worktree", "prune")
    assert "project-issue-259" not in list_worktrees(project)
    assert records(project)[0]["status"] == "removed"


def test_a_folder_moved_by_hand_is_found_after_repair(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    tree.root.rename(tree.root.with_name("moved"))
    assert list_worktrees(project)["project-issue-259"]["problem"].startswith(
        "git says: gitdir file points to non-existent"
    )
    moved = Project(tree.root.with_name("moved"), tree.run_id)
    moved.deliver(START, client="c-259")
    assert moved.current is not None
    project.git("worktree", "repair", str(moved.root))
    assert list_worktrees(project)["moved"]["run_id"] == tree.run_id
    assert {os.path.basename(one["path"]): one["status"] for one in records(project)} == {
        "project-issue-259": "removed",
        "moved": "active",
    }


def test_finish_completes_a_released_run_and_names_what_removes_its_worktree(project: Project) -> None:
    tree = start_in_worktree(project, "259")
    assert tree.faber("run", "finish").returncode == 1
    assert tree.state["status"] == "in_progress"
    complete_phases(tree)
    done = tree.faber("run", "finish")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first == f"✓ Workflow completed: {tree.run_id}"
    assert "`faber-ledger worktree cleanup` in another worktree removes this one" in second
    assert tree.state["status"] == "completed"
    assert records(project)[0]["status"] == "completed"
