"""Links in a clone or in its git directory lead no command to another place."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.project import Project
from support.sizes import few, pair

if TYPE_CHECKING:
    from pathlib import Path

START, END = "SessionStart.startup.print", "SessionEnd.other.print"


def contents_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of all files below a folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def lead_away(place: Path, outside: Path) -> None:
    """Move a file or folder of a project to another place, and put a link to it there."""
    outside.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(place, outside)
    place.symlink_to(os.path.relpath(outside, place.parent))


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "name"),
    pair(
        [("uninstall",), ("uninstall", "--scope", "local"), ("init",), ("doctor",)],
        [".claude/settings.json", ".claude", ".fractary/faber"],
    ),
)
def test_a_clones_link_leads_no_command_to_its_target(tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    """The user's other settings, or another project's files, stay as they are."""
    project = Project.made(tmp_path / "project")
    project.faber("init")
    project.faber("init", "--scope", "local")
    outside = tmp_path / "elsewhere" / name
    lead_away(project.root / name, outside)
    if outside.is_dir():
        for path in outside.rglob("*"):
            path.chmod(0o400 if path.is_file() else 0o500)
        (outside / ".active-run-id").touch(0o400)
    before = contents_of(tmp_path / "elsewhere")
    done = project.faber(*words)
    assert contents_of(tmp_path / "elsewhere") == before, done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", few(["runs", "inbox", "clients", "set-aside", "notices"], 3))
def test_a_link_in_the_git_directory_leads_no_hook_or_command_away(tmp_path: Path, name: str) -> None:
    """An archive brings its git directory along. Without the folder of the logs, what happens waits."""
    project = Project.made(tmp_path / "project")
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    kept = project.root / ".git" / "faber-ledger"
    (kept / name).symlink_to("../../../elsewhere")
    project.ledger_path.write_bytes(b"no ledger")  # which is set aside
    project.deliver(START, client="one")
    project.deliver(END, client="one")
    project.faber("note", "add", "once more")
    (project.run / "state.json").chmod(0o444)
    project.write(".fractary/faber/.active-run-id", "ghost\n")
    project.faber("doctor")
    assert contents_of(outside) == {}
    (kept / name).unlink(missing_ok=True)
    project.write(".fractary/faber/.active-run-id", f"{project.run_id}\n")
    project.faber("note", "add", "and on")
    assert project.types[-1] == "note_recorded"
    assert project.types.count("session_started") == project.types.count("session_ended") == 1


@pytest.mark.parametrize("kind", ["main", "linked", "link"])
def test_an_archive_that_names_another_clones_git_directory_gets_nothing_of_it(tmp_path: Path, kind: str) -> None:
    """The `.git` of an archive is a file; the user's clone has the same run, and a note that was never committed."""
    mine = Project.made(tmp_path / "mine")
    mine.deliver(START, client="one")
    mine.commit("Begin")
    if kind == "linked":
        mine.git("worktree", "add", "--quiet", "../linked")
    archive = tmp_path / "archive"
    shutil.copytree(mine.root, archive, ignore=shutil.ignore_patterns(".git"))
    mine.faber("note", "add", "between us")
    named = "mine/.git/worktrees/linked" if kind == "linked" else "mine/.git"
    if kind == "link":
        (archive / ".git").symlink_to("../mine/.git")
    else:
        (archive / ".git").write_text(f"gitdir: ../{named}\n")
    theirs = Project(archive)
    answer = theirs.deliver(START, client="two")
    assert "names the git directory of another work tree" in answer.errors
    assert theirs.faber("note", "add", "mine").returncode == 0
    assert b"between us" not in theirs.ledger_path.read_bytes()
    assert "between us" not in theirs.faber("log").stdout
    assert mine.types[-1] == "note_recorded"
    assert "another work tree" in theirs.faber("doctor").stdout


def test_a_work_tree_that_was_moved_is_still_one(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.commit("Begin")
    project.git("worktree", "add", "--quiet", "../linked")
    shutil.move(tmp_path / "linked", tmp_path / "moved")
    moved = Project(tmp_path / "moved")
    assert moved.faber("run", "resume", moved.run_id).returncode == 0
    moved.deliver(START, client="one")
    assert moved.types[-1] == "session_started"
    assert (project.root / ".git" / "faber-ledger" / "runs").is_dir()
