"""Which session a delivery or a command is about: the history is the one that a person would tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project

if TYPE_CHECKING:
    from pathlib import Path

STARTUP = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
OTHER = "896a4fa5-ad77-46c8-a2a2-fd88bd4be979"
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": ME, "CLAUDE_PID": "1"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.made(tmp_path / "project")


def me(**more: Any) -> dict[str, Any]:
    return {"client": ME, "pid": "1", **more}


def reasons(project: Project) -> list[str | None]:
    return [entry.get("end_reason") for entry in project.history]


# A session-load


def test_after_a_compaction_that_failed_a_load_of_the_client_goes_on_with_its_session(project: Project) -> None:
    project.deliver(STARTUP, **me())
    project.deliver(PRE, **me())
    assert reasons(project) == ["compaction"]
    loaded = project.faber("session-load", "--force", env=IN_CLIENT)
    assert loaded.returncode == 0, loaded.stderr
    assert "New session detected" not in loaded.stdout
    (entry,) = project.history
    project.deliver(END, **me())
    assert reasons(project) == ["normal"]
    assert project.history[0]["session_id"] == entry["session_id"]
    project.assert_projected()


@pytest.mark.parametrize("then", ["compaction", "end", "another client"])
def test_a_load_opens_a_session_where_the_compaction_came_or_the_client_is_another(project: Project, then: str) -> None:
    project.deliver(STARTUP, **me())
    project.deliver(PRE, **me())
    if then == "compaction":
        project.deliver(POST, **me())
    elif then == "end":
        project.deliver(END, **me())
    env = {**IN_CLIENT, **({"CLAUDE_CODE_SESSION_ID": OTHER} if then == "another client" else {})}
    assert "New session detected" in project.faber("session-load", env=env).stdout
    assert len(project.history) == 2
    project.assert_projected()


def test_a_session_that_a_load_opens_has_nothing_in_context_and_skips_nothing(project: Project) -> None:
    """Without hooks, this is what a user types around a compaction."""
    assert project.faber("session-load").returncode == 0
    assert project.faber("session-save", "--reason", "compaction").returncode == 0
    for dry in (["--dry-run"], []):
        done = project.faber("session-load", *dry)
        assert done.returncode == 0
        assert "Skipping" not in done.stdout
    assert "## workflow-state" in done.stdout
    assert project.history[1]["artifacts_loaded"] == ["workflow-state", "orchestration-protocol"]
    assert "Skipping workflow-state" in project.faber("session-load").stdout
    project.assert_projected()


def test_a_run_that_is_resumed_in_a_client_has_an_empty_context_at_once(project: Project) -> None:
    project.deliver(STARTUP, client=OTHER)
    assert project.in_context
    assert project.faber("run", "resume", project.run_id, env=IN_CLIENT).returncode == 0
    assert project.in_context == []
    done = json.loads(project.faber("session-load", "--json", env=IN_CLIENT).stdout)
    assert len(done["data"]["loaded"]) == 2
    assert len(project.history) == 2
    project.assert_projected()
