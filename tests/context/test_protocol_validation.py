"""RELOAD, Protocol Validation: the five things that hold after a reload, by command and by hook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from support.project import Project

from faber_ledger.ledger.clock import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOADED = ["workflow-state", "orchestration-protocol"]


def by_command(project: Project) -> None:
    assert project.faber("session-load", "--trigger", "session_start").returncode == 0


def by_hook(project: Project) -> None:
    assert project.deliver("SessionStart.startup.print").packet


@pytest.mark.parametrize("reload", [by_command, by_hook])
def test_a_reload_leaves_a_valid_state(tmp_path: Path, reload: Callable[[Project], None]) -> None:
    project = Project.made(tmp_path / "project")
    before = int(time.time())
    reload(project)
    after = int(time.time())

    sessions, metadata = project.state["sessions"], project.state["context_metadata"]
    assert metadata["reload_count"] == 1  # 1: both blocks are there and say what happened
    assert [load["artifact_id"] for load in metadata["artifacts_in_context"]] == LOADED  # 2
    (session,) = sessions["session_history"]  # 3
    assert session["session_id"] == sessions["current_session_id"]
    assert session["artifacts_loaded"] == LOADED
    assert all(session["environment"][name] for name in ("hostname", "platform", "cwd", "git_commit"))  # 4
    loads = [load["loaded_at"] for load in metadata["artifacts_in_context"]]
    for moment in [metadata["last_artifact_reload"], session["started_at"], *loads]:  # 5
        assert before <= (seconds_of(moment) or 0) <= after
