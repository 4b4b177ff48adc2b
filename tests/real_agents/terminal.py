"""The real clients' terminal programs, against a mock of their models' APIs: `make test-agents` runs this file.

A prompt is unlike any other of its test, so that its request is found among those of the model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from real_agents.mock_model import MockModel
from real_agents.project import CLIENTS, Clients
from real_agents.terminal_program import Terminal

CODEX = ("codex", "--dangerously-bypass-hook-trust")
GEMINI = ("gemini", "-m", "gemini-2.5-flash")
NOT_ON_PATH = "faber-ledger is not on PATH"


@dataclass(frozen=True)
class Program:
    """A client's terminal program: how it is called, and what it shows when it has done something."""

    start: tuple[str, ...]
    resume: tuple[str, ...]
    ready: str
    compact: str
    compacted: str
    compacted_itself: str
    cleared: str  # on the screen after /clear
    end: str
    full: int  # tokens of a conversation that it compacts by itself
    packets_of_resumed: int = 1  # in the request after a resume


PROGRAMS = {
    "codex": Program(
        start=CODEX,
        resume=(*CODEX, "resume", "--last"),
        ready="^\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ",
        compact="/compact",
        compacted="Context compacted",
        compacted_itself="Context compacted",
        cleared="Ask Codex to do anything",
        end="/quit",
        full=30_000,
        packets_of_resumed=2,  # Codex keeps both starts'
    ),
    "copilot": Program(
        start=("copilot",),
        resume=("copilot", "--continue"),
        ready="^\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}",
        compact="/compact",
        compacted="Compaction completed",
        compacted_itself="Compaction completed",
        cleared="MCP Servers reloaded",
        end="/exit",
        full=28_000,
    ),
    "gemini": Program(
        start=GEMINI,
        resume=(*GEMINI, "--resume", "latest"),
        ready=r"^\s*\? for shortcuts$",
        compact="/compress",
        compacted="Chat history compressed from",
        compacted_itself="Context compressed from",
        cleared="Type your message",
        end="/quit",
        full=200_000,
    ),
}


class Project(Clients):
    """A project whose agent is `agent`: its hooks are set up, a run is at work, and it has no background daemon."""

    def __init__(self, folder: Path, model: MockModel, agent: str) -> None:
        super().__init__(folder, model)
        self.agent, self.program = agent, PROGRAMS[agent]
        self.env["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = "30000"
        codex = self.home / ".codex/config.toml"
        codex.write_text(f"model_auto_compact_token_limit = 20000\n{codex.read_text()}\n")
        gemini = self.home / ".gemini/settings.json"
        gemini.write_text(json.dumps(json.loads(gemini.read_text()) | {"model": {"compressionThreshold": 0.1}}))
        self.run("faber-ledger", "init", "--agent", agent)
        self.run("faber-ledger", "run", "start", "--work-id", "258")

    def without_daemon(self) -> Project:
        """Let Codex run in its terminal program, as with `--no-daemon`."""
        with (self.home / ".codex/config.toml").open("a") as file:
            file.write("[features]\ndaemon_auto_start = false\n")
        return self

    def start(self, **variables: str) -> Terminal:
        """Start the agent."""
        return Terminal(self, self.program.ready, *self.program.start, **variables)

    def resume(self) -> Terminal:
        """Start the agent with its last conversation."""
        return Terminal(self, self.program.ready, *self.program.resume)

    def ends(self) -> list[str | None]:
        """Return how each of the agent's sessions ended, None for one that is open."""
        found = self.sessions()
        assert {one["agent"] for one in found} == {self.agent}
        return [one["end_reason"] for one in found]

    def starts(self) -> list[str]:
        """Return the sources of the starts that were recorded."""
        lines = self.run("faber-ledger", "log", "--type", "session_started").splitlines()
        return [line.partition("session started (")[2].partition(")")[0] for line in lines if "session started" in line]


@pytest.fixture
def project(tmp_path: Path, agent: str) -> Iterator[Project]:
    model = MockModel()
    yield Project(tmp_path.resolve(), model, agent).without_daemon()
    model.close()


def clear(terminal: Terminal, program: Program, last: str) -> None:
    terminal.type("/clear")
    terminal.wait(lambda: last not in terminal.shown, "empty screen")
    terminal.wait_for(program.cleared)


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_packet_follows_start_compaction_and_clear_once(project: Project) -> None:
    program = project.program
    with project.start() as terminal:
        assert [terminal.count_packets(f"first {word}") for word in ("one", "two")] == [1, 1]
        project.model.tokens = 5_000
        terminal.ask("first three")
        terminal.type(program.compact)
        terminal.wait_for(program.compacted)
        project.model.tokens = 100
        assert project.ends() == ["compaction"]
        assert [terminal.count_packets(f"second {word}") for word in ("one", "two")] == [1, 1]
        assert project.ends() == ["compaction", None]
        clear(terminal, program, "second two")
        assert [terminal.count_packets(f"third {word}") for word in ("one", "two")] == [1, 1]
        terminal.end(program.end)
    assert project.ends() == ["compaction", "normal", "normal"]


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_packet_follows_an_automatic_compaction_once(project: Project) -> None:
    with project.start() as terminal:
        project.model.tokens = project.program.full
        assert terminal.count_packets("first one") == 1
        project.model.tokens = 100
        terminal.ask("first two")
        terminal.wait_for(project.program.compacted_itself)
        assert [terminal.count_packets(f"second {word}") for word in ("one", "two")] == [1, 1]
        assert project.ends() == ["compaction", None]
        terminal.end(project.program.end)
    assert project.ends() == ["compaction", "normal"]


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_killed_client_is_abandoned_when_it_is_resumed(project: Project) -> None:
    with project.start() as terminal:
        assert terminal.count_packets("first one") == 1
        terminal.kill()
    assert project.ends() == [None]
    with project.resume() as terminal:
        assert terminal.count_packets("second one") == project.program.packets_of_resumed
        assert project.ends() == ["abandoned", None]
        terminal.end(project.program.end)
    assert project.ends() == ["abandoned", "normal"]
    assert project.starts()[1] == "resume"


@pytest.mark.parametrize("agent", PROGRAMS)
def test_two_terminals_of_one_project_get_a_packet_each(project: Project) -> None:
    with project.start() as first, project.start() as second:
        assert first.count_packets("first one") == 1
        assert second.count_packets("second one") == 1
        assert first.count_packets("first two") == 1
        second.end(project.program.end)
        assert first.count_packets("first three") == 1
        first.end(project.program.end)
    assert project.ends() == ["normal", "normal"]


@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_terminal_says_that_the_program_is_not_on_path(project: Project) -> None:
    with project.start(PATH=f"{CLIENTS}:/usr/bin:/bin") as terminal:
        asked = terminal.ask("first one")
        assert NOT_ON_PATH in (asked if project.agent == "copilot" else terminal.shown)
        terminal.end(project.program.end)
    assert project.sessions() == []


def trust_hooks(terminal: Terminal) -> None:
    terminal.wait_for("Hooks need review")
    terminal.press("2", lambda: re.search(r"\S 2\. Trust all and continue", terminal.shown), "mark at the answer")
    terminal.press("\r", lambda: "Trust all and continue" not in terminal.shown, "end of the dialog")


def stop_daemon(project: Project) -> None:
    """Stop Codex's daemon, and what updates it: that one outlives it. They run from a copy of 400 MB."""
    project.run("codex", "app-server", "daemon", "stop")
    updater = project.home / ".codex/app-server-daemon/daemon-updater.pid"
    os.kill(json.loads(updater.read_text())["pid"], signal.SIGKILL)
    shutil.rmtree(project.home / ".codex/packages")


def test_codex_asks_to_trust_hooks_and_its_daemon_ends_late(tmp_path: Path) -> None:
    model = MockModel()
    project = Project(tmp_path.resolve(), model, "codex")
    try:
        with Terminal(project, project.program.ready, "codex") as terminal:
            trust_hooks(terminal)
            assert terminal.count_packets("first one") == 1
            terminal.end("/quit")
        assert project.ends() == [None]
    finally:
        stop_daemon(project)
        model.close()
    assert project.ends() == ["normal"]
