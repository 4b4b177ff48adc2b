"""Folders of other users, and repositories that came along as files: nothing in them is used or run."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.program import make_program
from support.project import RUN, Project
from support.users import as_root, become, give_away

if TYPE_CHECKING:
    from pathlib import Path

START = "SessionStart.startup.print"
COMPACTION = "PreCompact.manual.print"
END = "SessionEnd.prompt_input_exit.interactive"
SECRET = "what only the victim may read"


def content_of(folder: Path) -> dict[str, tuple[float, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def trap(tmp_path: Path) -> Project:
    """A project of another user in a folder above the victim's, with a workflow that names the victim's file."""
    shared = Project.made(tmp_path / "shared")
    shutil.rmtree(shared.root / ".git")
    work = shared.root / "victims-work"
    work.mkdir()
    (work / "private.txt").write_text(SECRET)
    shared.name_artifacts({"id": "secret", "path": "victims-work/private.txt", "required": True})
    assert SECRET in (shared.deliver(START).packet or "")  # its owner may have it
    give_away(shared.root)
    return shared


@pytest.mark.parametrize("recorded", [START, END])
def test_a_hook_below_another_users_project_uses_nothing_of_it(trap: Project, tmp_path: Path, recorded: str) -> None:
    """(H8)"""
    work = trap.root / "victims-work"
    give_away(work, user=4712)
    env = {**become(4712, tmp_path / "victim"), "CLAUDE_PROJECT_DIR": str(work)}
    before = content_of(trap.root)
    answer = trap.deliver(recorded, env=env, fields={"cwd": str(work)}, directory=work)
    assert (answer.code, answer.packet, answer.hint) == (0, None, None)
    assert "belongs to another user" in answer.errors
    assert answer.errors.count("\n") == 1
    assert content_of(trap.root) == before
    if recorded == START:
        assert answer.message is not None
        assert f"git config --global --add safe.directory {trap.root}" in answer.message


@pytest.mark.parametrize("words", [("log",), ("note", "add", "x")])
def test_a_command_below_another_users_project_uses_nothing_of_it(
    trap: Project, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """(H8)"""
    before = content_of(trap.root)
    done = trap.faber(*words, env=become(4712, tmp_path / "victim"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "belongs to another user" in done.stderr
    assert content_of(trap.root) == before


def test_a_completion_below_another_users_project_offers_nothing_of_it(trap: Project, tmp_path: Path) -> None:
    """(H8)"""
    asked = {"COMP_WORDS": "faber-ledger status fr", "COMP_CWORD": "2", "_FABER_LEDGER_COMPLETE": "bash_complete"}
    offered = trap.faber(env={**asked, **as_root(tmp_path / "root"), "SUDO_UID": str(trap.root.stat().st_uid)})
    assert RUN in offered.stdout
    done = trap.faber(env={**asked, **become(4712, tmp_path / "victim")})
    assert (RUN in done.stdout, done.stderr) == (False, "")


# What git accepts, we accept


TRUSTED = ["the one who called sudo", "the user's configuration", "all, in the user's configuration", "a folder above"]
REFUSED = [
    *("nobody", "sudo by a third", "the repository's configuration", "the environment", "another folder"),
    "taken back",
]


def trust(project: Project, who: str, owner: int) -> dict[str, str]:
    """Let something name the project as safe; return the variables that do so."""
    config = project.root.parent / "home-dev-machine-1" / ".gitconfig"
    config.parent.mkdir(exist_ok=True)
    named = {
        "the user's configuration": [str(project.root)],
        "all, in the user's configuration": ["*"],
        "a folder above": [f"{project.root.parent}/*"],
        "another folder": [str(project.root.parent), f"{project.root}/x", "."],
        "taken back": ["*", ""],
    }.get(who, [])
    config.write_text("".join([f'[safe]\n\tdirectory = "{one}"\n' for one in named]))
    if who == "the repository's configuration":
        with (project.root / ".git" / "config").open("a") as file:
            file.write("[safe]\n\tdirectory = *\n")
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    return {
        "the one who called sudo": {"SUDO_UID": str(owner)},
        "sudo by a third": {"SUDO_UID": str(owner + 1)},
        "the environment": given,
    }.get(who, {})


@pytest.mark.parametrize("who", [*TRUSTED, *REFUSED])
def test_another_users_project_is_used_only_if_the_users_git_uses_it(tmp_path: Path, who: str) -> None:
    """(H8)"""
    project = Project.noted(tmp_path / "project")
    owner = give_away(project.root)
    env = {"SUDO_UID": None, **as_root(tmp_path / "root"), **trust(project, who, owner)}
    done = project.faber("log", env=env)
    assert ("it went well" in done.stdout) == (who in TRUSTED), done.stderr
    answer = project.deliver(START, env=env, client="another")
    assert (answer.packet is not None) == (who in TRUSTED), answer.errors


@pytest.mark.parametrize("part", [".fractary", ".git"])
def test_a_project_of_which_a_part_is_another_users_is_not_used(tmp_path: Path, part: str) -> None:
    """(H8)"""
    project = Project.noted(tmp_path / "project")
    give_away(project.root / part)
    done = project.faber("log", env={"SUDO_UID": None, **become_nobody_else(tmp_path)})
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr


def become_nobody_else(folder: Path) -> dict[str, str]:
    """Return the environment of the user who runs the tests, or, if that is not root, of another one."""
    return {} if os.geteuid() == 0 else become(os.geteuid() + 1, folder / "other")


def test_another_users_repository_above_a_project_gets_nothing_of_it(tmp_path: Path) -> None:
    """(H8)"""
    mine = Project.made(tmp_path / "above" / "mine")
    above = mine.root.parent / ".git"
    shutil.move(mine.root / ".git", above)
    give_away(above)
    env: dict[str, str | None] = {"SUDO_UID": None}
    if os.geteuid() != 0:  # who cannot give files away calls the project safe, but not what is above
        env |= {**become_nobody_else(tmp_path), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # for git itself
        trust(mine, "the user's configuration", 0)
    before = content_of(above)
    answer = mine.deliver(START, env=env)
    assert answer.packet is not None
    assert "git does not use the work tree" in mine.log_path.read_text()
    assert "git does not use the work tree" in mine.faber("log", env=env).stderr
    assert "git does not use the work tree" in mine.faber("doctor", env=env).stdout
    assert content_of(above) == before


def test_a_worktree_that_another_user_has_made_again_is_not_used(tmp_path: Path) -> None:
    """(H8)"""
    project = Project.noted(tmp_path / "project")
    tree = Project(tmp_path / "tree")
    project.git("worktree", "add", "--quiet", str(tree.root))
    tree.write(".fractary/faber/.active-run-id", f"{RUN}\n")
    env = {"SUDO_UID": None, **become_nobody_else(tmp_path)}
    give_away(tree.root)
    before = content_of(tree.root)
    answer = project.deliver(COMPACTION, env=env, fields={"cwd": str(tree.root)})
    assert answer.code == 0
    assert content_of(tree.root) == before
    if os.geteuid() == 0:
        assert "session_ended" in project.types
        assert f"git does not use the work tree {tree.root}" in project.faber("worktree", "list", env=env).stderr


# Repositories that came along as files


@pytest.mark.parametrize("words", [("seal",), ("status",)])
def test_a_bare_repository_among_the_files_runs_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    """(W4)"""
    origin = Project.noted(tmp_path / "origin")
    mark = tmp_path / "ran"
    program = make_program(tmp_path / "program", f"touch {mark}")
    inside = origin.root / "vendor"
    origin.git("clone", "--quiet", "--bare", str(origin.root), str(inside))
    shutil.copytree(origin.root / ".fractary", inside / ".fractary")
    settings = {"core.bare": "false", "core.worktree": str(inside), "core.fsmonitor": str(program)}
    for name, value in settings.items():
        origin.git("-C", str(inside), "config", name, value)
    origin.git("-C", str(inside), "status")
    assert mark.exists()  # the user's own git, in that folder, is the user's own decision
    mark.unlink()
    Project(inside).faber(*words)
    assert not mark.exists()
