"""Which artifacts git tracks: a private note keeps git's answer, and it holds for that index alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING

import pytest
from support.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = "SessionStart.startup.print"
QUESTION = " --literal-pathspecs ls-files "
GIT = shutil.which("git")  # before any is put before it
TRACKED, UNTRACKED = "docs/a.md", "docs/b.md"


class Clone(Project):
    """A project whose workflow names two files, of which git tracks one, with a git that notes what it is asked."""

    def start(self, **changes: object) -> dict[str, bool]:
        """Start a new conversation; return which artifacts' plain digest was recorded."""
        self.deliver(START, client=os.urandom(8).hex(), **changes)
        return {one["artifact_id"]: not one["sha256"].startswith("keyed:") for one in self.of_type("artifact_loaded")}

    @property
    def asked(self) -> int:
        """How often git was asked which files it tracks."""
        return self.asked_path.read_text().count(QUESTION)

    @property
    def asked_path(self) -> Path:
        return self.root.parent / "asked"

    @property
    def note(self) -> Path:
        return self.root / ".git" / "faber-ledger" / "tracked"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    project = Clone.made(tmp_path / "project")
    assert isinstance(project, Clone)
    for path in (TRACKED, UNTRACKED):
        project.write(path, f"{path}\n")
    named = [{"id": path[5], "type": "markdown", "path": path, "required": True} for path in (TRACKED, UNTRACKED)]
    workflow = json.dumps({"critical_artifacts": {"always_load": named}})
    project.write(".fractary/faber/workflows/mine.json", workflow)
    project.change_state(workflow_id="mine")
    project.git("add", TRACKED)
    put_before_git(project, "", monkeypatch)
    age_index(project)
    return project


def put_before_git(project: Clone, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git before git that notes each question, and does something after that which files it tracks."""
    program = project.root.parent / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    after = f'case "$*" in *"{QUESTION}"*) {then.replace("GIT", str(GIT))};; esac\n' if then else ""
    program.write_text(
        f'#!/bin/sh\necho "$@" >> "{project.asked_path}"\n"{GIT}" "$@"\nfailed=$?\n{after}exit $failed\n'
    )
    program.chmod(0o755)
    project.asked_path.touch()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def age_index(project: Clone) -> None:
    """Wait until the file system gives a file that is written now a later time than the index has."""
    index, probe = os.stat(project.root / ".git" / "index"), project.root.parent / "probe"
    while True:
        probe.write_bytes(b"")
        if os.stat(probe).st_mtime_ns > max(index.st_mtime_ns, index.st_ctime_ns):
            return


def test_the_second_start_asks_no_git_what_it_tracks(clone: Clone) -> None:
    assert clone.start() == {"a": True, "b": False}
    assert clone.asked == 1
    assert stat.S_IMODE(clone.note.stat().st_mode) == 0o600
    assert clone.start() == {"a": True, "b": False}
    assert clone.faber("session-load", "--force").returncode == 0
    assert clone.asked == 1
    assert [path.name for path in clone.note.parent.glob("tracked*")] == ["tracked"]


def test_an_artifact_that_the_note_does_not_know_is_asked_for(clone: Clone) -> None:
    named = [{"id": "a", "type": "markdown", "path": TRACKED, "required": True}]
    path, before = ".fractary/faber/workflows/mine.json", clone.root / ".fractary/faber/workflows/mine.json"
    both = before.read_text()
    clone.write(path, json.dumps({"critical_artifacts": {"always_load": named}}))
    clone.start()
    clone.write(path, both)
    assert clone.start() == {"a": True, "b": False}
    assert clone.asked == 2
    clone.write(path, json.dumps({"critical_artifacts": {"always_load": named}}))
    clone.start()
    assert clone.asked == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["add", UNTRACKED], {"a": True, "b": True}),
        (["rm", "--quiet", "--cached", TRACKED], {"a": False, "b": False}),
        (["update-index", "--add", UNTRACKED, "--force-remove", TRACKED], {"a": False, "b": True}),  # of the same size
    ],
)
def test_the_start_after_a_change_of_the_index_knows_it(
    clone: Clone, change: list[str], expected: dict[str, bool]
) -> None:
    clone.start()
    assert clone.note.exists()
    clone.git(*change)
    assert clone.start() == expected
    age_index(clone)
    assert [clone.start(), clone.start()] == [expected, expected]


def test_no_answer_is_kept_about_an_index_as_new_as_the_question(clone: Clone) -> None:
    """The next one might have its number, size and time."""
    later = os.stat(clone.root / ".git" / "index").st_mtime_ns + 3600 * 10**9
    os.utime(clone.root / ".git" / "index", ns=(later, later))
    assert [clone.start(), clone.start()] == [{"a": True, "b": False}] * 2
    assert clone.asked == 2
    assert not clone.note.exists()


def test_no_answer_is_kept_about_an_index_that_changes_while_git_is_asked(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_before_git(clone, f'"GIT" -C "{clone.root}" add {UNTRACKED}', monkeypatch)
    assert clone.start() == {"a": True, "b": False}
    assert not clone.note.exists()
    assert clone.start() == {"a": True, "b": True}


def test_nothing_is_kept_of_a_split_index_or_of_none(clone: Clone) -> None:
    clone.git("update-index", "--split-index")
    age_index(clone)
    assert clone.start() == {"a": True, "b": False}
    (clone.root / ".git" / "index").unlink()
    assert clone.start() == {"a": False, "b": False}
    assert clone.asked == 2
    assert not clone.note.exists()


def test_nothing_is_kept_when_git_fails(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    put_before_git(clone, "exit 3", monkeypatch)
    assert clone.start() == {"a": False, "b": False}
    assert not clone.note.exists()


def test_variables_of_a_git_hook_lead_to_no_other_index(clone: Clone, tmp_path: Path) -> None:
    """(W13)"""
    other = tmp_path / "index"
    shutil.copy2(clone.root / ".git" / "index", other)
    named = {"GIT_INDEX_FILE": str(other), "GIT_DIR": str(clone.root / ".git"), "GIT_WORK_TREE": str(clone.root)}
    clone.git("-c", "core.bare=false", "add", UNTRACKED)
    age_index(clone)
    for _ in range(2):
        assert clone.start(env=named) == {"a": True, "b": True}
    assert clone.asked == 1


def replace_by_pipe(note: Path) -> None:
    note.unlink()
    os.mkfifo(note)


def replace_by_link(note: Path) -> None:
    note.rename(note.with_name("elsewhere"))
    note.symlink_to("elsewhere")
    flip(note)


def flip(note: Path) -> None:
    content = note.read_bytes()
    flipped = re.sub(rb"\x000(?=[0-9a-f]{64})", b"\x001", content)
    assert flipped != content
    note.write_bytes(flipped)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda note: note.write_bytes(b""),
    "of zeros": lambda note: note.write_bytes(bytes(note.stat().st_size)),
    "another answer": flip,
    "cut": lambda note: note.write_bytes(note.read_bytes()[:-1]),
    "too large": lambda note: note.write_bytes(note.read_bytes() + bytes(300_000)),
    "a pipe": replace_by_pipe,
    "a link": replace_by_link,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_note_is_not_believed(clone: Clone, damage: str) -> None:
    clone.start()
    DAMAGES[damage](clone.note)
    assert clone.start() == {"a": True, "b": False}
    assert clone.asked == 2
    assert clone.start() == {"a": True, "b": False}
    assert clone.asked == 2  # it is a note again
    assert clone.note.is_file()
    assert not clone.note.is_symlink()


def test_a_note_of_another_clone_is_not_believed(clone: Clone, tmp_path: Path) -> None:
    """(W13) An archive may bring a git directory with a note, but not the index that the note is about."""
    clone.git("add", UNTRACKED)
    age_index(clone)
    clone.start()
    shutil.copytree(clone.root, tmp_path / "copy", symlinks=True)
    copy = Clone(tmp_path / "copy")
    copy.git("rm", "--quiet", "--cached", UNTRACKED)
    assert copy.note.read_bytes() == clone.note.read_bytes()
    assert copy.start() == {"a": True, "b": False}


def test_each_work_tree_has_a_note_of_its_own(clone: Clone, tmp_path: Path) -> None:
    clone.git("add", UNTRACKED)
    clone.git("commit", "--quiet", "-m", "Both")
    age_index(clone)
    assert clone.start() == {"a": True, "b": True}
    clone.git("worktree", "add", "--quiet", str(tmp_path / "tree"))
    tree = Clone(tmp_path / "tree")
    shutil.copytree(clone.root / ".fractary", tree.root / ".fractary", dirs_exist_ok=True)
    tree.git("rm", "--quiet", "--cached", TRACKED)
    assert tree.start()["a"] is False
    assert clone.start() == {"a": True, "b": True}
