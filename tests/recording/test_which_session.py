"""Which session a delivery or a command is about: the history is the one that a person would tell."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.project import Project, usual_state

from faber_ledger.ledger.clock import now, utc_text

if TYPE_CHECKING:
    from pathlib import Path

STARTUP = "SessionStart.startup.interactive"
PRE = "PreCompact.auto.print"
COMPACT = "SessionStart.compact.interactive"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
OTHER = "896a4fa5-ad77-46c8-a2a2-fd88bd4be979"
IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": ME, "CLAUDE_PID": "1"}


def me(**more: Any) -> dict[str, Any]:
    return {"client": ME, "pid": "1", **more}


def reasons(project: Project) -> list[str | None]:
    return [entry.get("end_reason") for entry in project.history]


# A session-load


def test_after_a_failed_compaction_a_load_continues_the_clients_session(project: Project) -> None:
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


def test_a_save_ends_the_session_whose_compaction_has_not_come(project: Project) -> None:
    project.deliver(STARTUP, **me())
    project.deliver(PRE, **me())
    for env, reason in (({}, "manual"), (IN_CLIENT, "compaction"), ({**IN_CLIENT, "CLAUDE_PID": "2"}, "manual")):
        done = project.faber("session-save", "--reason", reason, env=env)
        assert "No current session to end" in done.stdout
    saved = project.faber("session-save", env=IN_CLIENT)
    assert "✓ Session ended and saved" in saved.stdout
    assert reasons(project) == ["manual"]
    assert "Session already ended" in project.faber("session-save", env=IN_CLIENT).stdout
    project.assert_projected()


@pytest.mark.parametrize(("is_in_client", "is_alone"), [(True, True), (True, False), (False, True)])
def test_a_save_ends_the_session_that_lives_here_though_another_machine_gave_it_up(
    project: Project, tmp_path: Path, is_in_client: bool, is_alone: bool
) -> None:
    pid = str(os.getpid())
    project.commit("The run")
    project.deliver(STARTUP, **me(pid=pid))
    clone = project.clone(tmp_path / "theirs", "desktop")
    for source, there in ((project, clone), (clone, project)):
        if source is clone:
            clone.deliver(STARTUP, client=OTHER)
            clone.deliver(END, client=OTHER)
        source.said("export", "-o", str(tmp_path / "events.jsonl"))
        there.said("import", str(tmp_path / "events.jsonl"))
    assert reasons(project) == ["abandoned", "normal"]
    if not is_alone:
        project.deliver(STARTUP, client="third", pid=pid)
    done = project.faber("session-save", env={**IN_CLIENT, "CLAUDE_PID": pid} if is_in_client else {})
    assert "✓ Session ended and saved" in done.stdout
    assert reasons(project)[:2] == ["manual", "normal"]
    assert ("Session: " in project.said("status")) != is_alone
    assert ": abandoned" not in project.said("log")  # its own end came later
    lines = project.said("log").splitlines()
    for count in (1, 2, 3):
        assert project.said("log", "-n", str(count)).splitlines() == [*lines[:-1][-count:], lines[-1]]
    assert ": abandoned (inferred)" in project.said("log", "--type", "session_ended")


@pytest.mark.parametrize("env", [IN_CLIENT, {}])
def test_a_save_does_not_end_the_session_of_another_machine(
    project: Project, tmp_path: Path, env: dict[str, str]
) -> None:
    project.commit("The run")
    project.deliver(STARTUP, **me())
    assert "✓ Session ended and saved" in project.faber("session-save", env=IN_CLIENT).stdout
    project.commit("The first session")
    clone = project.clone(tmp_path / "theirs", "desktop")
    clone.deliver(STARTUP, client=OTHER)
    clone.said("export", "-o", str(tmp_path / "events.jsonl"))
    project.said("import", str(tmp_path / "events.jsonl"))
    assert "⚠️  No current session to end\n" in project.faber("session-save", env=env).stdout
    assert reasons(project) == ["manual", None]


def test_a_session_that_was_given_up_here_is_neither_open_nor_ended_by_another(project: Project) -> None:
    """Whether its client lives is not known."""
    project.deliver(STARTUP, client=OTHER, env={"CLAUDE_PID": None})
    project.deliver(STARTUP, **me())
    assert "✓ Session ended and saved" in project.faber("session-save", env=IN_CLIENT).stdout
    assert "Session: " not in project.said("status")
    for env in (IN_CLIENT, {}):
        assert "No current session to end" in project.faber("session-save", env=env).stdout
    assert reasons(project) == ["abandoned", "manual"]


# A run that is finished while its session is open


def test_the_end_of_a_compaction_that_came_stays_on_a_finished_run(project: Project) -> None:
    project.deliver(STARTUP, **me())
    project.put_state(project.state | {"status": "completed", "completed_at": "2030-01-01T00:00:00Z"})
    project.deliver(PRE, **me())
    project.deliver(POST, **me())
    before = project.ledger_path.read_bytes()
    project.deliver(END, **me())
    assert reasons(project) == ["compaction"]
    assert project.ledger_path.read_bytes() == before


def test_a_save_after_the_end_of_a_finished_and_committed_run_writes_nothing(project: Project) -> None:
    project.deliver(STARTUP, **me())
    project.change_state(status="completed", completed_at="2030-01-01T00:00:00Z")
    project.said("seal")
    project.commit("Done")
    for hook in (PRE, POST):  # the seal's inferred end was another
        project.deliver(hook, **me())
    saved = project.faber("session-save", env=IN_CLIENT).stdout
    assert saved.startswith("⚠️  No current session to end\n⚠️  Session already ended\n")
    assert saved.endswith("   No changes made to state.json\n")


@pytest.mark.parametrize("then", ["compaction", "another client"])
def test_a_load_opens_a_session_after_a_compaction_or_another_client(project: Project, then: str) -> None:
    project.deliver(STARTUP, **me())
    project.deliver(PRE, **me())
    if then == "compaction":
        project.deliver(POST, **me())
    env = {**IN_CLIENT, **({"CLAUDE_CODE_SESSION_ID": OTHER} if then == "another client" else {})}
    assert "New session detected" in project.faber("session-load", env=env).stdout
    assert len(project.history) == 2
    project.assert_projected()


def test_a_run_resumed_in_a_client_has_an_empty_context(project: Project) -> None:
    project.deliver(STARTUP, client=OTHER)
    assert project.in_context
    assert project.faber("run", "resume", project.run_id, env=IN_CLIENT).returncode == 0
    assert project.in_context == []
    done = json.loads(project.faber("session-load", "--json", env=IN_CLIENT).stdout)
    assert len(done["data"]["loaded"]) == 2
    assert len(project.history) == 2
    project.assert_projected()


# A run that another tool starts in the middle of a client's session


def text_at(ago: float) -> str:
    return utc_text(now() - ago)


def faber_starts(project: Project, run_id: str, **more: Any) -> Project:
    """Start a run as FABER does: its state and the active file, without a word to faber-ledger."""
    started = Project(project.root, run_id)
    started.run.mkdir(parents=True)
    started.put_state({**usual_state(run_id), "phases": {}, "current_phase": "frame", "started_at": text_at(0), **more})
    started.active_path.parent.mkdir(parents=True, exist_ok=True)
    started.active_path.write_text(f"{run_id}\n")
    return started


@pytest.fixture
def plain(tmp_path: Path) -> Project:
    """Make a project that uses FABER, in which no run was started yet."""
    project = Project.made(tmp_path / "project")
    shutil.rmtree(project.run)
    project.active_path.unlink()
    return project


def test_the_session_in_which_faber_starts_a_run_is_recorded(plain: Project) -> None:
    assert plain.deliver(STARTUP, **me()).packet is None
    run = faber_starts(plain, "run-1")
    run.change_state(phases={"frame": {"status": "completed"}, "architect": {"status": "completed"}})
    assert run.deliver(END, **me()).output == b""
    (entry,) = run.history
    assert (entry["started_at"], entry["end_reason"]) == (run.state["started_at"], "normal")
    assert entry["phases_completed"] == ["frame", "architect"]
    assert entry["environment"]["cwd"] == str(run.root)
    assert run.current is None
    (start,) = run.of_type("session_started")
    assert (start["source"], start["empties_context"], start["phases_completed"]) == ("inferred", False, [])
    run.assert_projected()


def test_a_serial_batch_has_each_session_on_its_run(plain: Project) -> None:
    """One client carries out three runs; FABER moves the active file."""
    first = faber_starts(plain, "run-1")
    assert first.deliver(STARTUP, **me()).packet
    first.change_state(status="completed", completed_at=text_at(0))
    second = faber_starts(plain, "run-2")
    second.deliver(PRE, **me())
    assert second.deliver(COMPACT, **me()).packet
    second.change_state(status="completed", completed_at=text_at(0))
    third = faber_starts(plain, "run-3")
    third.deliver(END, **me())
    assert [reasons(run) for run in (first, second)] == [["normal"], ["compaction", "normal"]]
    assert [run.current for run in (first, second)] == [None] * 2
    assert not third.ledger_path.exists()
    for run in (first, second):
        run.assert_projected()


def test_a_run_that_ends_within_a_session_has_that_session(plain: Project) -> None:
    plain.deliver(STARTUP, **me())
    run = faber_starts(plain, "run-1", started_at=text_at(3))
    run.change_state(status="completed", completed_at=text_at(-5))
    run.deliver(END, **me())
    assert reasons(run) == ["normal"]
    run.assert_projected()


def test_a_client_that_came_after_the_end_has_no_session(plain: Project) -> None:
    run = faber_starts(plain, "run-1", status="completed", completed_at="2026-01-01T00:00:00Z")
    plain.deliver(STARTUP, **me())
    for end in (PRE, END):
        assert run.deliver(end, **me()).output == b""
    assert sorted(path.name for path in run.run.iterdir()) == ["state.json"]
    assert not (run.root / ".git" / "faber-ledger" / "runs").exists()


# A stray end


def test_the_end_of_a_client_that_came_after_the_run_is_nothing_to_say(project: Project) -> None:
    project.deliver(STARTUP, **me())
    project.deliver(END, **me())
    project.change_state(status="completed", completed_at="2026-01-01T00:00:00Z")
    before = project.log_lines
    for hook in (STARTUP, END):
        project.deliver(hook, client=OTHER, pid="2")
    (said,) = project.log_lines[len(before) :]
    assert "No active workflow found" in said


def test_the_end_of_an_unknown_client_touches_no_tracked_file(project: Project) -> None:
    """As `claude mcp list` and `claude plugin install` send one."""
    project.deliver(STARTUP, **me())
    project.commit()
    for _ in range(2):
        assert project.deliver(END, client=OTHER, pid="2").output == b""
    assert project.git("status", "--porcelain", "--", str(project.run)) == ""
    (line, *_) = project.log_lines
    assert "this client has no session on" in line
    assert project.current is not None
    project.assert_projected()


def test_a_known_client_ends_a_session_that_no_client_opened(project: Project) -> None:
    assert project.faber("session-load").returncode == 0
    session = project.current
    project.deliver(END, **me())
    assert project.current == session
    project.deliver(POST, **me())  # the client is at work here
    project.deliver(END, **me())
    assert [one["session_id"] for one in project.history] == [session]
    assert reasons(project) == ["normal"]
    project.assert_projected()


def test_the_session_that_faber_wrote_at_the_start_is_the_clients(plain: Project) -> None:
    """FABER's own session protocol writes an open session into the state; it is not a second one."""
    other = faber_starts(plain, "run-0")
    other.deliver(STARTUP, **me())
    session = "claude-session-20260105-143022-faber1"
    entry = {"session_id": session, "started_at": text_at(0), "artifacts_loaded": ["specification"]}
    sessions = {"current_session_id": session, "total_sessions": 1, "session_history": [entry]}
    run = faber_starts(plain, "run-1", sessions=sessions)
    assert run.deliver(PRE, **me()).hint
    assert [(one["session_id"], one["end_reason"]) for one in run.history] == [(session, "compaction")]
    assert reasons(other) == ["normal"]  # it was left
    assert run.deliver(PRE, **me()).output == b""  # the hooks are installed twice
    run.deliver(END, **me())  # the compaction failed
    assert [(one["session_id"], one["end_reason"]) for one in run.history] == [(session, "normal")]
    assert run.history[0]["environment"]["hostname"] == "dev-machine-1"
    run.assert_projected()


def test_a_start_in_a_client_says_that_nothing_is_loaded(plain: Project) -> None:
    for run_id, environment, is_said in (("a", {}, False), ("b", IN_CLIENT, True)):
        done = plain.faber("run", "start", "--work-id", "1", "--run-id", run_id, "--yes", env=environment)
        assert done.returncode == 0, done.stderr
        assert ("run `faber-ledger session-load`" in done.stdout) is is_said
    resumed = [plain.faber("run", "resume", "a", "--yes", env=IN_CLIENT).stdout for _ in range(2)]
    assert ["run `faber-ledger session-load`" in text for text in resumed] == [True, False]


# An open session on a run that is completed


def test_status_proposes_no_end_of_a_finished_runs_session(project: Project, tmp_path: Path) -> None:
    """FABER commits the run inside its last session."""
    assert project.faber("init").returncode == 0
    project.deliver(STARTUP, **me())
    project.change_state(status="completed", completed_at=text_at(0))
    project.commit("The run")
    clones = (project.clone(tmp_path / "theirs", "desktop"), project.clone(tmp_path / "again", project.hostname))
    for clone in (project, *clones):
        status = clone.faber("status", project.run_id).stdout
        assert ("begun on dev-machine-1" in status) == (clone is not project)
        assert "session-save" not in status
    project.deliver(END, **me())
    assert "Session: " not in project.faber("status", project.run_id).stdout


def test_status_names_every_open_session(project: Project, tmp_path: Path) -> None:
    """Two clones that start without each other's events have a session each."""
    project.commit("The run")
    clone = project.clone(tmp_path / "theirs", "desktop")
    for one in (project, clone):
        one.deliver(STARTUP, **me(client=one.hostname))
    mine, theirs = project.history[-1]["session_id"], clone.history[-1]["session_id"]
    for one, other in ((project, clone), (clone, project)):
        events = one.faber("export", "-o", str(tmp_path / f"{one.hostname}.jsonl"))
        assert other.faber("import", str(tmp_path / f"{one.hostname}.jsonl")).returncode == 0, events.stderr
    for one, own, other in ((project, mine, theirs), (clone, theirs, mine)):
        said = one.faber("status").stdout
        assert f"Session: {own}, " in said  # the one that lives here
        assert f"; also open: {other} on " in said
