"""Other agents: their deliveries are recorded as the client's are, and they get the packet in the form that they take.

The deliveries were written after the agents' documentation; none was recorded from a real agent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.command import COMMAND, run_command
from support.loaded_modules import loaded_by
from support.project import FIXTURES, Answer, Project
from support.sizes import pair

from faber_ledger.context.packet import END
from faber_ledger.hooks import agent_transcripts
from faber_ledger.ledger.clock import seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DELIVERIES = FIXTURES / "agents"
PROMPT = "Go on with the retry limit"
# An agent's start, compaction, prompt and end.
STORIES = {
    "codex": ("SessionStart.startup", "PreCompact.auto", "SessionStart.compact", "SessionEnd"),
    "copilot": ("sessionStart.new", "preCompact.auto", "userPromptTransformed", "sessionEnd.user_exit"),
    "gemini": ("SessionStart.startup", "PreCompress.manual", "BeforeAgent", "SessionEnd.exit"),
}
FROM_TABLE = sorted({path.parent.name for path in DELIVERIES.glob("*/*.json")})


def content_of(project: Project, agent: str, recorded: str, **fields: Any) -> bytes:
    text = (DELIVERIES / agent / f"{recorded}.json").read_text()
    return json.dumps(json.loads(text.replace("ROOT", str(project.root))) | fields).encode()


def hook(project: Project, *arguments: str, stdin: bytes = b"", env: Mapping[str, str | None] | None = None) -> Answer:
    done = run_command(
        [COMMAND, "hook", *arguments], cwd=project.root, env=project.environment(env), input=stdin, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def deliver(project: Project, agent: str, recorded: str, **fields: Any) -> str:
    """Deliver a documented payload under the agent's own name of its event; return what is printed."""
    content = content_of(project, agent, recorded, **fields)
    return hook(project, "--agent", agent, recorded.partition(".")[0], stdin=content).output.decode()


def packet_in(agent: str, output: str, *, is_prompt: bool = False) -> str:
    """Return the packet of an answer, which has exactly the documented form."""
    answer = json.loads(output)
    answer.pop("systemMessage", None)
    if agent in ("codex", "gemini"):
        name = "BeforeAgent" if is_prompt else "SessionStart"
        assert answer.keys() == {"hookSpecificOutput"}
        assert answer["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
        assert answer["hookSpecificOutput"]["hookEventName"] == name
        packet = answer["hookSpecificOutput"]["additionalContext"]
    else:
        key = "modifiedTransformedPrompt" if is_prompt else "additionalContext"
        assert answer.keys() == {key}
        packet = answer[key]
    assert isinstance(packet, str)
    return packet


@pytest.mark.parametrize("agent", STORIES)
def test_a_session_with_a_compaction_gets_the_packet_twice(project: Project, agent: str) -> None:
    start, compaction, again, end = STORIES[agent]
    first = packet_in(agent, deliver(project, agent, start))
    assert project.run_id in first
    assert deliver(project, agent, compaction).strip() == ("{}" if agent == "gemini" else "")
    assert [entry["end_reason"] for entry in project.history] == ["compaction"]
    second = packet_in(agent, deliver(project, agent, again), is_prompt=agent in ("copilot", "gemini"))
    assert project.run_id in second
    assert second.endswith(PROMPT) == (agent == "copilot")
    assert [one["source"] for one in project.of_type("session_started")][-1] == "compact"
    assert len(project.history) == 2
    deliver(project, agent, end)
    assert project.current is None
    assert [entry["end_reason"] for entry in project.history] == ["compaction", "normal"]
    project.assert_projected()


@pytest.mark.parametrize("agent", ["copilot", "gemini"])
def test_a_prompt_gets_the_packet_once_and_only_after_a_compaction(project: Project, agent: str) -> None:
    start, compaction, prompt, _ = STORIES[agent]
    deliver(project, agent, start)
    assert deliver(project, agent, prompt).strip() in ("", "{}")
    deliver(project, agent, compaction)
    assert project.run_id in deliver(project, agent, prompt)
    before = project.events
    assert deliver(project, agent, prompt, timestamp="2026-01-05T15:00:00.000Z").strip() in ("", "{}")
    assert project.events == before
    deliver(project, agent, compaction, timestamp="2026-01-05T15:01:00.000Z")
    deliver(project, agent, start, timestamp="2026-01-05T15:02:00.000Z")  # it brings the packet
    assert deliver(project, agent, prompt, timestamp="2026-01-05T15:03:00.000Z").strip() in ("", "{}")


def test_the_compression_that_gemini_announces_at_every_prompt_is_not_recorded(project: Project) -> None:
    deliver(project, "gemini", "SessionStart.startup")
    before = project.events
    for minute in range(3):
        time = f"2026-01-05T15:0{minute}:00.000Z"
        assert json.loads(deliver(project, "gemini", "BeforeAgent", timestamp=time)) == {}
        assert json.loads(deliver(project, "gemini", "PreCompress.auto", timestamp=time)) == {}
    assert project.events == before
    assert json.loads(deliver(project, "gemini", "PreCompress.manual")) == {}
    assert [entry["end_reason"] for entry in project.history] == ["compaction"]


@pytest.mark.parametrize(
    ("agent", "start", "env", "shown"),
    [
        ("codex", "SessionStart.startup", {}, "codex 0.169.0"),
        ("copilot", "sessionStart.new", {"COPILOT_CLI_BINARY_VERSION": "1.0.102"}, "copilot 1.0.102"),
        ("gemini", "SessionStart.startup", {}, "gemini"),
    ],
)
def test_agent_and_version_are_recorded_and_shown(
    project: Project, agent: str, start: str, env: dict[str, str], shown: str
) -> None:
    transcript = project.root.parent / "rollout.jsonl"
    meta = {"type": "session_meta", "payload": {"originator": "codex_exec", "cli_version": "0.169.0"}}
    transcript.write_text(json.dumps(meta, separators=(",", ":")) + "\n")
    content = content_of(project, agent, start, transcript_path=str(transcript))
    inherited = {"AI_AGENT": "claude-code_2-1-330_harness", **env}
    hook(project, "--agent", agent, start.partition(".")[0], stdin=content, env=inherited)
    name, _, version = shown.partition(" ")
    (started,) = project.of_type("session_started")
    assert (started["agent"], started.get("agent_version", "")) == (name, version)
    page = project.said("timeline", "--output", "-")
    assert f" by {shown} on " in page
    for command in (
        ("status",),
        ("log",),
        ("replay",),
        ("replay", "--at", "2100-01-01T00:00:00Z"),
        ("show", str(project.current)),
    ):
        assert shown in project.said(*command), command
    assert f"  {name}  " in project.said("run", "list")
    assert json.loads(project.said("status", "--json"))["data"]["agent"] == name
    assert json.loads(project.said("run", "list", "--json"))["data"][0]["agent"] == name


def test_the_clients_sessions_are_recorded_as_its_own(project: Project) -> None:
    hook(project, "session-start", stdin=b'{"session_id": "c-1", "source": "startup"}')
    assert [one.get("agent") for one in project.of_type("session_started")] == [None]
    env = {"AI_AGENT": "claude-code_2-1-330_harness"}
    hook(project, "session-start", stdin=b'{"session_id": "c-2", "source": "startup"}', env=env)
    started = project.of_type("session_started")[-1]
    assert (started["agent"], started["agent_version"]) == ("claude", "2.1.330")
    assert "session started (startup) by claude 2.1.330 on" in project.said("log")
    assert "agent" not in project.said("replay")
    assert "(claude 2.1.330)" in project.said("status")


def test_three_agents_on_one_day_have_each_session_once(project: Project) -> None:
    env = {"AI_AGENT": "claude-code_2-1-330_harness", "CLAUDE_PID": "7"}
    hook(project, "session-start", stdin=b'{"session_id": "c-1", "source": "startup"}', env=env)
    hook(project, "session-end", stdin=b'{"session_id": "c-1", "reason": "other"}', env=env)
    for agent, start, end in (
        ("codex", "SessionStart.startup", "SessionEnd"),
        ("copilot", "sessionStart.new", "sessionEnd.user_exit"),
    ):
        deliver(project, agent, start)
        deliver(project, agent, end)
    sessions = json.loads(project.said("replay", "--json"))["data"]["sessions"]
    assert [(one["agent"], one["end_reason"]) for one in sessions] == [
        ("claude", "normal"),
        ("codex", "normal"),
        ("copilot", "normal"),
    ]


def test_a_command_in_an_agents_shell_knows_its_session(project: Project) -> None:
    deliver(project, "codex", "SessionStart.startup", session_id="codex-1")
    (session_id,) = [entry["session_id"] for entry in project.history]
    env = {"CODEX_SESSION_ID": "codex-1", "CODEX_VERSION": "0.169.0"}
    project.said("session-load", env=env)
    assert project.current == session_id
    project.said("session-load", env={**env, "CODEX_SESSION_ID": "codex-2"})
    assert len(project.history) == 2
    started = project.of_type("session_started")[-1]
    assert (started["agent"], started["agent_version"]) == ("codex", "0.169.0")


@pytest.mark.parametrize("source", ["clear", "resume"])
def test_gemini_gets_the_packet_of_a_deaf_start_with_its_next_prompt(project: Project, source: str) -> None:
    assert json.loads(deliver(project, "gemini", "SessionStart.startup", source=source)) == {}
    (row,) = json.loads(project.said("run", "list", "--json"))["data"]
    assert row["sessions"] == 0  # nothing was given yet
    packet = packet_in("gemini", deliver(project, "gemini", "BeforeAgent"), is_prompt=True)
    assert project.run_id in packet
    assert [one["source"] for one in project.of_type("session_started")] == [source]
    assert project.of_type("context_reloaded")
    assert json.loads(deliver(project, "gemini", "BeforeAgent")) == {}
    assert len(project.history) == 1


def test_an_end_before_the_first_prompt_ends_no_earlier_session(project: Project) -> None:
    deliver(project, "gemini", "SessionStart.startup")
    deliver(project, "gemini", "SessionEnd.exit")
    before = project.events
    deliver(project, "gemini", "SessionStart.startup", source="resume")
    deliver(project, "gemini", "SessionEnd.exit")
    assert project.events == before


def test_three_ends_at_one_exit_are_one(project: Project) -> None:
    deliver(project, "gemini", "SessionStart.startup")
    for second in range(3):
        deliver(project, "gemini", "SessionEnd.exit", timestamp=f"2026-01-05T15:00:0{second}.000Z")
    assert len(project.of_type("session_ended")) == 1
    assert project.of_type("delivery_ignored") == []
    assert [entry["end_reason"] for entry in project.history] == ["normal"]


COPILOTS = {"COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": "ROOT", "COPILOT_CLI_BINARY_VERSION": "1.0.102"}


def session_of(project: Project, agent: str) -> str:
    """Return the session id of an agent's deliveries."""
    values = json.loads(content_of(project, agent, STORIES[agent][0]))
    return str(values.get("session_id") or values["sessionId"])


def age(path: Path, seconds: float) -> float:
    """Let a file have been changed some seconds ago; return when."""
    at = time.time() - seconds
    path.touch()
    os.utime(path, (at, at))
    return at


@pytest.mark.parametrize("is_next_started", [False, True])
def test_an_end_long_after_the_transcripts_last_change_has_its_time(
    project: Project, monkeypatch: pytest.MonkeyPatch, is_next_started: bool
) -> None:
    transcript = project.root.parent / "rollout.jsonl"
    two_hours_ago = age(transcript, 7_200)
    monkeypatch.setenv("FABER_LEDGER_TEST_CLOCK", str(two_hours_ago - 600))
    deliver(project, "codex", "SessionStart.startup", transcript_path=str(transcript))
    monkeypatch.delenv("FABER_LEDGER_TEST_CLOCK")
    if is_next_started:  # the first session is abandoned at this moment
        deliver(project, "codex", "SessionStart.startup", session_id="next")
    deliver(project, "codex", "SessionEnd", transcript_path=str(transcript))
    ended = project.history[0]
    assert (ended["end_reason"], seconds_of(ended["ended_at"])) == ("normal", int(two_hours_ago))
    assert project.of_type("session_ended")[-1]["inferred"] is True
    project.assert_projected()


def test_an_open_session_shows_when_its_client_was_heard_of_last(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = project.root.parent / "rollout.jsonl"
    age(transcript, 3 * 3600 + 60)
    monkeypatch.setenv("FABER_LEDGER_TEST_CLOCK", str(time.time() - 4 * 3600))
    deliver(project, "codex", "SessionStart.startup", transcript_path=str(transcript))
    monkeypatch.delenv("FABER_LEDGER_TEST_CLOCK")
    assert ", last heard 3 hours ago" in project.said("status")
    age(transcript, 60)
    assert "last heard" not in project.said("status")


def test_codex_gets_the_position_alone_with_a_resume_that_changes_nothing(project: Project) -> None:
    specification = project.root / "specs/258.md"
    specification.parent.mkdir()
    specification.write_text("# Retry limit\n\n" + "- [ ] a retry ends after the fifth time\n" * 20)
    project.change_state(artifacts={"spec_path": "specs/258.md"})
    whole = packet_in("codex", deliver(project, "codex", "SessionStart.startup"))

    def resume() -> str:
        deliver(project, "codex", "SessionEnd")
        return packet_in("codex", deliver(project, "codex", "SessionStart.startup", source="resume"))

    first, second = resume(), resume()
    for packet in (first, second):
        assert "artifacts that have not changed since are left out." in packet
        assert len(packet) < len(whole) / 2
    assert project.of_type("artifact_loaded")[-1]["session_id"] == project.current
    specification.write_text(specification.read_text() + "One more criterion.\n")
    assert "One more criterion." in resume()
    assert "artifacts that have not changed since are left out." in resume()
    deliver(project, "codex", "PreCompact.auto")
    assert "One more criterion." in resume()


SAID = 'The limit is half "done", in retry.py\nNext: a test'


def test_codexs_summary_is_recorded_with_the_compactions_end(project: Project) -> None:
    transcript = project.root.parent / f"rollout-{session_of(project, 'codex')}.jsonl"
    said = "Another model wrote this, use it to assist with your own analysis:\n"
    lines = [{"payload": {"message": f"{said}{text}"}, "of": "x"} for text in ("an older one", SAID)]
    transcript.write_text(
        "".join([json.dumps({"type": "compacted", **line}, separators=(",", ":")) + "\n" for line in lines])
    )
    for recorded in ("SessionStart.startup", "PreCompact.auto", "PostCompact.auto"):
        deliver(project, "codex", recorded, transcript_path=str(transcript))
    old = '{"timestamp":"2026-01-05T14:31:02Z","type":"compacted","payload":{"message":"long ago"}}'
    transcript.write_text(old)
    for recorded in ("PreCompact.auto", "PostCompact.auto"):
        deliver(project, "codex", recorded, trigger="manual", transcript_path=str(transcript))
    assert "summary" not in project.of_type("compaction_completed").pop()
    assert [one["summary"] for one in project.of_type("compaction_completed")[:1]] == [SAID]


def test_copilots_summary_is_recorded_at_the_next_prompt(project: Project) -> None:
    folder = project.root.parent / session_of(project, "copilot")
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/001-first.md").write_text("an older one")
    where = {"transcriptPath": str(folder / "events.jsonl")}
    deliver(project, "copilot", "sessionStart.new")
    deliver(project, "copilot", "preCompact.auto", **where)
    (folder / "checkpoints/002-second.md").write_text(f"{SAID} password=hunter22-long")
    (folder / "checkpoints/index.md").write_text("a table")
    assert project.run_id in deliver(project, "copilot", "userPromptTransformed")
    (ended,) = project.of_type("compaction_completed")
    assert ended["summary"].startswith(SAID)
    assert "hunter22" not in ended["summary"]


@pytest.mark.parametrize("is_announced", [True, False])
def test_geminis_compression_is_seen_at_the_next_prompt(project: Project, is_announced: bool) -> None:
    transcript = project.root.parent / f"session-x-{session_of(project, 'gemini')[:8]}.jsonl"
    where = {"transcript_path": str(transcript)}
    deliver(project, "gemini", "SessionStart.startup", **where)
    transcript.write_text("")
    assert json.loads(deliver(project, "gemini", "BeforeAgent", **where)) == {}
    if is_announced:
        deliver(project, "gemini", "PreCompress.manual", **where)
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    history = {"$set": {"messages": [{"content": [{"text": f"<state_snapshot>{SAID}</state_snapshot>"}]}]}}
    info = {
        "id": "1",
        "timestamp": at,
        "type": "info",
        "content": "" if is_announced else "Context compressed from 9% to 0%.",
    }
    transcript.write_text("".join([json.dumps(line, separators=(",", ":")) + "\n" for line in (history, info)]))
    assert project.run_id in packet_in("gemini", deliver(project, "gemini", "BeforeAgent", **where), is_prompt=True)
    assert json.loads(deliver(project, "gemini", "BeforeAgent", **where)) == {}
    ended = {"trigger": "manual" if is_announced else "auto", "summary": SAID}
    assert [{name: one[name] for name in ended} for one in project.of_type("compaction_completed")] == [ended]
    assert [one.get("end_reason") for one in project.history] == ["compaction", None]
    assert [one["source"] for one in project.of_type("session_started")] == ["startup", "compact"]
    project.assert_projected()


def test_a_history_of_another_form_brings_the_packet_without_a_summary(project: Project) -> None:
    transcript = project.root.parent / f"session-x-{session_of(project, 'gemini')[:8]}.jsonl"
    where = {"transcript_path": str(transcript)}
    deliver(project, "gemini", "SessionStart.startup", **where)
    deliver(project, "gemini", "PreCompress.manual", **where)
    at = datetime.now(UTC).isoformat()
    info = f'"timestamp":"{at}","type":"info","content":""'
    transcript.write_text("<state_snapshot>" * 4_000 + '<state_snapshot>a "quote"\n</state_snapshot>' + info)
    assert project.run_id in packet_in("gemini", deliver(project, "gemini", "BeforeAgent", **where), is_prompt=True)
    assert project.of_type("compaction_completed") == []


def test_an_end_that_nobody_reads_the_answer_of_leaves_nothing(project: Project) -> None:
    deliver(project, "gemini", "SessionStart.startup")
    ours, theirs = os.pipe()
    os.close(ours)
    content = content_of(project, "gemini", "SessionEnd.exit")
    command = [str(COMMAND), "hook", "--agent", "gemini", "SessionEnd"]
    done = subprocess.run(
        command,
        check=False,
        cwd=project.root,
        env=project.environment(),
        input=content,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "waits to be recorded" not in project.said("status")


@pytest.mark.parametrize(
    ("recorded", "has_summary", "compressed_itself"),
    [
        ("codex/rollout.compacted", True, False),
        ("gemini/chat", False, False),
        ("gemini/chat.compressed.auto", True, True),
        ("gemini/chat.compressed.manual", True, False),
        ("gemini/chat.not-compressed.manual", False, True),  # an older one, which was made by itself
    ],
)
def test_recorded_histories_have_their_summaries(recorded: str, has_summary: bool, compressed_itself: bool) -> None:
    path = str(DELIVERIES / f"{recorded}.jsonl")
    read = agent_transcripts.READERS["rollout" if recorded.startswith("codex") else "snapshot"]
    assert ((read(path, 0) or "").find("the retry limit is half done") >= 0) is has_summary
    assert (agent_transcripts.compressed_at(path) is not None) is compressed_itself


def test_a_transcript_of_another_session_is_not_read(project: Project) -> None:
    transcript = project.root.parent / "rollout-another.jsonl"
    transcript.write_text(json.dumps({"type": "compacted", "payload": {"message": SAID}}, separators=(",", ":")))
    for recorded in ("SessionStart.startup", "PreCompact.auto", "PostCompact.auto"):
        deliver(project, "codex", recorded, transcript_path=str(transcript))
    assert [one.get("summary") for one in project.of_type("compaction_completed")] == [None]


@pytest.mark.parametrize("is_own_first", [True, False])
def test_one_session_from_two_files_of_copilots_is_recorded_once(project: Project, is_own_first: bool) -> None:
    env = COPILOTS | {"COPILOT_PROJECT_DIR": str(project.root)}
    answers = []
    for ours, theirs, event, word in (
        ("session-start", "sessionStart", "SessionStart", {"source": "new"}),
        ("session-end", "sessionEnd", "SessionEnd", {"reason": "user_exit"}),
    ):
        own = {"sessionId": "copilot-1", "timestamp": 1795487511723, "cwd": str(project.root), **word}
        named = {"hook_event_name": event, "timestamp": "2026-11-24T02:40:12.712Z", "session_id": "copilot-1"}
        calls = [(("--agent", "copilot", theirs), own), ((ours,), named | {"cwd": str(project.root), **word})]
        for words, content in calls if is_own_first else calls[::-1]:
            answers.append(hook(project, *words, stdin=json.dumps(content).encode(), env=env).output.decode())
    assert [bool(answer) for answer in answers] == [True, False, False, False]
    assert project.run_id in packet_in("copilot", answers[0])
    assert [one["agent"] for one in project.of_type("session_started")] == ["copilot"]
    assert [entry["end_reason"] for entry in project.history] == ["normal"]
    assert project.of_type("delivery_ignored") == []


def test_a_packet_for_codex_has_at_most_ten_thousand_bytes(project: Project) -> None:
    for number in range(40):
        project.said("note", f"{number}: " + "再試行の上限を決める。" * 60)
    project.write("specs/WORK-00258-session-ledger.md", "# 仕様\n\n" + "再試行の上限を決める。\n" * 700)
    errors = [{"phase": "build", "step": "implement", "message": "再試行の上限。" * 40}]
    project.change_state(artifacts={"spec_path": "specs/WORK-00258-session-ledger.md"}, errors=errors)
    whole = packet_in("gemini", deliver(project, "gemini", "SessionStart.startup"))
    assert len(whole.encode()) > 10_000
    packet = packet_in("codex", deliver(project, "codex", "SessionStart.startup", session_id="c-2"))
    assert 5_000 < len(packet.encode()) <= 9_500
    assert packet.endswith(END)


def test_no_prompt_is_kept(project: Project) -> None:
    """Neither in the ledger nor in a delivery that waits."""
    project.refuse()  # nothing can be recorded
    deliver(project, "copilot", "sessionStart.new")
    deliver(project, "copilot", "preCompact.auto")
    deliver(project, "copilot", "userPromptTransformed")
    kept = [path.read_bytes() for path in project.root.rglob("*") if path.is_file()]
    assert any(b"user" in content or b"compact" in content for content in kept)
    assert not any(PROMPT.encode() in content for content in kept)
    project.relent()
    deliver(project, "copilot", "sessionEnd.user_exit")
    assert [entry["end_reason"] for entry in project.history] == ["compaction", "normal"]
    assert not any(PROMPT.encode() in path.read_bytes() for path in project.root.rglob("*") if path.is_file())


def test_an_agent_in_the_clients_shell_is_not_taken_for_it(project: Project, tmp_path: Path) -> None:
    elsewhere = Project.made(tmp_path / "elsewhere")
    inherited = {
        "CLAUDE_CODE_SESSION_ID": "the-client",
        "CLAUDE_PID": "1",
        "CLAUDE_PROJECT_DIR": str(elsewhere.root),
        "CLAUDE_ENV_FILE": str(tmp_path / "env.sh"),
    }
    content = content_of(project, "codex", "SessionStart.startup")
    hook(project, "--agent", "codex", "session-start", stdin=content, env=inherited)
    hook(project, "--agent", "codex", "session-end", stdin=b"{}", env=inherited)
    assert not elsewhere.ledger_path.exists()
    assert [one["pid"] for one in project.of_type("session_started")] == [None]
    assert not any(recorded["client"] == "the-client" for recorded in project.events)
    assert not (tmp_path / "env.sh").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "agent"), pair(["session-start", "pre-compact", "post-compact", "session-end"], FROM_TABLE)
)
def test_a_delivery_without_a_session_is_not_the_clients(project: Project, agent: str, event: str) -> None:
    project.deliver("SessionStart.startup.interactive")
    known = project.events
    environment = project.prepared("SessionStart.startup.interactive")[1]
    inherited = {name: value for name, value in environment.items() if name.startswith("CLAUDE_")}
    for stdin in (b"", b"{}", b"not JSON"):
        hook(project, "--agent", agent, event, stdin=stdin, env=inherited)
    assert project.events == known
    assert any("names no session" in line for line in project.log_lines)


def test_the_client_can_be_named_and_the_agent_follow_the_event(project: Project) -> None:
    content, environment, _ = project.prepared("SessionStart.startup.interactive")
    assert hook(project, "--agent=claude", "session-start", stdin=content, env=environment).packet
    content = content_of(project, "codex", "SessionStart.startup")
    assert packet_in("codex", hook(project, "SessionStart", "--agent", "codex", stdin=content).output.decode())


def test_an_unknown_agent_is_one_line_in_the_hook_log(project: Project) -> None:
    assert hook(project, "--agent", "../codex", "session-start", stdin=b"{}").output == b""
    (line,) = project.log_lines
    assert "is not an agent that faber-ledger knows: claude, codex, copilot, gemini" in line
    assert not project.ledger_path.exists()


HOSTILE = {
    "nothing": b"",
    "not JSON": b"\xff\x00 no",
    "a list": b"[1, 2]",
    "wrong types": json.dumps({name: [1] for name in ("session_id", "sessionId", "cwd", "source", "trigger")}).encode(),
    "an odd prompt": b'{"session_id": "c", "sessionId": "c", "transformedPrompt": 7}',
    "an unknown event": b'{"session_id": "s", "hook_event_name": "Stop"}',
    "too deep": b'{"session_id": ' + b"[" * 100_000,
    "large": json.dumps({"session_id": "s", "sessionId": "s", "prompt": "x" * 3_000_000}).encode(),
}


@pytest.mark.long
@pytest.mark.parametrize(("what", "agent"), pair(HOSTILE, FROM_TABLE))
def test_hostile_input_ends_well_and_loses_nothing(project: Project, agent: str, what: str) -> None:
    deliver(project, agent, STORIES[agent][0])
    known = project.events
    for event in ("session-start", "pre-compact", "user-prompt", "Stop", "session-end"):
        answer = hook(project, "--agent", agent, event, stdin=HOSTILE[what])
        if event == "Stop":
            assert answer.output.strip() == (b"{}" if agent == "gemini" else b"")
    assert project.events[: len(known)] == known
    project.assert_projected()


def test_every_documented_delivery_is_understood(project: Project) -> None:
    for path in sorted(DELIVERIES.glob("*/*.json")):
        deliver(project, path.parent.name, path.stem)
    assert not any("is not a hook" in line or "the delivery says" in line for line in project.log_lines)


def test_the_hook_of_another_agent_loads_nothing_expensive(project: Project) -> None:
    content = content_of(project, "codex", "SessionStart.startup")
    command: list[str | Path] = [sys.executable, "-c", "from faber_ledger.cli.entry import main; main()"]
    loaded = loaded_by([*command, "hook", "--agent", "codex", "session-start"], project.root, content)
    assert "faber_ledger.hooks.agents" in loaded
    assert loaded & {"argparse", "click", "dataclasses", "json", "pathlib", "subprocess", "typing"} == set()
