"""Every report shows the runs that this clone has, also those that git took out of the work tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.folders import copy_prepared
from support.project import RUN, Project

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.log import Log

START = "SessionStart.startup.print"
OTHER = "other-run"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose main has no run; two runs are committed on a branch, and the second one is active."""
    copy_prepared(prepare, tmp_path)
    return Project(tmp_path / "project")


def prepare(folder: Path) -> None:
    project = Project.made(folder / "project")
    project.faber("init", "--git-only")
    state = project.state_path.read_text()
    project.active_path.unlink()
    project.state_path.unlink()
    project.run.rmdir()
    project.commit("code")
    project.git("checkout", "-qb", "feature")
    assert project.faber("run", "start", "--run-id", OTHER, "--work-id", "7").returncode == 0
    assert project.faber("note", "add", "the other run's note").returncode == 0
    project.run.mkdir(parents=True)
    project.state_path.write_text(state)
    assert project.faber("run", "resume", RUN, "--yes").returncode == 0
    project.deliver(START, client="one", pid="1")
    project.commit("runs")
    project.git("checkout", "-q", "main")
    project.git("clean", "-fdxq")
    assert not (project.root / ".fractary" / "runs").exists()


def listed(project: Project) -> dict[str, dict[str, Any]]:
    return {row["run_id"]: row for row in json.loads(project.said("run", "list", "--json"))["data"]}


def test_run_list_marks_the_runs_that_are_not_in_the_work_tree(project: Project) -> None:
    rows = listed(project)
    assert sorted(rows) == sorted([RUN, OTHER])
    other = rows[OTHER]
    assert (other["in_work_tree"], other["events"] > 0, other["status"]) == (False, True, "in_progress")
    lines = project.said("run", "list").splitlines()
    assert any(line.startswith(f"~ {OTHER}") for line in lines)
    assert sum([line.startswith("~ ") for line in lines]) == 3
    assert lines[-1] == "~ not in this work tree, but on its branch"
    project.git("checkout", "-q", "feature")
    assert [row["in_work_tree"] for row in listed(project).values()] == [True, True]
    assert "~" not in project.said("run", "list")


def test_git_is_not_asked_about_more_than_twenty_runs_without_files(project: Project) -> None:
    kept = project.root / ".git/faber-ledger/runs"
    for name in [f"copy-{number}" for number in range(20)]:
        shutil.copytree(kept / OTHER, kept / name)
        for file in (kept / name / "place", kept / name / "state.json"):
            file.write_text(file.read_text().replace(OTHER, name))
    more = "~ 2 more have no files here: `faber-ledger status RUN` says where they are"
    assert project.said("run", "list").splitlines()[-1] == more


def test_a_run_that_was_finished_on_its_branch_is_done_where_an_old_state_of_it_is(project: Project) -> None:
    project.git("checkout", "-qb", "other", "feature")
    project.git("checkout", "-q", "feature")
    project.change_state(status="completed", updated_at="2099-01-01T00:00:00Z")
    project.faber("status", RUN)
    project.git("checkout", "-qf", "other")
    assert json.loads(project.state_path.read_text())["status"] == "in_progress"
    assert listed(project)[RUN]["state"] == "done"
    status = project.said("status", RUN)
    assert "Status: completed\n" in status
    assert "seal" not in status


def test_a_run_that_went_on_elsewhere_costs_more_than_is_known_here(project: Project) -> None:
    used: Any = {"type": "usage_recorded", "session_id": "s", "model": "m", "in_phase": "build", "read_files": {}}
    used |= {"input_tokens": 70_000, "cached_tokens": 0, "output_tokens": 0, "turns": 1, "active_seconds": 1}
    with Log.open(str(project.clones_log)) as log:
        log.append([{"event": used, "client": "one"}], at=now(), writer="0" * 32)
        log.commit()
    project.git("checkout", "-qf", "feature")
    project.change_state(artifacts={"branch": "feature"})
    project.said("status", RUN)
    session = {"session_id": "x", "started_at": "2099-01-01T00:00:00Z", "environment": {"hostname": "tower"}}
    blocks = {"current_session_id": None, "total_sessions": 1, "session_history": [session]}
    project.change_state(current_phase="release", updated_at="2099-01-01T00:00:00Z", sessions=blocks)
    project.git("commit", "-qam", "from elsewhere", "--no-verify")
    project.git("checkout", "-qf", "main")
    row = listed(project)[RUN]
    assert (row["phase"], row["machine"], row["usage"]["tokens"]) == ("release", "tower", 70_000)
    tokens = {line.split()[-1] for line in project.said("run", "list").splitlines()}
    assert tokens & {"70k", "≥70k"} == {"≥70k"}
    assert "\nPhase: release\n" in project.said("status", RUN)
    there = {"run_id": "shop-9", "workflow_id": "w", "status": "in_progress", "sessions": blocks}
    project.write(".fractary/runs/shop-9/state.json", json.dumps(there))  # its ledger travels otherwise, or not yet
    assert "  ?" in next(line[-3:] for line in project.said("run", "list").splitlines() if "shop-9" in line)


def test_verify_all_verifies_the_logs_below_the_git_directory(project: Project) -> None:
    done = project.faber("verify", "--all")
    assert done.returncode == 0, done.stdout
    for run in (RUN, OTHER):
        assert f"{run}: sound\n{run}: note: not in this work tree" in done.stdout
    assert "rolled" not in done.stdout
    mirror = project.root / ".git" / "faber-ledger" / "runs" / OTHER / "log.db"
    content = mirror.read_bytes()
    assert content.count(b"the other run's note") == 1
    mirror.write_bytes(content.replace(b"the other run's note", b"the other run's lie!"))
    assert project.faber("verify", "--all").returncode == 20


def test_each_report_finds_the_run_by_all_of_its_names(project: Project) -> None:
    for command in (
        ["timeline", "other", "-o", "-"],
        ["log", OTHER],
        ["log", "other"],
        ["log", "--work-id", "7"],
        ["export", "other"],
        ["replay", "--events", "other"],
        ["status", "other"],
        ["status", "--work-id", "7"],
    ):
        text = project.said(*command)
        assert OTHER in text or "the other run's note" in text, command


def test_an_event_of_it_is_shown_and_a_shell_completes_the_run(project: Project) -> None:
    env = {"_FABER_LEDGER_COMPLETE": "bash_complete", "COMP_WORDS": "faber-ledger status oth", "COMP_CWORD": "2"}
    assert OTHER in project.faber(env=env).stdout
    note = json.loads(project.said("log", OTHER, "--type", "note_recorded", "--json").split("\n")[0])
    assert "the other run's note" in project.said("show", "--run", "other", note["id"])


def test_a_command_that_writes_all_runs_leaves_those_of_other_branches(project: Project) -> None:
    project.faber("seal", "--all")
    assert not (project.root / ".fractary" / "runs").exists()


def test_a_run_that_another_work_tree_has_is_listed_and_read_too(project: Project) -> None:
    project.git("worktree", "add", "-q", "../there", "feature")
    there = Project(project.root.parent / "there", RUN)
    assert {row["in_work_tree"] for row in listed(project).values()} == {False}
    assert {row["in_work_tree"] for row in listed(there).values()} == {True}
    assert OTHER in project.said("status", "other")
    assert "has no files" not in project.said("run", "list")  # `worktree list` has them
    assert "they are in ../there (`cd ../there`)" in project.said("verify", "other")
