"""Whole sequences of the client's recorded deliveries, through the installed command."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support.project import PROTOCOL, RUN, Project, answer_of, payload_of
from support.sizes import pair

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.log import Log
from faber_ledger.recording import incoming
from faber_ledger.recording import sessions as decide

if TYPE_CHECKING:
    from pathlib import Path

    from support.project import Answer


STARTUP = "SessionStart.startup.interactive"
COMPACT = "SessionStart.compact.interactive"
RESUME = "SessionStart.resume.interactive"
PRE = "PreCompact.auto.print"
POST = "PostCompact.auto.print"
END = "SessionEnd.other.interactive"
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
OTHER = "896a4fa5-ad77-46c8-a2a2-fd88bd4be979"


def silent(answer: Answer) -> None:
    assert (answer.code, answer.output) == (0, b"")


def hinted(answer: Answer) -> None:
    """The client passes what a PreCompact prints to the summarizer."""
    assert answer.code == 0
    assert answer.hint


def packet(answer: Answer) -> str:
    assert answer.code == 0
    assert answer.packet
    return answer.packet


def reasons(project: Project) -> list[str | None]:
    return [entry.get("end_reason") for entry in project.history]


def ignored(project: Project) -> list[str]:
    return [event["reason"] for event in project.of_type("delivery_ignored")]


# A compaction


def test_a_session_with_a_compaction_becomes_two_sessions(project: Project) -> None:
    me = {"client": ME, "pid": "26210"}
    assert f"# FABER run {RUN}" in packet(project.deliver(STARTUP, **me))
    first = project.current
    (opened,) = project.history
    assert (opened["session_id"], opened["phases_completed"]) == (first, [])
    assert "ended_at" not in opened
    assert opened["environment"]["hostname"] == "dev-machine-1"
    assert opened["environment"]["cwd"] == str(project.root)
    assert opened["environment"]["git_commit"] == project.git("rev-parse", "--short", "HEAD")
    assert project.in_context == ["workflow-state", "orchestration-protocol"]

    phases = {"frame": {"status": "completed"}, "architect": {"status": "completed"}, "build": {"status": "completed"}}
    project.change_state(phases=phases, current_phase="evaluate", current_step="run-tests")
    hinted(project.deliver(PRE, **me))
    assert project.current is None
    (ended,) = project.history
    assert (ended["session_id"], ended["end_reason"]) == (first, "compaction")
    assert ended["phases_completed"] == ["frame", "architect", "build"]
    assert ended["artifacts_loaded"] == ["workflow-state", "orchestration-protocol"]
    assert project.in_context == ["workflow-state", "orchestration-protocol"]

    assert "Phase: evaluate" in packet(project.deliver(COMPACT, **me))
    second = project.current
    assert second not in (first, None)
    silent(project.deliver(POST, **me))
    assert project.current == second
    silent(project.deliver(END, **me))

    assert project.types == [
        "run_adopted",
        "session_started",
        "session_ended",
        "session_started",
        "compaction_completed",
        "session_ended",
    ]
    assert [event["source"] for event in project.of_type("session_started")] == ["startup", "compact"]
    assert [event["client_reason"] for event in project.of_type("session_ended")] == ["auto", "other"]
    (compaction,) = project.of_type("compaction_completed")
    assert (compaction["session_id"], compaction["agent_id"]) == (second, None)
    assert (compaction["phase"], compaction["step"]) == ("evaluate", "run-tests")
    assert [entry["session_id"] for entry in project.history] == [first, second]
    assert reasons(project) == ["compaction", "normal"]
    assert project.current is None
    assert project.metadata["reload_count"] == 2
    (detected,) = project.metadata["compaction_events"]
    assert (detected["phase"], detected["step"]) == ("evaluate", "run-tests")
    project.assert_projected()


def test_every_kind_of_compaction_ends_the_session(project: Project) -> None:
    kinds = ["manual.print", "manual-instr.print", "manual-instr.interactive", "auto.print"]
    for number, kind in enumerate(kinds, 1):
        packet(project.deliver(STARTUP, client=kind, pid=str(number)))
        hinted(project.deliver(f"PreCompact.{kind}", client=kind, pid=str(number)))
        assert reasons(project) == ["compaction"] * number


def test_every_reason_of_a_clients_end_is_a_normal_one(project: Project) -> None:
    for number, reason in enumerate(["clear", "logout", "prompt_input_exit", "resume", "other"], 1):
        packet(project.deliver(STARTUP, client=reason, pid=str(number)))
        silent(project.deliver(END, client=reason, pid=str(number), fields={"reason": reason}))
        assert reasons(project) == ["normal"] * number
        assert project.of_type("session_ended")[-1]["client_reason"] == reason
        assert project.current is None


def test_an_end_after_a_compaction_that_never_came_replaces_the_compaction(project: Project) -> None:
    packet(project.deliver(STARTUP, client=ME, pid="26210"))
    session = project.current
    hinted(project.deliver(PRE, client=ME, pid="26210"))
    assert reasons(project) == ["compaction"]
    project.change_state(phases={"frame": {"status": "completed"}})
    silent(project.deliver("SessionEnd.prompt_input_exit.interactive", client=ME, pid="26210"))
    (entry,) = project.history
    assert (entry["session_id"], entry["end_reason"], entry["phases_completed"]) == (session, "normal", ["frame"])
    assert len(project.of_type("session_ended")) == 2
    project.assert_projected()


def test_a_second_compaction_after_a_failed_one_is_an_end_again(project: Project) -> None:
    packet(project.deliver(STARTUP, client=ME))
    hinted(project.deliver(PRE, client=ME, fields={"prompt_id": "one"}))
    hinted(project.deliver(PRE, client=ME, fields={"prompt_id": "two"}))
    assert len(project.of_type("session_ended")) == 2
    assert reasons(project) == ["compaction"]
    project.assert_projected()


def test_a_subagents_compaction_does_not_end_the_session(project: Project) -> None:
    me = {"client": ME, "pid": "10298"}
    packet(project.deliver(STARTUP, **me))
    session, before = project.current, project.state_path.read_bytes()
    for recorded in ("PreCompact.auto", "SessionStart.compact", "PostCompact.auto"):
        silent(project.deliver(f"subagent.{recorded}.print", **me))
    assert project.state_path.read_bytes() == before
    assert project.current == session
    assert ignored(project) == ["subagent", "subagent"]
    (compaction,) = project.of_type("compaction_completed")
    assert (compaction["agent_id"], "session_id" in compaction) == ("ad48355b1dac2bc7f", False)
    project.assert_projected()


# Clear, resume, fork


def test_a_clear_ends_one_session_and_opens_another(project: Project) -> None:
    packet(project.deliver(STARTUP, client=ME, pid="28220"))
    silent(project.deliver("SessionEnd.clear.interactive", client=ME, pid="28220"))
    assert project.current is None
    packet(project.deliver("SessionStart.clear.interactive", client=OTHER, pid="28220"))
    assert reasons(project) == ["normal", None]
    assert project.of_type("session_ended")[0]["client_reason"] == "clear"
    starts = [recorded for recorded in project.events if recorded["event"]["type"] == "session_started"]
    assert [start["client"] for start in starts] == [ME, OTHER]
    project.assert_projected()


def test_the_next_start_after_a_kill_ends_the_session_as_abandoned(project: Project) -> None:
    packet(project.deliver(STARTUP, client=OTHER, pid="26210"))
    killed = project.current
    packet(project.deliver(RESUME, client=OTHER, pid="30728"))
    first, second = project.history
    assert (first["session_id"], first["end_reason"]) == (killed, "abandoned")
    assert first["ended_at"] == second["started_at"]
    assert project.current == second["session_id"] != killed
    assert [event["inferred"] for event in project.of_type("session_ended")] == [True]
    project.assert_projected()


def test_each_of_two_processes_with_one_client_id_ends_its_own_session(project: Project) -> None:
    packet(project.deliver(RESUME, client=OTHER, pid="30728"))
    packet(project.deliver(RESUME, client=OTHER, pid="30729"))
    first, second = [entry["session_id"] for entry in project.history]
    silent(project.deliver(END, client=OTHER, pid="30728"))
    assert [event["session_id"] for event in project.of_type("session_ended")] == [first, first]
    assert project.current == second
    silent(project.deliver(END, client=OTHER, pid="30729"))
    assert project.of_type("session_ended")[-1]["session_id"] == second
    assert reasons(project) == ["normal", "normal"]
    project.assert_projected()


def test_a_fork_is_a_session_of_its_own(project: Project) -> None:
    packet(project.deliver(STARTUP, pid="26210"))
    silent(project.deliver("SessionEnd.resume.interactive"))
    packet(project.deliver("SessionStart.fork.interactive"))
    silent(project.deliver("SessionEnd.prompt_input_exit.interactive"))
    assert [event["source"] for event in project.of_type("session_started")] == ["startup", "fork"]
    assert [event["client_reason"] for event in project.of_type("session_ended")] == ["resume", "prompt_input_exit"]
    assert reasons(project) == ["normal", "normal"]
    project.assert_projected()


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "mode"), pair(["startup", "resume", "clear", "compact", "fork"], ["interactive", "print"])
)
def test_every_source_opens_a_session_and_gives_the_context(project: Project, source: str, mode: str) -> None:
    recorded = f"SessionStart.{source}.{mode}"
    answer = project.deliver(recorded)
    text = packet(answer)
    assert (answer.message, (answer.message or "") in text) == (f"faber-ledger: run {RUN}, phase build", False)
    assert "\nworkflow-state: .fractary/" in text
    assert "One step after the other." in text
    assert project.in_context == ["workflow-state", "orchestration-protocol"]
    (start,) = [found for found in project.events if found["event"]["type"] == "session_started"]
    assert start["client"] == payload_of(recorded)["stdin"]["session_id"]
    project.assert_projected()


def test_only_a_start_after_a_compaction_loads_what_lists_it(project: Project) -> None:
    lists = {"start": "session_start", "compaction": "compaction_detected", "hand": "manual"}
    for name in lists:
        project.write(f"docs/{name}.md", f"About {name}.\n")
    project.name_artifacts(
        *[{"id": one, "path": f"docs/{one}.md", "reload_triggers": [lists[one]], "required": True} for one in lists]
    )
    packet(project.deliver(STARTUP, client=ME))
    assert project.in_context == ["start"]
    assert "About compaction." in packet(project.deliver(COMPACT, client=ME))
    assert project.in_context == ["start", "compaction"]
    triggers = [load["load_trigger"] for load in project.metadata["artifacts_in_context"]]
    assert triggers == ["session_start", "compaction_detected"]


def test_an_unknown_source_opens_a_session_too(project: Project) -> None:
    packet(project.deliver(STARTUP, fields={"source": "teleport", "novelty": {"a": [1]}}))
    assert [event["source"] for event in project.of_type("session_started")] == ["teleport"]


# The same delivery twice


def twice_at_once(project: Project, recorded: str, **changes: Any) -> list[Answer]:
    content = project.prepared(recorded, **changes)[0]
    processes = [project.started(recorded, **changes) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda process: answer_of(process, content), processes))


@pytest.mark.parametrize("recorded", [PRE, END])
def test_any_delivery_made_twice_at_once_counts_once(project: Project, recorded: str) -> None:
    packet(project.deliver(STARTUP, client=ME, pid="26210"))
    answers = twice_at_once(project, recorded, client=ME, pid="26210")
    assert [answer.code for answer in answers] == [0, 0]
    assert sum(bool(answer.output) for answer in answers) == (recorded == PRE)
    assert ignored(project)[-1] == "repeated"
    assert len(project.types) == 4  # the adoption, the start, what it means, and that it was repeated
    project.assert_projected()


@pytest.mark.parametrize(
    ("recorded", "pids", "age", "is_repeat"),
    [
        *[(STARTUP, ("1", "1"), age, is_repeat) for age, is_repeat in ((29.9, True), (30, False), (-29.9, True))],
        *[
            (END, pids, age, is_repeat)
            for pids in ((None, None), ("1", None))
            for age, is_repeat in ((1.9, True), (2, False))
        ],
        (STARTUP, ("1", "2"), 0.1, False),
        (PRE, ("1", "1"), 2, False),  # a compaction that failed, asked for again
    ],
)
def test_a_repeat_comes_from_one_process_or_within_two_seconds(
    project: Project, recorded: str, pids: tuple[str | None, str | None], age: float, is_repeat: bool
) -> None:
    before, after = pids
    packet(project.deliver(STARTUP, client=ME, env={"CLAUDE_PID": before}))
    project.deliver(recorded, client=ME, env={"CLAUDE_PID": before})
    with Log.read(str(project.ledger_path)) as log:
        view = decide.View(log, {})
        last = view.last_delivery(ME)
        assert last is not None
        at = (seconds_of(last[0]["at"]) or 0) + age
        caller = decide.caller_of({"CLAUDE_CODE_SESSION_ID": ME}, {}, at, "w", None)
        assert incoming.is_repeat(view, caller, {**last[1], "pid": after}) is is_repeat


def test_a_client_resumed_within_seconds_of_a_kill_gets_its_context(project: Project) -> None:
    """Two hooks that are installed twice come within two seconds (spec-and-session-end 6)."""
    older: dict[str, Any] = {"client": ME, "env": {"CLAUDE_PID": None}}
    packet(project.deliver(RESUME, **older))
    project.age_log(4)
    packet(project.deliver(RESUME, **older))
    assert reasons(project) == ["abandoned", None]
    assert ignored(project) == []
    project.assert_projected()


# What the client leaves out


def test_without_input_the_variables_and_the_argument_replace_it(project: Project) -> None:
    packet(project.deliver(STARTUP, client=ME, pid="26210", stdin=b""))
    assert [recorded["client"] for recorded in project.events[1:2]] == [ME]
    hinted(project.deliver(PRE, client=ME, pid="26210", stdin=b""))
    assert reasons(project) == ["compaction"]
    packet(project.deliver(COMPACT, client=ME, pid="26210", stdin=b"\n"))
    silent(project.deliver(END, client=ME, pid="26210", stdin=b""))
    assert reasons(project) == ["compaction", "normal"]
    project.assert_projected()


def test_hooks_answer_to_the_clients_own_names(project: Project) -> None:
    packet(project.deliver(STARTUP, client=ME, argument="SessionStart"))
    hinted(project.deliver(PRE, client=ME, argument="PreCompact"))
    packet(project.deliver(COMPACT, client=ME, argument="SessionStart"))
    silent(project.deliver(POST, client=ME, argument="PostCompact"))
    silent(project.deliver(END, client=ME, argument="SessionEnd"))
    assert reasons(project) == ["compaction", "normal"]
    project.assert_projected()


def test_the_run_is_found_from_a_subdirectory_where_nothing_names_the_project(project: Project) -> None:
    below = project.root / "src" / "deep"
    below.mkdir(parents=True)
    nowhere: dict[str, Any] = {"client": ME, "directory": below, "env": {"CLAUDE_PROJECT_DIR": None}}
    packet(project.deliver(STARTUP, **nowhere, fields={"cwd": str(below)}))
    assert project.history[0]["environment"]["cwd"] == str(below)
    silent(project.deliver(END, **nowhere, without=["cwd"]))
    assert reasons(project) == ["normal"]


def test_the_run_is_that_of_the_clients_project_wherever_it_has_moved(project: Project, tmp_path: Path) -> None:
    elsewhere = Project.made(tmp_path / "another")
    packet(project.deliver(STARTUP, client=ME, directory=elsewhere.root, fields={"cwd": str(elsewhere.root)}))
    assert len(project.history) == 1
    assert not elsewhere.ledger_path.exists()


# Whose session it is


@pytest.mark.parametrize(("status", "recorded"), [("completed", END), ("cancelled", PRE)])
def test_a_run_completed_while_its_session_is_open_is_still_ended(project: Project, status: str, recorded: str) -> None:
    packet(project.deliver(STARTUP, client=ME))
    project.change_state(status=status)
    silent(project.deliver(recorded, client=ME))
    assert project.current is None
    assert reasons(project) == ["normal" if recorded == END else "compaction"]
    assert not (project.run / "state.json.backup").exists()
    project.assert_projected()


def test_a_start_on_a_finished_run_does_nothing_and_says_so(project: Project) -> None:
    status = "completed"
    project.change_state(status=status)
    before = project.state_path.read_bytes()
    answer = project.deliver(STARTUP)
    silent(answer)
    assert "No active workflow found, skipping prime-context" in answer.errors
    (line,) = project.log_lines
    assert "No active workflow found, skipping prime-context" in line
    assert status in line
    assert project.state_path.read_bytes() == before
    assert not project.ledger_path.exists()


@pytest.mark.parametrize(("recorded", "skipped"), [(STARTUP, "prime-context"), (END, "session-end")])
def test_without_an_active_run_nothing_is_recorded_and_the_log_says_why(
    project: Project, recorded: str, skipped: str | None
) -> None:
    project.active_path.unlink()
    (project.root / ".git/faber-ledger/used-runs").unlink()
    answer = project.deliver(recorded)
    assert (answer.code, answer.packet) == (0, None)
    assert answer.output == b""
    said = f"No active workflow found, skipping {skipped or ''}"
    assert said in answer.errors
    assert said in project.log_lines[0]
    assert not project.ledger_path.exists()


def test_a_project_without_faber_is_left_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain")
    project.root.mkdir()
    silent(project.deliver(STARTUP))
    assert list(project.root.iterdir()) == []


# The packet


def test_the_packet_is_the_same_for_the_same_state_whoever_asks(project: Project) -> None:
    texts = {packet(project.deliver(STARTUP, client=ME, pid="1"))}
    project.deliver(END, client=ME, pid="1")  # a session that breaks off is told to the next client
    texts |= {packet(project.deliver(recorded, client=OTHER, pid="2")) for recorded in (RESUME, COMPACT)}
    assert len(texts) == 1
    (text,) = texts
    assert "claude-session-" not in text
    assert ME not in text
    assert project.history[0]["started_at"][:10] not in text


def test_a_required_artifact_that_is_missing_comes_first_and_the_others_follow(project: Project) -> None:
    state = {"id": "workflow-state", "type": "json", "path": ".fractary/runs/{run_id}/state.json", "required": True}
    project.name_artifacts(state, {"id": "orchestration-protocol", "path": PROTOCOL, "required": True})
    packet(project.deliver(STARTUP, client=ME))
    reloaded = project.metadata["last_artifact_reload"]
    (project.root / PROTOCOL).unlink()
    answer = project.deliver(RESUME, client=ME)
    text = packet(answer)
    assert text.startswith("❌ ERROR: Required artifact not found\nArtifact: orchestration-protocol\n")
    recovery, position, shown = (text.index(part) for part in ("Recovery:\n1. ", "# FABER run", "\nworkflow-state: "))
    assert recovery < position < shown
    assert project.metadata["reload_count"] == 1
    assert project.metadata["last_artifact_reload"] == reloaded
    assert project.history[1]["artifacts_loaded"] == project.in_context == ["workflow-state"]
    (failed,) = project.of_type("artifact_failed")
    assert (failed["artifact_id"], failed["required"]) == ("orchestration-protocol", True)
    project.assert_projected()


def test_a_resumed_conversation_gets_what_has_changed(project: Project) -> None:
    """The client adds a text that it has no second time, so the same state gives the same bytes."""

    def given(hook: str) -> str:
        found = project.deliver(hook, client="one").packet or ""
        project.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
        return found

    project.change_state(errors=[{"phase": "build", "error": "3 is not 4"}])
    started, resume = given("SessionStart.startup.print"), "SessionStart.resume.print"
    assert "3 is not 4" in started
    assert given(resume) == started
    known = {"updated_at": "2026-01-05T10:00:00Z"}  # before the conversation's end: it knows what it wrote
    project.change_state(current_phase="evaluate", open_question="60 or 600?", branch={"name": "not a text"}, **known)
    assert "open_question" not in given(resume)
    project.change_state(updated_at="2999-01-05T10:00:00Z")
    changed = given(resume)
    assert '"open_question":"60 or 600?"' in changed
    assert "artifacts that have not changed since are left out.\n" in changed
    assert "Phase: evaluate" in changed
    assert "===== orchestration-protocol" in started
    assert "===== orchestration-protocol" not in changed
    assert given(resume) == changed
    for hook in ("PreCompact.auto.print", "SessionStart.compact.print", "PostCompact.auto.print"):
        compacted = project.deliver(hook, client="one").packet or ""
        assert ("===== orchestration-protocol" in compacted) == (hook == "SessionStart.compact.print")
    project.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    project.change_state(open_question="30?")
    assert "===== orchestration-protocol" not in given(resume)
    project.write(PROTOCOL, "# Another protocol\n")
    assert "# Another protocol" in given(resume)
    project.deliver("SessionStart.startup.print", client="two")  # and is killed: who changes the state is not known
    project.change_state(open_question="90?", **known)
    assert '"open_question":"90?"' in (project.deliver(resume, client="two").packet or "")


def test_a_conversation_that_has_loaded_its_context_by_command_is_not_given_it_again(project: Project) -> None:
    project.change_state(current_phase="frame", phases={"frame": {"status": "in_progress"}})
    loaded = project.said("session-load", env={"CLAUDE_CODE_SESSION_ID": "one"})
    assert "===== orchestration-protocol" in loaded
    resumed = project.deliver("SessionStart.resume.print", client="one").packet or ""
    assert "artifacts that have not changed since are left out.\n" in resumed
    assert "===== orchestration-protocol" not in resumed


def test_only_another_conversation_is_given_an_error_after_which_the_step_went_on(project: Project) -> None:
    project.deliver("SessionStart.startup.print", client="one")
    project.deliver("SessionEnd.prompt_input_exit.interactive", client="one")
    error = "test_add: 3 is not 4, since the cents are rounded twice"
    of_error = {"phase": "build", "step": "implement", "error": error}
    early, late = "2026-01-05T10:00:00Z", "2999-01-05T10:00:00Z"
    for hook, client, at, is_given in (
        ("resume", "one", early, False),
        ("resume", "one", late, True),
        ("startup", "two", early, True),
        ("resume", "one", early, True),
    ):
        project.change_state(current_phase="build", errors=[of_error], updated_at=at)
        packet = project.deliver(f"SessionStart.{hook}.print", client=client).packet or ""
        assert packet.count(error) == packet.count("Last error, perhaps mended since (build:implement): ") == is_given
        project.deliver("SessionEnd.prompt_input_exit.interactive", client=client)
