"""A project of the real clients' tests: a run at work, a home of its own, and a model that is a mock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from real_agents.mock_model import MockModel

CLIENTS = Path(__file__).parents[2] / ".agents/node_modules/.bin"
PROGRAM = Path(__file__).parents[2] / ".venv/bin"
PACKET = "# FABER run "
SECONDS = 50


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
