"""Files of ours with what was said in a conversation are their owner's alone, or those of a shared repository."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from support.command import Command
from support.forged_events import forge_event
from support.project import RUN, Project
from support.sizes import few

from faber_ledger.runs.run import forget_work_trees

START, END, COMPACT = "SessionStart.startup.print", "SessionEnd.other.print", "PostCompact.auto.print"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.noted(tmp_path / "project")


@pytest.fixture(autouse=True)
def usual_mask() -> None:
    os.umask(0o022)


def private_files(project: Project) -> list[Path]:
    """Let a delivery wait, which fills the hook log too; return the files that must be private."""
    holder = Command(["flock", str(project.lock_path), "sh", "-c", "echo held; cat"], stdin=-1, stdout=-1)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() in (b"held", "held")
    project.deliver(END)
    holder.communicate()
    kept = project.root / ".git" / "faber-ledger"
    waiting = list((kept / "inbox" / RUN).iterdir())
    assert len(waiting) == 1
    private = kept / "runs" / RUN
    clients = list((kept / "clients").iterdir())
    assert clients
    return [*waiting, *clients, private / "log.db", private / "state.json", project.log_path, project.lock_path]


def test_another_user_does_not_read_what_was_said(project: Project) -> None:
    """Another user of the machine reads inbox, log, hook log or notes, or holds the lock (W6) (W7) (W19)."""
    assert {path.name: mode_of(path) for path in private_files(project) if mode_of(path) != 0o600} == {}
    assert mode_of(project.root / ".git" / "faber-ledger") == 0o700


@pytest.mark.long
@pytest.mark.parametrize(("word", "mode"), few([("group", 0o660), ("umask", 0o600)], 1))
def test_a_shared_repository_shares(tmp_path: Path, word: str, mode: int) -> None:
    """Who shares a repository on purpose, with core.sharedRepository, shares these files too (W19)."""
    project = Project.made(tmp_path / "project")
    project.git("config", "core.sharedRepository", word)
    project.deliver(START)
    found = {path.name: oct(mode_of(path)) for path in private_files(project)}
    assert set(found.values()) == {oct(mode)}, found


def test_a_second_user_of_the_group_can_record(tmp_path: Path) -> None:
    """`git init --shared` gives the git directory a group, which whatever is made in it has too (W19)."""
    project = Project.made(tmp_path / "project")
    project.git("init", "--quiet", "--shared=group")
    shutil.rmtree(project.root / ".git" / "faber-ledger")  # what it has made before
    git = project.root / ".git"
    group = 4712 if os.geteuid() == 0 else os.getgroups()[-1]
    os.chown(git, -1, group)
    git.chmod(0o2770)
    project.deliver(START)
    project.faber("note", "add", "once more")
    found = list((git / "faber-ledger").rglob("*"))
    assert {path.stat().st_gid for path in found} == {group}
    modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in [git / "faber-ledger", *found] if path.is_dir()}
    assert set(modes.values()) == {"0o2770"}, modes
    files = {str(path.relative_to(git)): oct(mode_of(path)) for path in found if path.is_file()}
    assert set(files.values()) == {"0o660"}, files


EXPORTS = (("export", "-o", "out.jsonl"), ("timeline", "-o", "out.html"))


@pytest.mark.long
@pytest.mark.parametrize("words", few(EXPORTS, 2), ids=" ".join)
def test_another_user_does_not_read_an_export(project: Project, words: tuple[str, ...]) -> None:
    """Another user reads an export; a file keeps the permissions that its owner gave it (W19)."""
    out = project.root / words[-1]
    assert project.faber(*words).returncode == 0
    assert oct(mode_of(out)) == oct(0o600)
    out.chmod(0o640)
    assert project.faber(*words).returncode == 0
    assert oct(mode_of(out)) == oct(0o640)


@pytest.mark.parametrize("place", ["faber", "faber/logs"])
def test_the_hook_logs_folders_are_made_nowhere_else(project: Project, tmp_path: Path, place: str) -> None:
    """A link in the hook log's path lets a hook make folders outside the project (W5)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = project.root / ".fractary" / place
    project.git("rm", "-r", "--quiet", "--cached", ".fractary/faber")
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(outside)
    for hook in (START, END, COMPACT):
        assert project.deliver(hook, stdin=b"no delivery").code == 0  # which it says in its log
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["commondir", "config"])
def test_a_pipe_below_the_git_directory_is_not_waited_for(project: Project, name: str) -> None:
    """An archive has a pipe where a hook reads a file of the git directory: nobody waits for it (W15)."""
    path = project.root / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    project.lock_path.chmod(0o644)  # so that the settings are looked at
    assert project.deliver(START, client="two", pid="2").code == 0


def test_what_is_private_does_not_lie_in_the_project(project: Project, tmp_path: Path) -> None:
    """An archive, or a later commit, takes along what is private in a project without git (W7)."""
    shutil.rmtree(project.root / ".git")
    forget_work_trees()
    state = tmp_path / "state"
    os.environ["XDG_STATE_HOME"], before = str(state), os.environ["XDG_STATE_HOME"]
    try:
        had = {path for path in project.root.rglob("*") if path.is_file()}
        with Command(["flock", str(project.lock_path), "sh", "-c", "echo held; cat"], stdin=-1, stdout=-1) as it:
            assert it.stdout is not None
            it.stdout.readline()
            assert project.deliver(START, client="two", pid="2").packet is not None
            it.communicate()
        assert {path.name for path in project.root.rglob("*") if path.is_file()} - {path.name for path in had} <= {
            "hooks.log",
            "writer",
        }
        assert {path.parent.parent.name for path in state.rglob("*.json")} == {"inbox"}
        assert mode_of(state / "faber-ledger") == 0o700
        count = len(project.events)
        assert project.faber("note", "add", "one more").returncode == 0
        assert len(project.events) > count + 1
        assert not list(state.rglob("spool/*/*"))
    finally:
        os.environ["XDG_STATE_HOME"] = before


def test_the_folders_above_what_is_private_are_their_owners_alone(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without git they are their owner's alone, whoever makes them first (W7)."""
    shutil.rmtree(project.root / ".git")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forge_event(project.ledger_path, hash=b"\x22" * 32)
    assert project.faber("note", "add", "one more").returncode == 0
    ours = tmp_path / "state" / "faber-ledger"
    assert len([*ours.rglob("set-aside/*")]) == 1
    folders = [ours, *[path for path in ours.rglob("*") if path.is_dir()]]
    assert [path for path in folders if mode_of(path) != 0o700] == []
    assert {mode_of(path) for path in ours.rglob("*") if path.is_file()} == {0o600}
