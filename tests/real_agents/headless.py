"""The real clients without a terminal, against a mock of their models' APIs: `make test-agents` runs this file.

No other target collects it: the clients are installed from npm into `.agents/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from real_agents.mock_model import MockModel
from real_agents.project import CLIENTS, PACKET, Clients

HEADLESS = {
    "codex": ("codex", "exec", "--dangerously-bypass-hook-trust", "hello"),
    "copilot": ("copilot", "-p", "hello"),
    "gemini": ("gemini", "-m", "gemini-2.5-flash", "-p", "hello"),
}
RESUMED = {
    "codex": ("codex", "exec", "--dangerously-bypass-hook-trust", "resume", "--last", "again"),
    "copilot": ("copilot", "--continue", "-p", "again"),
    "gemini": ("gemini", "-m", "gemini-2.5-flash", "--resume", "latest", "-p", "again"),
}


PACKETS = {"codex": 2, "copilot": 1, "gemini": 1}  # in the request after a resume: Codex keeps both starts'


QUESTION = "what did we decide about the cache?"
ASKING = {  # Codex waits only a second for a server that is not required; a tool that records is not to be asked for
    "codex": (
        *("codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "-c"),
        "mcp_servers.faber-ledger.required=true",
        QUESTION,
    ),
    "copilot": ("copilot", "-p", QUESTION),
    "gemini": ("gemini", "-m", "gemini-2.5-flash", "--yolo", "-p", QUESTION),
}
SERVERS_ENDS = {"codex": "normal", "copilot": None, "gemini": "normal"}  # Copilot kills the server at its exit


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    model = MockModel()
    yield Clients(tmp_path.resolve(), model)
    model.close()


@pytest.mark.parametrize("agent", HEADLESS)
def test_a_session_and_its_resume_are_recorded_with_their_packets(clients: Clients, agent: str) -> None:
    clients.run("faber-ledger", "init", "--agent", agent)
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    clients.run(*HEADLESS[agent])
    assert [body.count(PACKET) for body in clients.asked] == [1]
    (session,) = clients.sessions()
    assert (session["agent"], session["end_reason"]) == (agent, "normal")
    assert (session["agent_version"] is None) is (agent == "gemini")  # it tells no hook
    clients.run(*RESUMED[agent])
    assert clients.asked[0].count(PACKET) == PACKETS[agent]
    assert [one["end_reason"] for one in clients.sessions()] == ["normal", "normal"]
    assert "session started (resume) by" in clients.run("faber-ledger", "log", "--type", "session_started")
    counted = clients.run("faber-ledger", "log", "--type", "usage_recorded").count("  101 tokens (0 cached, 1 out) in ")
    assert counted == 2 or (agent == "copilot" and counted == 1)  # its file lags behind its end


@pytest.mark.parametrize("agent", HEADLESS)
def test_a_client_calls_the_servers_tools_in_a_session(clients: Clients, agent: str) -> None:
    clients.run("faber-ledger", "init", "--mcp", agent)
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    clients.run("faber-ledger", "note", "add", "--decision", "no cache: one query is enough")
    clients.model.calls = [("context", {}), ("search", {"text": "cache"}), ("note", {"text": "he asked again"})]
    clients.run(*ASKING[agent])
    _, context, found, noted = clients.asked
    assert context.count(PACKET) == 1
    assert "1 hit" in found
    assert "Recorded a note on" in noted
    (session,) = clients.sessions()
    assert (session["agent"], session["end_reason"]) == (agent, SERVERS_ENDS[agent])
    assert "he asked again" in clients.run("faber-ledger", "log")


def test_copilot_beside_the_client_has_one_session_and_one_packet(clients: Clients) -> None:
    clients.run("faber-ledger", "init")
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    for command in (("git", "status"), ("faber-ledger", "init", "--agent", "copilot")):
        clients.run(*command)
        before = len(clients.sessions())
        clients.run(*HEADLESS["copilot"])
        assert [body.count(PACKET) for body in clients.asked] == [1]
        found = clients.sessions()[before:]
        assert [(one["agent"], one["end_reason"]) for one in found] == [("copilot", "normal")]


@pytest.mark.parametrize("agent", HEADLESS)
def test_without_the_program_a_client_starts_all_the_same(clients: Clients, agent: str) -> None:
    clients.run("faber-ledger", "init", "--agent", agent)
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    printed = clients.run(*HEADLESS[agent], PATH=f"{CLIENTS}:/usr/bin:/bin")
    said = "faber-ledger is not on PATH"
    if agent == "codex":  # `exec` shows no message of a hook, the terminal program does
        assert "hook: SessionStart Completed" in printed
    else:
        assert said in (printed if agent == "gemini" else clients.asked[0])


def test_agents_of_one_day_have_each_session_once(clients: Clients) -> None:
    clients.run("faber-ledger", "init")
    for agent in HEADLESS:
        clients.run("faber-ledger", "init", "--agent", agent)
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    for agent, words in HEADLESS.items():
        clients.run(*words)
        assert [body.count(PACKET) for body in clients.asked] == [1], agent
    found = [(one["agent"], one["end_reason"]) for one in clients.sessions()]
    assert found == [(agent, "normal") for agent in HEADLESS]


def test_codex_gets_the_position_alone_at_a_resume(clients: Clients) -> None:
    protocol = clients.root / "plugins/faber/docs/workflow-orchestration-protocol.md"
    protocol.parent.mkdir(parents=True)
    protocol.write_text("Ask before you merge.\n")
    clients.run("faber-ledger", "init", "--agent", "codex")
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    clients.run(*HEADLESS["codex"])
    assert clients.asked[0].count("Ask before you merge.") == 1
    clients.run(*RESUMED["codex"])
    assert (clients.asked[0].count(PACKET), clients.asked[0].count("Ask before you merge.")) == (2, 1)


def test_codex_compacts_before_a_resume_and_gets_one_packet(clients: Clients) -> None:
    config = clients.home / ".codex/config.toml"
    config.write_text(f"model_auto_compact_token_limit = 20000\n{config.read_text()}")
    clients.run("faber-ledger", "init", "--agent", "codex")
    clients.run("faber-ledger", "run", "start", "--work-id", "258")
    clients.model.tokens = 30_000
    clients.run(*HEADLESS["codex"])
    clients.model.tokens = 100
    clients.run(*RESUMED["codex"])
    assert [body.count(PACKET) for body in clients.asked] == [1]
    assert [one["end_reason"] for one in clients.sessions()] == ["compaction", "normal"]
