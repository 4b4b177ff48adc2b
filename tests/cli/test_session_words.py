"""What session-load, session-save and a start say of a state or an option that they cannot use."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from support.project import Project, without_overrides

START = "SessionStart.startup.print"


# A state that cannot be used


INVALID = (
    "❌ ERROR: Invalid state status: weird\n"
    "Path: {path}\n\n"
    "Recovery:\n"
    "1. Set `status` to one of pending, in_progress, paused, awaiting_feedback, completed, failed, cancelled\n"
)


def test_every_command_that_loads_refuses_a_status_that_no_run_has(project: Project) -> None:
    """(spec-and-session-end 14)"""
    for command in [["session-load"], ["session-load", "--dry-run"], ["reconstitute"], ["run", "resume", "RUN"]]:
        project.change_state(status="weird")
        before = project.state_path.read_bytes()
        done = project.faber(*[project.run_id if word == "RUN" else word for word in command])
        assert done.stderr.endswith(INVALID.format(path=f".fractary/runs/{project.run_id}/state.json"))
        assert (done.returncode, project.state_path.read_bytes()) == (1, before)


def test_a_start_gives_the_context_without_an_active_status(project: Project) -> None:
    """(spec-and-session-end 14)"""
    project.change_state(status="weird")
    packet = project.deliver(START).packet
    assert packet is not None
    assert packet.startswith(INVALID.format(path=f".fractary/runs/{project.run_id}/state.json"))
    assert "\n===== orchestration-protocol" in packet


def test_a_state_that_nobody_may_read_is_answered_with_recovery_steps(project: Project) -> None:
    """(spec-and-session-end 12)"""
    for command in [["session-load"], ["session-save"], ["status"]]:
        project.deliver(START)
        project.state_path.chmod(0)
        done = project.faber(*command, preexec_fn=without_overrides)
        project.state_path.chmod(0o644)
        assert done.returncode == 1
        assert done.stderr.endswith(
            "❌ ERROR: Cannot read state file\n"
            f"Path: .fractary/runs/{project.run_id}/state.json\n"
            "Error: Permission denied\n\n"
            "Recovery:\n1. Check file permissions\n2. Make the file readable, then run the command again\n"
        )


# Who may read a ledger


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_new_ledger_has_the_states_permissions(project: Project, mode: int) -> None:
    """(spec-and-session-end 14)"""
    project.state_path.chmod(mode)
    project.faber("session-load")
    assert stat.S_IMODE(project.ledger_path.stat().st_mode) == (mode | 0o600) & 0o644


# Paths, and what a line ends with


# What a command leaves to another one


def test_the_calls_that_stand_in_for_hooks_work_one_after_the_other(project: Project) -> None:
    """(spec-and-session-end remark 17)"""
    page = Path(__file__).parents[2] / "docs/guides/HOOKS-SETUP.md"
    section = page.read_text().partition("\n## Without hooks\n")[2].partition("\n## ")[0]
    calls = re.findall(r"^faber-ledger (.*?) *#", section, re.MULTILINE)
    assert len(calls) == 4
    done = [project.faber(*call.split()) for call in calls]
    assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 4
    history = project.state["sessions"]["session_history"]
    assert [entry["end_reason"] for entry in history] == ["compaction", "normal"]
    assert all([entry["artifacts_loaded"] for entry in history])
