"""A run that the server brought before git did: git refuses to pull over it, and the guide says how to go on."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from support.command import COMMAND
from support.project import Project
from support.sizes import few
from support.team_server import Team

if TYPE_CHECKING:
    from pathlib import Path

    from support.postgres import Database


def git(clone: Project, *words: str) -> subprocess.CompletedProcess[str]:
    who = {f"GIT_{who}_{what}": f"dev@{who}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = {"PATH": f"{COMMAND.parent}:{clone.environment()['PATH']}"}
    return subprocess.run(
        ["git", *words],
        cwd=clone.root,
        env=clone.environment({**who, **path, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("way", few(["resume", "sync"], 1))
def test_the_guides_way_out_of_a_refused_pull_unites_both(database: Database, tmp_path: Path, way: str) -> None:
    first = Project.noted(tmp_path / "first")
    bare, second = tmp_path / "bare", Project(tmp_path / "second", first.run_id, "second")
    assert git(first, "clone", "--quiet", "--bare", ".", str(bare)).returncode == 0
    git(first, "remote", "add", "origin", str(bare))
    assert git(first, "clone", "--quiet", str(bare), str(second.root)).returncode == 0
    assert second.faber("init", "--git-only").returncode == 0
    team = Team(database, [first, second])

    assert first.faber("run", "start", "--work-id", "9", "--yes").returncode == 0
    run_id = first.active_path.read_text().strip()
    assert first.faber("note", "add", "of the first").returncode == 0
    assert team.sync(first, "--all").returncode == 0
    if way == "sync":
        assert team.sync(second, "--all").returncode == 0
    else:
        done = second.faber("run", "resume", run_id, "--yes", env={"FABER_LEDGER_URL": team.url})
        assert done.returncode == 0, done.stderr
        assert second.faber("note", "add", "of the second").returncode == 0
    git(first, "add", "-A")
    assert git(first, "commit", "--quiet", "-m", "Run").returncode == 0
    done = git(first, "push", "--quiet", "origin", "HEAD")
    assert done.returncode == 0, done.stderr

    refused = git(second, "pull", "--no-rebase")
    assert refused.returncode == 1
    assert "untracked working tree files would be overwritten" in refused.stderr
    commands = (["add", ".fractary"], ["commit", "-m", "Runs of the server"], ["pull", "--no-rebase"])
    for words in commands:
        done = git(second, *words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert second.faber("verify", "--all").returncode == 0
    notes = second.faber("export", run_id).stdout
    assert notes.count("of the first") == 1
    assert notes.count("of the second") == (way == "resume")
    assert team.sync(second, "--all").returncode == 0
    if way == "resume":
        assert second.active_path.read_text().strip() == run_id
