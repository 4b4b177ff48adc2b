"""`faber-ledger mcp`: an agent without hooks gets its context, records, and its session is in the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.command import COMMAND, run_command
from support.mcp_client import Agent
from support.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.clones import Clone
    from support.mcp_client import Call

READING = {"status", "search"}
CONTEXT: Call = ("context", {})
NOTE: Call = ("note", {"text": "no cache: one query is enough", "kind": "decision"})
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "an_editor\u202e", "version": "1_0"},
}


def agent_in(project: Project, name: str = "cursor-vscode", *words: str, **env: str | None) -> Agent:
    return Agent(project.root, project.environment(env), name, *words)


def sessions(project: Project) -> list[dict[str, Any]]:
    """Return the sessions of the project's run, each as the command shows it."""
    found: list[dict[str, Any]] = json.loads(project.said("replay", "--json"))["data"]["sessions"]
    return found


class Server:
    """The server's process, to which a test writes what it likes."""

    def __init__(self, project: Project) -> None:
        self.process: Any = subprocess.Popen(
            [COMMAND, "mcp"],
            cwd=project.root,
            env=project.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.send("initialize", 1, **INITIALIZE)
        self.answer()
        self.send("notifications/initialized")

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.send("tools/call", 2, name=name, arguments=arguments)
        return self.answer()


@pytest.fixture
def server(project: Project) -> Iterator[Server]:
    made = Server(project)
    yield made
    made.process.kill()
    made.process.wait()
    for stream in (made.process.stdin, made.process.stdout, made.process.stderr):
        with suppress(BrokenPipeError):
            stream.close()


def test_the_tools_say_when_to_call_them_and_which_only_read(project: Project) -> None:
    tools = {tool.name: tool for tool in agent_in(project).list_tools()}
    assert list(tools) == ["context", "status", "search", "reconstitute", "note", "run_start", "run_resume"]
    for name, tool in tools.items():
        assert tool.description is not None
        assert tool.description.startswith("Call this ")
        assert "\n" not in tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (name in READING)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_context_is_the_packet_and_the_session_ends_with_the_input(
    project: Project, tmp_path: Path, mode: str
) -> None:
    wrong = {"FABER_LEDGER_PACKET_BUDGET": "wrong"}  # of which a hook warns outside the packet
    context, again, status = agent_in(project, **wrong).ask(CONTEXT, CONTEXT, ("status", {}), mode=mode)
    assert not context.is_error
    assert again == context
    (session,) = sessions(project)
    assert (session["agent"], session["agent_version"], session["end_reason"]) == ("cursor", "1.2.3", "normal")
    assert f"{session['session_id']}, open since" in status.text
    assert "orchestration-protocol" in project.said("log", "--type", "artifact_loaded")
    assert (
        context.text.rstrip()
        == (Project.made(tmp_path / "same/project").deliver("SessionStart.startup.print").packet or "").rstrip()
    )


def test_reading_opens_no_session(project: Project) -> None:
    answers = agent_in(project).ask(("status", {}), ("search", {"text": "cache"}), ("status", {"run": project.run_id}))
    assert [one.is_error for one in answers] == [False] * 3
    assert not project.clones_log.exists()


def test_a_note_is_in_the_next_sessions_packet_on_another_machine(one: Clone, other: Clone) -> None:
    agent = Agent(one.root, one.environment)
    context, note, found = agent.ask(CONTEXT, NOTE, ("search", {"text": "cache"}))
    assert "✓ Recorded a decision" in note.text
    assert "no cache: one query is enough" in found.text
    assert "no cache" not in context.text
    one.commit("what was decided")
    other.git("pull", "-q")
    delivery = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "there", "cwd": str(other.root)}
    packet = run_command(
        [COMMAND, "hook", "session-start"],
        input=json.dumps(delivery),
        cwd=other.root,
        env=other.environment,
        capture_output=True,
        text=True,
    ).stdout
    assert "no cache: one query is enough" in packet
    assert "no cache: one query is enough" in Agent(other.root, other.environment).ask(CONTEXT)[0].text


def test_a_note_before_the_context_opens_the_session_with_nothing_in_it(project: Project) -> None:
    agent_in(project).ask(NOTE)
    (session,) = sessions(project)
    assert (session["end_reason"], "artifact_loaded" in project.types) == ("normal", False)
    assert [one["event"]["session_id"] for one in project.recorded if one["event"]["type"] == "note_recorded"] == [
        session["session_id"]
    ]


def test_another_active_run_is_a_question_that_yes_answers(project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "-m", "First")
    first, second = project.run_id, project.start_run("1", "--yes")
    asked, still, taken, there = agent_in(project).ask(
        ("run_resume", {"run": first}), ("status", {}), ("run_resume", {"run": first, "yes": True}), ("status", {})
    )
    assert asked.is_error
    assert f"Active: {second}" in asked.text
    assert "Add `yes: true` to take over this worktree." in asked.text
    assert still.text.startswith(f"Run: {second}\n")
    assert not taken.is_error
    assert "context: call `context`" in taken.text
    assert there.text.startswith(f"Run: {first}\n")
    assert [one["end_reason"] for one in sessions(project)] == ["normal"]


def test_a_run_is_started_and_its_session_is_this_agents(project: Project) -> None:
    asked, started, _ = agent_in(project).ask(
        ("run_start", {"work_id": "9"}), ("run_start", {"work_id": "9", "yes": True}), CONTEXT
    )
    assert asked.is_error
    assert "✓ Workflow started: " in started.text
    (session,) = sessions(project)
    assert (session["agent"], session["end_reason"]) == ("cursor", "normal")
    assert "orchestration-protocol" in project.said("log", "--type", "artifact_loaded")


def test_the_session_that_hooks_have_opened_is_used(project: Project) -> None:
    project.deliver("SessionStart.startup.print", client="3f1c", env={"CLAUDE_PID": None})
    answers = agent_in(project, "claude-code").ask(CONTEXT, NOTE)
    assert [one.is_error for one in answers] == [False, False]
    (session,) = sessions(project)
    assert session["end_reason"] is None
    note = project.recorded[-1]
    assert (note["client"], note["event"]["type"]) == ("3f1c", "note_recorded")
    agent_in(project, "cursor-vscode").ask(NOTE)  # of another agent's session this is the end
    assert [one["end_reason"] for one in sessions(project)] == ["abandoned", "normal"]


def test_a_run_that_a_client_with_hooks_starts_has_its_session(project: Project) -> None:
    project.active_path.unlink()
    project.change_state(status="completed")
    project.deliver("SessionStart.startup.print", client="3f1c", pid=str(os.getpid()))  # which starts the server
    started, context = agent_in(project, "claude-code").ask(("run_start", {"work_id": "9"}), CONTEXT)
    assert (started.is_error, context.is_error) == (False, False)
    project.deliver("SessionEnd.other.print", client="3f1c", pid=str(os.getpid()))
    (session,) = sessions(project)
    assert (session["agent"], session["end_reason"]) == ("claude", "normal")


def test_an_inherited_session_is_not_this_agents(project: Project) -> None:
    agent_in(project, CLAUDE_CODE_SESSION_ID="of-the-shell", CLAUDE_PID="1").ask(NOTE)
    assert {one["client"] for one in project.recorded} & {"of-the-shell"} == set()


def test_hostile_text_is_escaped_and_bounded(project: Project) -> None:
    hostile = "\x1b[2J\u202e" + "x" * 100_000
    note, found, wrong, unknown = agent_in(project).ask(
        ("note", {"text": "--yes\x1b[2J\u202e is said"}),
        ("search", {"text": "is said"}),
        ("note", {"text": hostile}),
        ("run_resume", {"run": f"--url=x{hostile}"}),
    )
    assert not note.is_error
    assert "--yes\\x1b[2J\\u202e is said" in found.text
    assert (wrong.is_error, unknown.is_error) == (True, True)
    for answer in (note, found, wrong, unknown):
        assert not {"\x1b", "\u202e"} & set(answer.text)
        assert len(answer.text) < 31_000


def test_standard_output_carries_nothing_but_the_protocol(project: Project, server: Server) -> None:
    project.write(".fractary/faber/config.json", "{not json")
    assert server.call("reconstitute")["jsonrpc"] == "2.0"
    server.send("nonsense", 3)
    assert "error" in server.answer()
    assert server.call("context")["id"] == 2
    output, _ = server.process.communicate(timeout=30)
    assert (output, server.process.returncode) == ("", 0)
    (session,) = sessions(project)
    assert (session["agent"], session["agent_version"], session["end_reason"]) == ("an-editor", "1.0", "normal")


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGTERM, "normal"), (signal.SIGHUP, "normal"), (signal.SIGKILL, "abandoned")]
)
def test_a_signal_ends_the_session_and_a_kill_leaves_it(
    project: Project, server: Server, number: signal.Signals, reason: str
) -> None:
    server.call("context")
    server.process.send_signal(number)
    server.process.wait(timeout=30)
    project.deliver("SessionStart.startup.print")
    assert [one["end_reason"] for one in sessions(project)] == [reason, None]


def test_a_question_opens_no_session_and_ends_none(project: Project, server: Server) -> None:
    project.said("note", "so that there is a ledger")
    before = project.types
    assert server.call("run_start", work_id="9")["result"]["isError"]
    assert server.process.communicate(timeout=30) == ("", "")
    assert project.types == before


def test_a_client_that_dies_before_it_reads_its_answers_ends_its_session(project: Project, server: Server) -> None:
    server.call("context")
    server.process.stdout.close()
    for number in range(5):
        server.send("tools/call", 3 + number, name="note", arguments={"text": f"in flight {number}"})
    server.process.stdin.close()
    assert (server.process.wait(timeout=30), server.process.stderr.read()) == (0, "")
    assert [one["end_reason"] for one in sessions(project)] == ["normal"]


def test_two_servers_of_one_agent_open_a_session_each(project: Project, server: Server) -> None:
    server.call("context")
    agent_in(project, "an-editor").ask(CONTEXT, lambda: server.call("note", text="of the first"), NOTE)
    server.call("note", text="of the first again")
    server.process.communicate(timeout=30)
    assert [one["end_reason"] for one in sessions(project)] == ["normal", "normal"]
    first, second = [one["session_id"] for one in sessions(project)]
    notes = {note["text"]: note["session_id"] for note in project.of_type("note_recorded")}
    assert notes.pop("no cache: one query is enough") == second
    assert {*notes.values()} == {first}


def test_words_of_a_target_are_not_the_commands(project: Project) -> None:
    (started,) = agent_in(project).ask(("run_start", {"target": "Add --yes to deploy", "yes": True}))
    assert f"Workflow started: {project.active_path.read_text().strip()}\n" in started.text


def test_without_a_run_the_agent_is_told_what_to_do(project: Project) -> None:
    def forget_the_run() -> None:
        project.active_path.unlink()

    project.change_state(status="completed")
    agent = agent_in(project, "cursor-vscode", "--project", str(project.root))
    finished, none, note = agent.ask(CONTEXT, forget_the_run, CONTEXT, NOTE)
    assert (finished.is_error, none.is_error, note.is_error) == (True, True, True)
    assert f"{project.run_id} is finished and has no context" in finished.text
    assert "no run is active here" in none.text
    assert "no run is active here" in note.text


def test_a_missing_extra_is_named(project: Project) -> None:
    hidden = project.write("../hidden/mcp/__init__.py", "raise ImportError")
    done = project.faber("mcp", env={"PYTHONPATH": str(hidden.parents[1])})
    assert (done.returncode, done.stdout) == (1, "")
    assert "the MCP server needs the extra faber-ledger[mcp]" in done.stderr
