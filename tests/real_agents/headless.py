"""The real clients without a terminal, against a mock of their models' APIs: `make test-agents` runs this file.

No other target collects it: the clients are installed from npm into `.agents/`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real_agents.mock_model import MockModel

CLIENTS = Path(__file__).parents[2] / ".agents/node_modules/.bin"
PROGRAM = Path(__file__).parents[2] / ".venv/bin"
PACKET = "# FABER run "
SECONDS = 50
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


class Clients:
    """A project with a run at work, a home, and a model; `asked` are the requests of the last call of a client."""

    def __init__(self, folder: Path, model: MockModel) -> None:
        self.home, self.root, self.model = folder / "home", folder / "project", model
        self.asked: list[str] = []
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{CLIENTS}:{PROGRAM}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1",
            "COPILOT_MODEL": "mock-model",
            "COPILOT_ALLOW_ALL": "true",
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        for path in (self.home / ".codex", self.home / ".gemini", self.root):
            path.mkdir(parents=True)
        provider = f'[model_providers.mock]\nname = "mock"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
        trust = f'[projects."{self.root}"]\ntrust_level = "trusted"\n'
        config = f'model = "mock-model"\nmodel_provider = "mock"\n{provider}{trust}'
        (self.home / ".codex/config.toml").write_text(config)
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (self.home / ".gemini/settings.json").write_text(json.dumps(settings))
        self.run("git", "init", "--quiet")

    def run(self, *words: str, **variables: str) -> str:
        """Run a program in the project, and return what it prints; it and its children are killed after a time."""
        before = len(self.model.asked)
        with subprocess.Popen(
            words,
            cwd=self.root,
            env=self.env | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                printed, _ = process.communicate()
                raise AssertionError(f"{words} did not end: {printed[-2000:]}") from None
        assert process.returncode == 0, printed
        self.asked = self.model.asked[before:]
        return str(printed)

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that were recorded."""
        found: list[dict[str, Any]] = json.loads(self.run("faber-ledger", "replay", "--json"))["data"]["sessions"]
        return found


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
