"""What responses cost is read from the client's own transcript at a pre-compact and at an end, each response once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.files_with import files_with
from support.project import Project
from support.transcripts import MODEL, SECRET, place_of, prompt, response

from faber_ledger.ledger.clock import now, seconds_of, utc_text

START, PRE, COMPACT, END = (
    "SessionStart.startup.print",
    "PreCompact.auto.print",
    "SessionStart.compact.print",
    "SessionEnd.other.print",
)
ME = "324802ff-0231-4ac6-8eb6-c6c99574fbae"
TOKEN = "gh" + "p_" + "a1B2" * 9


def deliver(project: Project, name: str, path: Path, client: str = ME, **fields: str) -> None:
    """Deliver what a client with this transcript sends."""
    answer = project.deliver(name, client=client, pid="4711", fields={"transcript_path": str(path), **fields})
    assert (answer.code, answer.errors) == (0, "")


def append(path: Path, *texts: str) -> None:
    with path.open("a") as file:
        file.write("".join(texts))


def counted(project: Project, *names: str) -> list[tuple[Any, ...]]:
    """Return the model and the tokens, or the named fields, of each event of usage."""
    names = names or ("model", "input_tokens", "cached_tokens", "output_tokens", "turns")
    return [tuple(event[name] for name in names) for event in project.of_type("usage_recorded")]


@pytest.fixture
def path(project: Project) -> Path:
    """The transcript of a client that has started."""
    made = place_of(project, ME)
    deliver(project, START, made)
    return made


def test_each_response_counts_once_by_its_id(project: Project, path: Path) -> None:
    append(path, prompt(), response("msg_1", (10, 500, 40)), prompt(), response("msg_2", (3, 800, 5)))
    deliver(project, PRE, path)
    assert counted(project) == [(MODEL, 13, 1300, 45, 2)]
    deliver(project, COMPACT, path)
    append(path, response("msg_2", (3, 800, 5)), response("msg_3", (1, 1, 1)))
    deliver(project, END, path)
    deliver(project, END, path, reason="exit")
    assert counted(project) == [(MODEL, 13, 1300, 45, 2), (MODEL, 1, 1, 1, 1)]
    assert [event["session_id"] for event in project.of_type("usage_recorded")] == [
        event["session_id"] for event in project.of_type("session_started")
    ]
    assert files_with(project.root, SECRET) == []
    project.assert_projected()


def test_a_clone_that_has_lost_its_notes_counts_nothing_again(project: Project, path: Path) -> None:
    append(path, response("msg_1", (10, 500, 40)))
    deliver(project, PRE, path)
    for note in (project.root / ".git/faber-ledger").rglob("clients/*"):
        note.unlink()
    append(path, response("msg_2", (1, 1, 1)))
    deliver(project, END, path)
    assert counted(project, "turns") == [(1,), (1,)]


IN_CLIENT = {"CLAUDE_CODE_SESSION_ID": ME, "CLAUDE_PID": "4711"}


@pytest.mark.parametrize("ends", [["session-save"], ["run finish"], ["session-save", "run finish", "seal"], ["seal"]])
def test_an_end_by_a_command_counts_what_came_before(project: Project, path: Path, ends: list[str]) -> None:
    """A later SessionEnd counts the rest alone, in the clone's log where a commit has the finished run."""
    status = "completed" if ends == ["seal"] else "in_progress"
    project.change_state(status=status, phases={"release": {"status": "completed"}})
    for number, command in enumerate(ends):
        append(path, response(f"msg_{number}", (1, 1, 1)))
        project.said(*command.split(), env=IN_CLIENT)
        assert counted(project, "turns") == [(1,)] * (number + 1)
    project.commit()
    append(path, response("msg_last", (2, 2, 2)))
    assert "not in the file" not in project.said("seal", env=IN_CLIENT)
    deliver(project, END, path)
    deliver(project, END, path, reason="exit")
    told = [event["event"] for event in project.recorded if event["event"]["type"] == "usage_recorded"]
    assert [event["input_tokens"] for event in told] == [1] * len(ends) + [2]
    assert len({event["session_id"] for event in told}) == 1
    if ends != ["session-save"]:
        assert project.git("status", "--short") == ""


def test_a_commit_of_a_finished_run_counts_its_client_from_any_shell(
    project: Project, path: Path, tmp_path: Path
) -> None:
    append(path, response("msg_1", (1, 1, 1)))
    project.change_state(status="completed", phases={"release": {"status": "completed"}})
    project.said("seal")
    assert counted(project, "turns") == [(1,)]
    append(path, response("msg_2", (1, 1, 1)))
    project.said("seal")  # also if its session was ended before
    assert counted(project, "turns") == [(1,), (1,)]
    project.commit()
    there = project.clone(tmp_path / "there", "desktop")
    append(path, response("msg_3", (1, 1, 1)))
    deliver(project, END, path)
    for one in (project, there):
        assert ("; up to the commit that finished the run\n" in one.said("replay")) == (one is there)
        assert (" ≥6\n" in one.said("run", "list")) == (one is there)


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_commit_counts_what_came_after_a_save_and_not_after_the_clients_own_end(
    project: Project, path: Path, is_saved: bool
) -> None:
    if is_saved:
        project.said("session-save", env=IN_CLIENT)
    else:
        deliver(project, END, path)
    append(path, response("msg_1", (1, 1, 1)))
    project.change_state(status="completed", phases={"release": {"status": "completed"}})
    project.said("seal")
    assert len(counted(project, "turns")) == is_saved


@pytest.mark.parametrize("by_delivery", [True, False])
def test_what_a_run_that_is_left_cost_is_counted_at_once(project: Project, path: Path, by_delivery: bool) -> None:
    project.age_log(60)
    project.said("project")
    append(path, response("msg_1", (10, 500, 40), after=-30))
    second = project.start_run("259", "--yes", **({} if by_delivery else IN_CLIENT))
    other = Project(project.root, second)
    if by_delivery:
        deliver(other, COMPACT, path)
    assert counted(project) == [(MODEL, 10, 500, 40, 1)]
    append(path, response("msg_2", (1, 1, 1), after=2))
    project.change_state(phases={"release": {"status": "completed"}})
    project.said("run", "finish", project.run_id, env=IN_CLIENT)
    deliver(other, END, path)
    assert (counted(other), len(counted(project))) == ([(MODEL, 1, 1, 1, 1)], 1)


def test_the_response_that_starts_a_run_costs_the_run_before(project: Project, path: Path) -> None:
    other = Project(project.root, project.start_run("259", "--yes", **IN_CLIENT))
    (at,) = [one["at"] for one in other.events if one["event"]["type"] == "session_started"]
    for seconds in (0, 1):
        append(path, response(f"msg_{seconds}", (10, 500, 40), after=(seconds_of(at) or 0) + seconds + 0.5 - now()))
    deliver(other, END, path)
    assert counted(other, "turns") == [(1,)]


def test_what_a_client_did_on_another_run_costs_this_one_nothing_when_it_comes_back(
    project: Project, path: Path
) -> None:
    project.start_run("259", "--yes", **IN_CLIENT)
    project.age_log(60)
    project.said("project")
    append(path, response("msg_1", (10, 500, 40), after=-30))
    project.said("run", "resume", project.run_id, "--yes", env=IN_CLIENT)
    project.said("session-load", env=IN_CLIENT)
    deliver(project, END, path)
    assert [entry["end_reason"] for entry in project.history] == ["normal", "normal"]
    assert counted(project) == []


@pytest.mark.parametrize("by_delivery", [True, False])
@pytest.mark.parametrize("is_killed", [True, False])
def test_what_a_killed_client_cost_is_counted_by_the_next_start(
    project: Project, is_killed: bool, by_delivery: bool
) -> None:
    path, pid = place_of(project, ME), "999999999" if is_killed else str(os.getpid())
    project.deliver(START, client=ME, pid=pid, fields={"transcript_path": str(path)})
    project.age_log(60)
    project.said("project")
    append(path, response("msg_1", (10, 500, 40), after=-30))
    other = "another-client"
    if by_delivery:
        deliver(project, START, place_of(project, other), client=other)
    else:
        assert project.faber("session-load", env={"CLAUDE_CODE_SESSION_ID": other}).returncode == 0
    assert counted(project) == ([(MODEL, 10, 500, 40, 1)] if is_killed else [])
    project.deliver(END, client=ME, pid=pid, fields={"transcript_path": str(path)})
    assert counted(project) == [(MODEL, 10, 500, 40, 1)]
    project.assert_projected()


def test_a_subagents_responses_count_with_its_sessions(project: Project, path: Path) -> None:
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    append(path, response("msg_1", (10, 500, 40)))
    append(folder / "agent-a1.jsonl", response("msg_2", (1, 2, 3), model="claude-haiku-4-5"))
    shown = response("msg_3", (1, 2, 3), model="claude-haiku-4-5")
    append(folder / "agent-a2.jsonl", shown)
    nested = shown.splitlines()[1]  # the main file may show it, too
    append(path, f'{{"isSidechain":false,"type":"progress","data":{{"message":{nested}}},"toolUseID":"agent_1"}}\n')
    append(path, f'{{"data":{{"message":{nested}}},"isSidechain":false,"type":"progress"}}\n')
    deliver(project, END, path)
    assert sorted(counted(project)) == [("claude-haiku-4-5", 2, 4, 6, 2), (MODEL, 10, 500, 40, 1)]


def test_a_response_that_several_files_have_counts_once(project: Project, path: Path) -> None:
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    for file in (path, folder / "agent-a1.jsonl", folder / "agent-a2.jsonl"):
        append(file, response("msg_1", (10, 500, 40)))
    deliver(project, PRE, path)
    append(folder / "agent-acompact-1.jsonl", response("msg_1", (10, 500, 40)))  # which summarizes what was said
    deliver(project, END, path)
    assert counted(project) == [(MODEL, 10, 500, 40, 1)]


def test_what_a_killed_client_cost_counts_where_another_clone_has_ended_its_session(
    project: Project, tmp_path: Path
) -> None:
    path = place_of(project, ME)
    project.deliver(START, client=ME, pid="4194303", fields={"transcript_path": str(path)})  # no process has that id
    append(path, response("msg_1", (10, 500, 40)))
    project.commit()
    other = project.clone(tmp_path / "other", "desktop")
    assert other.deliver(START, client="another").packet is not None
    assert [event["reason"] for event in other.of_type("session_ended")] == ["abandoned"]
    lines = project.write("events.jsonl", other.said("export"))
    assert project.faber("import", str(lines)).returncode == 0
    assert counted(project) == []
    project.said("run", "resume", project.run_id)
    assert counted(project) == [(MODEL, 10, 500, 40, 1)]
    project.said("run", "resume", project.run_id)
    assert len(counted(project)) == 1


def test_what_came_before_the_session_is_not_the_runs(project: Project) -> None:
    """As where a client is resumed, or a fork begins with a copy of the conversation."""
    path = place_of(project, ME)
    append(path, response("msg_1", (10, 500, 40), after=-3600))
    deliver(project, START, path)
    append(path, response("msg_2", (1, 2, 3)))
    deliver(project, END, path)
    assert counted(project, "input_tokens", "turns") == [(1, 1)]


def test_a_line_whose_parts_come_in_another_order_counts(project: Project, path: Path) -> None:
    line = json.loads(response("msg_1", (1, 2, 3)).splitlines()[1])
    moved = {"type": line.pop("type"), "timestamp": line.pop("timestamp"), **line}
    message = moved.pop("message")
    message = {"usage": message.pop("usage"), **message}
    append(path, json.dumps({**moved, "message": message}, separators=(",", ":")) + "\n")
    deliver(project, END, path)
    assert counted(project) == [(MODEL, 1, 2, 3, 1)]


def test_time_counts_between_responses_that_follow_soon(project: Project, path: Path) -> None:
    append(path, *[response(f"msg_{after}", (1, 2, 3), after=after) for after in (1, 61, 1061, 1062)])
    deliver(project, END, path)
    assert counted(project, "turns", "active_seconds")[0] in [(4, 61), (4, 60), (4, 1), (4, 0)]  # 0 over midnight


def test_a_response_belongs_to_the_phase_of_its_time(project: Project) -> None:
    """By the times that the state has; without them, to the phase that did not change meanwhile, else to none."""
    path = place_of(project, ME)
    project.change_state(phases={"frame": {"status": "completed"}, "build": {"status": "in_progress"}})
    deliver(project, START, path)
    append(path, response("msg_1", (1, 1, 1)))
    deliver(project, PRE, path)
    deliver(project, COMPACT, path)
    append(path, response("msg_2", (2, 2, 2)))
    project.change_state(current_phase="evaluate")
    deliver(project, PRE, path)
    deliver(project, COMPACT, path)
    times = dict.fromkeys(["frame", "build"], "2026-01-05T14:30:22Z") | {"evaluate": "2999-01-05T14:30:22Z"}
    project.change_state(phases={name: {"status": "in_progress", "started_at": at} for name, at in times.items()})
    append(path, response("msg_3", (3, 3, 3)))
    deliver(project, END, path)
    assert counted(project, "in_phase", "input_tokens") == [("build", 1), (None, 2), ("build", 3)]


def test_before_the_first_phase_begins_a_response_is_in_the_phase_that_the_run_says(project: Project) -> None:
    """`run start` says `current_phase: frame`; FABER notes the time of its begin only later."""
    path = place_of(project, ME)
    project.change_state(current_phase="frame", phases={"frame": {"status": "pending"}})
    deliver(project, START, path)
    append(path, response("before", (8, 8, 8), after=-60), response("msg_1", (1, 1, 1), after=2))
    begun = {"status": "in_progress", "started_at": utc_text(now() + 10)}
    project.change_state(phases={"frame": begun})
    append(path, response("msg_2", (2, 2, 2), after=20))
    deliver(project, PRE, path)
    assert counted(project, "in_phase", "input_tokens") == [("frame", 3)]
    assert "in 2 responses: frame 9" in project.said("replay")
    shown = project.said("log", "--phase", "frame", "--type", "usage_recorded").splitlines()
    assert [line for line in shown if "usage_recorded" in line and line.endswith(", in frame")]
    assert "usage_recorded" not in project.said("log", "--phase", "build", "--type", "usage_recorded")


@pytest.mark.parametrize("name", [TOKEN, "m" * 500, "claude-\u202e\n", 7])
def test_a_models_name_is_short_and_has_no_secret(project: Project, path: Path, name: Any) -> None:
    append(path, response("msg_1", (1, 1, 1), model=name))
    deliver(project, END, path)
    (found,) = counted(project, "model")[0]
    assert len(found) <= 60
    assert found.isprintable()
    assert TOKEN not in found


ODD = [
    "",
    "\0" * 100,
    "[" * 100_000 + '"usage":{',
    '{"type":"assistant","message":{"id":"a","usage":{"input_tokens":-5,"output_tokens":1e9}}}\n',
    '{"type":"assistant","message":{"id":"a","usage":{"input_tokens":5}},"timestamp":"yesterday"}\n',
    '{"type":"assistant","message":[{"usage":{"input_tokens":5}}],"timestamp":7}\n',
    response("msg_1", (1, 1, 1)).splitlines()[0],
]


@pytest.mark.parametrize("content", [None, *ODD])
def test_a_missing_or_odd_transcript_is_no_error(project: Project, path: Path, content: str | None) -> None:
    if content is not None:
        path.write_text(content)
    project.said("session-save", env=IN_CLIENT)
    deliver(project, END, path)
    assert [event for event in counted(project, "input_tokens") if event != (0,)] == []
    assert project.current is None


def test_a_long_transcript_is_read_over_several_calls(project: Project, path: Path) -> None:
    append(path, *[response("msg_1", (1, 1, 1)), prompt("x" * 9_000_000), response("msg_2", (2, 2, 2))])
    deliver(project, PRE, path)
    assert counted(project, "input_tokens") == [(1,)]
    deliver(project, COMPACT, path)
    deliver(project, PRE, path, trigger="manual")
    deliver(project, COMPACT, path)
    deliver(project, END, path)
    assert [event for event in counted(project, "input_tokens") if event != (0,)] == [(1,), (2,)]


def test_an_end_that_waits_has_its_tokens_when_it_is_recorded(project: Project, path: Path) -> None:
    append(path, response("msg_1", (1, 1, 1)))
    project.refuse()
    assert project.deliver(END, client=ME, pid="4711", fields={"transcript_path": str(path)}).code == 0
    project.relent()
    assert project.faber("seal").returncode == 0
    assert counted(project, "turns") == [(1,)]


@pytest.mark.parametrize(
    ("of_project", "of_user", "is_counted"),
    [(False, None, False), (True, False, False), (False, True, True), (None, None, True), (None, "no", False)],
)
def test_the_users_configuration_wins_over_the_project(
    project: Project, of_project: bool | None, of_user: Any, is_counted: bool
) -> None:
    if of_project is not None:
        project.said("init", "--git-only", "--usage" if of_project else "--no-usage")
    if of_user is not None:
        project.configure(usage=of_user)
    path = place_of(project, ME)
    fields = {"transcript_path": str(path)}
    project.deliver(START, client=ME, fields=fields)
    append(path, response("msg_1", (1, 1, 1)))
    project.said("session-save", env=IN_CLIENT)
    project.deliver(END, client=ME, fields=fields)
    assert bool(counted(project)) == is_counted


# Other agents: lines as the real clients write them, without what was said

AGENTS = Path(__file__).parents[1] / "fixtures/agents"
OTHER = "01995c1e-5f0a-7c31-9a55-0c0ffee00001"
CODEX = (
    '{"timestamp":"AT","type":"turn_context","payload":{"model":"gpt-5-codex","summary":"SAID"}}\n'
    '{"timestamp":"AT","ordinal":5,"type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":{}}}\n'
)
CODEX_TOTAL = (
    '{"timestamp":"AT","ordinal":9,"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":'
    '{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":1,"total_tokens":1},'
    '"last_token_usage":{"input_tokens":7},"model_context_window":258400},"rate_limits":{"plan_type":null}}}\n'
)
COPILOT = (
    '{"type":"session.usage_record","data":{"usage":{"model":"gpt-5","inputTokens":%d,"outputTokens":%d,'
    '"cacheReadTokens":%d,"cacheWriteTokens":0}},"id":"%s","timestamp":"AT","parentId":null}\n'
    '{"type":"session.shutdown","data":{"modelMetrics":{"gpt-5":{"usage":{"inputTokens":900}}}},"timestamp":"AT"}\n'
)
GEMINI = (
    '{"id":"%s","timestamp":"AT","type":"gemini","content":"SAID","tokens":{"input":%d,"output":%d,"cached":%d,'
    '"thoughts":2,"tool":0,"total":9},"model":"gemini-2.5-flash"}\n'
    '{"$set":{"messages":[{"id":"old","type":"gemini","tokens":{"input":900}}],"lastUpdated":"AT"}}\n'
)
WRITTEN = {
    "codex": ("SessionStart.startup", "PreCompact.manual", "SessionStart.compact", "SessionEnd.other"),
    "copilot": ("sessionStart.new", "preCompact.manual", "userPromptTransformed", "sessionEnd.complete"),
    "gemini": ("SessionStart.startup", "PreCompress.manual", "BeforeAgent", "SessionEnd.exit"),
}
PARTS = {
    "codex": (
        [CODEX, CODEX_TOTAL % (100, 40, 5), CODEX_TOTAL % (100, 40, 5), CODEX_TOTAL % (300, 140, 9)],
        [CODEX_TOTAL % (300, 140, 9), CODEX_TOTAL % (350, 150, 10), CODEX_TOTAL % (20, 10, 1)],
        [("gpt-5-codex", 160, 140, 9, 2), ("gpt-5-codex", 50, 20, 2, 2)],
    ),
    "copilot": (
        [COPILOT % (100, 5, 40, "a"), COPILOT % (200, 4, 100, "b")],
        [COPILOT % (200, 4, 100, "b"), COPILOT % (70, 2, 20, "c")],
        [("gpt-5", 160, 140, 9, 2), ("gpt-5", 50, 20, 2, 1)],
    ),
    "gemini": (
        [GEMINI % ("a", 100, 3, 40), GEMINI % ("b", 200, 1, 100), GEMINI % ("b", 200, 2, 100)],
        [GEMINI % ("b", 200, 2, 100), GEMINI % ("c", 70, 0, 20)],
        [("gemini-2.5-flash", 160, 140, 9, 2), ("gemini-2.5-flash", 50, 20, 2, 1)],
    ),
}


@pytest.mark.parametrize("agent", WRITTEN)
def test_other_agents_responses_count_once(project: Project, agent: str) -> None:
    """Codex writes totals; Copilot's end does not name its file; Gemini may write a message twice."""
    home = project.root.parent / f"home-{project.hostname}"
    names = {"codex": f"rollout-{OTHER}.jsonl", "copilot": "events.jsonl", "gemini": f"session-{OTHER[:8]}.jsonl"}
    path = home / ".copilot/session-state" / OTHER / names[agent]
    path.parent.mkdir(parents=True)
    first, second, found = PARTS[agent]
    for recorded, parts in zip(WRITTEN[agent], ([], first, [], second), strict=True):
        append(path, *[part.replace("AT", utc_text(now() + 1)).replace("SAID", SECRET) for part in parts])
        text = (AGENTS / agent / f"{recorded}.json").read_text().replace("ROOT", str(project.root))
        said = {name: str(path) for name in ("transcript_path", "transcriptPath") if name in text}
        content = json.dumps(json.loads(text) | said)
        done = project.faber("hook", "--agent", agent, recorded.partition(".")[0], stdin=None, input=content)
        assert (done.returncode, done.stderr) == (0, "")
    assert counted(project) == found
    assert files_with(project.root, SECRET) == []
