"""What other tools wrote into the two blocks: adopted once, and later session by session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

if TYPE_CHECKING:
    from pathlib import Path


START = "SessionStart.startup.interactive"
END = "SessionEnd.other.interactive"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
A, B, C = (f"claude-session-20260104-1{at}0000-zombie" for at in range(3))


def entry(session_id: str, started_at: str | None = None, **more: Any) -> dict[str, Any]:
    environment = {"hostname": "dev-machine-1", "platform": "linux", "cwd": "/p", "git_commit": None}
    return {
        "session_id": session_id,
        "started_at": started_at or f"2026-01-04T{session_id[24:26]}:00:00Z",
        "phases_completed": ["frame"],
        "environment": environment,
        "artifacts_loaded": ["specification"],
        **more,
    }


def project_with(root: Path, current: str | None, *history: dict[str, Any]) -> Project:
    sessions = {"current_session_id": current, "total_sessions": len(history), "session_history": list(history)}
    return Project.made(root / "project", {**usual_state(), "sessions": sessions})


def write_session(project: Project, *entries: dict[str, Any], **sessions: Any) -> None:
    """Add sessions to the block, as FABER's own agent does."""
    block = project.state["sessions"]
    history = [*block["session_history"], *entries]
    project.change_state(sessions={**block, "session_history": history, "total_sessions": len(history), **sessions})


# A run is adopted


@pytest.mark.parametrize("way", ["session-save", END])
def test_an_entry_that_a_kill_left_open_never_becomes_the_current_session(tmp_path: Path, way: str) -> None:
    project = project_with(tmp_path, B, entry(A), entry(B))
    project.deliver("PostCompact.auto.print", client=ME)  # this client is at work on the run
    assert project.current == B
    if way == "session-save":
        assert f"Session ID: {B}" in project.faber("session-save").stdout
    else:
        project.deliver(way, client=ME)
    first, second = project.history
    assert project.current is None
    assert (first["ended_at"], first["end_reason"]) == (second["started_at"], "abandoned")
    assert (first["phases_completed"], first["artifacts_loaded"]) == (["frame"], ["specification"])
    assert second["end_reason"] in ("manual", "compaction", "normal")
    assert [event["inferred"] for event in project.of_type("session_ended")] == [True, False]
    project.assert_projected()


def test_each_entry_that_was_left_open_ends_at_the_next_ones_start(tmp_path: Path) -> None:
    reloaded = {"last_artifact_reload": "2026-01-05T08:00:00Z", "reload_count": 1, "artifacts_in_context": []}
    project = project_with(tmp_path, "claude-session-20260105-080000-absent", entry(A), entry(B), entry(C))
    project.change_state(context_metadata=reloaded)
    assert project.faber("session-save").returncode == 0
    ends = [one["ended_at"] for one in project.history]
    assert ends[:3] == ["2026-01-04T11:00:00Z", "2026-01-04T12:00:00Z", "2026-01-05T08:00:00Z"]
    assert [one["end_reason"] for one in project.history] == [*["abandoned"] * 3, "manual"]
    project.assert_projected()


def test_a_last_entry_stays_open_where_no_session_is_current(tmp_path: Path) -> None:
    project = project_with(tmp_path, None, entry(A), entry(B))
    assert project.faber("note", "add", "one fact").returncode == 0
    assert ["ended_at" in one for one in project.history] == [True, False]
    assert project.deliver(START, client=ME).packet
    assert project.history[1]["ended_at"] == project.history[2]["started_at"]
    project.assert_projected()


# Another tool writes into the blocks of a run that has a log


def test_a_session_that_another_tool_writes_is_adopted(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.deliver(START, client=ME)
    project.deliver(END, client=ME)
    theirs = entry(A, by="another tool")
    write_session(project, theirs, current_session_id=A)
    assert project.deliver(START, client=ME).packet
    adopted = project.history[1]
    assert adopted["by"] == "another tool"
    assert (adopted["started_at"], adopted["end_reason"]) == (theirs["started_at"], "abandoned")
    assert project.current == project.history[2]["session_id"]
    second = project.of_type("run_adopted")[1]
    assert second["blocks"].count('"session_id"') == 1
    assert len(project.history) == 3
    project.assert_projected()


def test_a_session_written_while_ours_was_open_adds_nothing(tmp_path: Path) -> None:
    """FABER's Frame step calls its own prime-context, whose agent adds a session to the block."""
    project = Project.made(tmp_path / "project")
    project.deliver(START, client=ME)
    session = project.current
    write_session(project, entry(A, project.history[0]["started_at"]), current_session_id=A)
    project.deliver(END, client=ME)
    assert [one["session_id"] for one in project.history] == [session]
    assert len(project.of_type("run_adopted")) == 1
    (line,) = project.log_lines
    assert "state.json differed from the ledger in sessions.current_session_id" in line
    project.assert_projected()


def committed_project(root: Path) -> Project:
    """Return a project with one session, recorded and committed, whose clone can be `pull`ed from."""
    project = Project.made(root / "project")
    assert project.faber("init", "--git-only").returncode == 0
    project.deliver(START, client=ME)
    project.deliver(END, client=ME)
    project.commit("Record a session")
    return project


def test_a_command_adopts_what_a_tool_wrote_before_it_projects(tmp_path: Path) -> None:
    project = committed_project(tmp_path)
    write_session(project, entry(A, by="another tool"))
    project.commit("FABER commits at the end of Frame")
    done = project.faber("seal")
    assert done.returncode == 0, done.stderr
    assert project.history[1]["by"] == "another tool"
    assert [one["blocks"].count('"session_id"') for one in project.of_type("run_adopted")][1:] == [1]
    assert "ledger's values" not in done.stderr
    project.assert_projected()
    count = len(project.events)
    assert project.faber("project").returncode == 0
    assert len(project.events) == count


def test_a_command_says_what_it_writes_over(tmp_path: Path) -> None:
    project = committed_project(tmp_path)
    project.change_state(context_metadata={**project.metadata, "compaction_count": 7})
    (line,) = project.faber("seal").stderr.splitlines()
    assert "state.json differed from the ledger in context_metadata.compaction_count" in line
    assert project.faber("seal").stderr == ""


def test_what_another_tool_changes_is_written_over_and_logged_once(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.deliver(START, client=ME)
    project.change_state(context_metadata={**project.metadata, "compaction_count": 7})
    project.deliver("PostCompact.auto.print", client=ME)
    assert "compaction_count" not in project.metadata
    (line,) = project.log_lines
    assert "context_metadata.compaction_count" in line
    project.deliver(END, client=ME)
    assert len(project.log_lines) == 1
    project.assert_projected()


# A write that failed


def test_a_save_after_a_failed_one_writes_the_state(tmp_path: Path) -> None:
    project = Project.made(tmp_path / "project")
    project.deliver(START, client=ME)
    session = project.current
    project.state_path.chmod(0o444)
    failed = project.faber("session-save")
    assert (failed.returncode, project.current) == (1, session)
    project.state_path.chmod(0o644)
    again = project.faber("session-save")
    assert again.returncode == 0
    assert "⚠️  No current session to end\n⚠️  Session already ended\n" in again.stdout
    assert "state.json did not show the ledger" in again.stdout
    assert "No changes made" not in again.stdout
    assert (project.current, project.history[0]["end_reason"]) == (None, "manual")
    project.assert_projected()
    assert project.faber("session-save").stdout.endswith("   No changes made to state.json\n")
