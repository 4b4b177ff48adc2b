"""A project, a clone and a team that 0.1.1 set up go on without a command."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.archives import extract
from support.command import COMMAND
from support.project import RUN, Project

FIXTURE = Path(__file__).parents[1] / "fixtures" / "set-up-by-0.1.1" / "project.tar.gz"
STARTUP = "SessionStart.startup.interactive"
COMPACT = "SessionStart.compact.interactive"
PRE = "PreCompact.auto.print"
END = "SessionEnd.other.interactive"
ME = {"client": "896a4fa5-ad77-46c8-a2a2-fd88bd4be979", "pid": "4711"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}")  # git runs the drivers
    with tarfile.open(FIXTURE) as packed:
        extract(packed, tmp_path)
    return Project(tmp_path / "project", RUN, "laptop")


def colleague(project: Project, root: Path) -> Project:
    """Clone the project, with the settings that `init` of 0.1.1 wrote into a clone."""
    other = project.clone(root, "desktop")
    for name in ("merge.faber-ledger.driver", "merge.faber-ledger.name", "diff.faber-ledger.textconv"):
        other.git("config", name, project.git("config", name))
    return other


def is_sound(project: Project) -> bool:
    done = project.faber("verify")
    assert (done.returncode, done.stdout) == (0, f"{RUN}: sound\n"), done.stdout
    return project.faber("project", "--check").returncode == 0


def test_the_next_hook_goes_on_and_records_what_waited(project: Project) -> None:
    before = project.history
    assert (len(before), "ended_at" in before[1]) == (2, False)
    packet = project.deliver(STARTUP, **ME).packet or ""
    assert packet.startswith(f"# FABER run {RUN}")
    assert "keep the lock" in packet
    first, second, third = project.history
    assert first == before[0]
    assert second["end_reason"] == "normal"  # its SessionEnd waited in the spool of 0.1.1
    assert third["session_id"] == project.current
    project.deliver(PRE, **ME)
    project.deliver(COMPACT, **ME)
    project.deliver(END, **ME)
    assert [entry["end_reason"] for entry in project.history[2:]] == ["compaction", "normal"]
    assert is_sound(project)
    changed = {line.split()[-1].rpartition("/")[2] for line in project.git("status", "--porcelain").splitlines()}
    assert changed == {"ledger.db", "state.json"}


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["log"],
        ["verify"],
        ["replay"],
        ["run", "list"],
        ["reconstitute"],
        ["session-load"],
        ["seal", "--all"],
    ],
    ids=" ".join,
)
def test_a_command_goes_on(project: Project, command: list[str]) -> None:
    done = project.faber(*command)
    assert done.returncode == 0, done.stderr
    assert RUN in done.stdout or command == ["log"]
    assert is_sound(project)


def test_a_fresh_clone_goes_on(project: Project, tmp_path: Path) -> None:
    other = project.clone(tmp_path / "other", "desktop")
    assert (other.deliver(STARTUP, **ME).packet or "").startswith(f"# FABER run {RUN}")
    other.deliver(END, **ME)
    assert is_sound(other)
    assert [entry["environment"]["hostname"] for entry in other.history] == ["laptop", "laptop", "desktop"]


def test_a_team_merges_in_both_directions(project: Project, tmp_path: Path) -> None:
    other = colleague(project, tmp_path / "other")
    for one in (project, other):
        one.deliver(STARTUP, **ME)
        one.deliver(END, **ME)
        assert one.faber("seal", "--all").returncode == 0
        one.git("commit", "--quiet", "--message", one.hostname)
    project.git("pull", "--quiet", "--no-rebase", "--no-edit", str(other.root), "main")
    other.git("pull", "--quiet", "--no-rebase", "--no-edit", str(project.root), "main")
    for one in (project, other):
        assert one.faber("project").returncode == 0
        assert is_sound(one)
    assert project.events == other.events
    assert project.state["sessions"] == other.state["sessions"]
    assert len(project.history) == 4


def test_a_run_that_only_the_mirror_of_0_1_1_has_gets_its_context_and_its_events(project: Project) -> None:
    """That mirror has no copy of the state beside it."""
    project.git("switch", "--quiet", "--orphan", "empty")
    for path in project.run.iterdir():
        path.unlink()
    project.run.rmdir()
    project.active_path.parent.mkdir(parents=True, exist_ok=True)
    project.active_path.write_text(f"{RUN}\n")
    answer = project.deliver(STARTUP, **ME)
    assert answer.code == 0
    project.git("switch", "--quiet", "--force", "main")
    project.deliver(PRE, **ME)
    assert is_sound(project)
    assert "keep the lock" in project.faber("log").stdout


def test_doctor_says_what_to_renew_and_renews_it(project: Project) -> None:
    """Nothing of it is an error: what 0.1.1 set up works."""
    found = findings(project)
    assert [name for name, one in found if one["level"] == "error"] == []
    to_renew = {name: (one["what"], one["hint"]) for name, one in found if one["can_mend"]}
    for name in ("git.attributes", "git.ignore"):
        assert "older, and do not know FABER's layouts since February 2026" in to_renew[name][0]
        assert "`faber-ledger init --git-only`" in to_renew[name][1]
    assert project.faber("doctor", "--fix").returncode == 0
    assert [name for name, one in findings(project) if one["can_mend"]] == []


def findings(project: Project) -> list[tuple[str, dict[str, Any]]]:
    """Return what doctor finds, without what is well."""
    checks = json.loads(project.faber("doctor", "--json").stdout)["data"]["checks"]
    return [(one["check"], found) for one in checks for found in one["findings"] if found["level"] != "ok"]
