"""How often a hook, or `session-load`, looks for what decides the active run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.project import Project, usual_state

if TYPE_CHECKING:
    from pathlib import Path

COUNTING = """
import json, os, sys
from faber_ledger.cli.entry import main

opened = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened.append(arguments[0])

def leave(code, leave=os._exit):
    names = list(opened)
    with open(report, "w") as file:
        json.dump(names, file)
    leave(code)

os._exit = leave  # a hook ends with it
report = sys.argv.pop(1)
sys.addaudithook(watch)
try:
    main()
except SystemExit as done:
    leave(done.code or 0)
leave(0)
"""
HOOKS = ["SessionStart.resume.print", "PreCompact.auto.print", "PostCompact.auto.print", "SessionEnd.other.print"]


STRAY = dict.fromkeys(("PostCompact.auto.print", "SessionEnd.other.print"), "this client has")


def opened_by(project: Project, recorded: str, errors: str = "") -> Counter[str]:
    """Deliver to a hook in a process of its own; return how often it tried to open each path, relative to the root."""
    content, environment, argument = project.prepared(recorded, client="me")
    return opened_by_command(project, ["hook", argument], environment, content, errors)


def opened_by_command(
    project: Project, arguments: list[str], environment: dict[str, str], content: bytes = b"", errors: str = ""
) -> Counter[str]:
    """Run a command in a process of its own; return how often it tried to open each path, relative to the root."""
    report = project.root.parent / "opened.json"
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, report, *arguments],
        cwd=project.root,
        env=environment,
        input=content,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b"" if not errors else errors.encode() in done.stderr
    return Counter(os.path.relpath(path, project.root) for path in json.loads(report.read_text()))


@pytest.mark.parametrize("recorded", HOOKS)
def test_a_hook_opens_the_active_file_once_and_finds_git_once(tmp_path: Path, recorded: str) -> None:
    project = Project.made(tmp_path / "project")
    project.deliver("SessionStart.startup.print", client="me")
    opened = opened_by(project, recorded)
    is_end = recorded.startswith("SessionEnd")  # which is about the client's newest session, whatever a file names
    assert opened[".fractary/faber/.active-run-id"] == (0 if is_end else 1)
    assert opened[".fractary/faber/runs/.active-run-id"] == 0  # it does not exist
    assert opened[".git/commondir"] == 1  # every search for git's folder asks whether it is a linked work tree's
    project.assert_projected()


@pytest.mark.parametrize("recorded", HOOKS)
def test_the_first_hook_of_a_run_opens_the_active_file_once_and_finds_git_once(tmp_path: Path, recorded: str) -> None:
    project = Project.made(tmp_path / "project")
    opened = opened_by(project, recorded, STRAY.get(recorded, ""))
    assert opened[".fractary/faber/.active-run-id"] == opened[".git/commondir"] == 1


@pytest.mark.parametrize("recorded", HOOKS)
def test_a_hook_in_a_linked_work_tree_opens_the_active_file_once_and_finds_git_once(
    tmp_path: Path, recorded: str
) -> None:
    """It reads the file `.git` once, and once the active file and git's folder of the main work tree."""
    project = Project.made(tmp_path / "project")
    project.git("add", "-A")
    project.git("commit", "--quiet", "-m", "Run")
    project.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))
    tree = Project(tmp_path / "tree", project.run_id)
    assert tree.faber("run", "resume", project.run_id).returncode == 0
    opened = opened_by(tree, recorded, STRAY.get(recorded, ""))
    assert opened[".fractary/faber/.active-run-id"] == 1
    assert opened[".git"] == 1
    assert opened["../project/.git/worktrees/tree/commondir"] == 1
    assert opened["../project/.fractary/faber/.active-run-id"] <= 1
    assert opened["../project/.git/commondir"] <= 1


def test_the_other_work_trees_are_not_asked_about_a_run_that_was_named_here(tmp_path: Path) -> None:
    project = Project.noted(tmp_path / "project")
    project.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))
    tree = Project(tmp_path / "tree", "second")
    tree.run.mkdir()
    tree.put_state(usual_state("second"))
    tree.active_path.write_text("second\n")
    opened = opened_by(tree, "SessionStart.startup.print")
    assert tree.types == ["run_adopted", "session_started"]
    assert opened["../project/.fractary/faber/.active-run-id"] == 0


@pytest.mark.parametrize("recorded", HOOKS)
def test_a_hook_without_an_active_run_asks_no_more_than_that(tmp_path: Path, recorded: str) -> None:
    project = Project.made(tmp_path / "project")
    project.active_path.unlink()
    opened = opened_by(project, recorded, errors="No active workflow found")
    # A file that does not exist is not even opened.
    assert opened[".fractary/faber/.active-run-id"] == opened[".fractary/faber/runs/.active-run-id"] == 0
    assert opened[".git/commondir"] == 1
