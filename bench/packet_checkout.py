"""A real git checkout with a run in it: made with the installed command, recorded deliveries and real commits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "tests" / "fixtures"
HOOKS = {
    "SessionStart": "session-start",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "SessionEnd": "session-end",
}
FIRST, SECOND = "c422f8d6-75ff-4d55-a402-dff1f0a6c68a", "0d9b7f52-90c4-4c49-a3a5-3c1f6ef6d1a7"
DAY = "2026-01-05T14:30:22Z"


class Checkout:
    """A clone on a machine, with the run that a scenario is about."""

    def __init__(self, root: Path, faber: str, run_id: str, machine: str = "laptop") -> None:
        self.root = root
        self.faber = faber
        self.run_id = run_id
        self.state_path = root / ".fractary" / "runs" / run_id / "state.json"
        home = root.parent / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        self.environment = kept | {
            "PATH": f"{Path(faber).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "FABER_LEDGER_HOSTNAME": machine,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{
                f"GIT_{who}_{what}": "dev@example.invalid"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            **{f"GIT_{who}_DATE": DAY for who in ("AUTHOR", "COMMITTER")},
        }

    def run(self, *command: str, stdin: str = "", more: dict[str, str] | None = None) -> str:
        """Run a command in the checkout; return what it printed. One that fails ends the measurement."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment | (more or {}),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def git(self, *arguments: str) -> str:
        """Run git."""
        return self.run("git", *arguments)

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message: str) -> None:
        """Commit all that there is."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def change_state(self, **members: Any) -> None:
        """Write members of `state.json`, as FABER's tools do."""
        state = json.loads(self.state_path.read_text()) if self.state_path.exists() else {}
        state.update(members)
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        self.state_path.write_text(json.dumps(state, indent=2, ensure_ascii=False) + "\n")

    def deliver(self, name: str, client: str = FIRST, **changes: Any) -> str:
        """Send a recorded delivery to its hook, from this checkout; return what the hook printed."""
        recorded = json.loads((FIXTURES / "hook-payloads" / f"{name}.json").read_text())
        here = {"session_id": client, "transcript_path": f"{self.root}.jsonl", "cwd": str(self.root)}
        delivery = json.dumps(recorded["stdin"] | here | changes, separators=(",", ":")) + "\n"
        known = {key: value for key, value in recorded["env"].items() if key != "CLAUDE_ENV_FILE"}
        own = {"CLAUDE_PROJECT_DIR": str(self.root), "CLAUDE_CODE_SESSION_ID": client}
        return self.run(self.faber, "hook", HOOKS[name.partition(".")[0]], stdin=delivery, more=known | own)

    def packet(self, name: str, client: str = FIRST) -> str:
        """Send a start; return the packet that the model gets."""
        answer = json.loads(self.deliver(name, client) or "{}")
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def clone_to(self, root: Path, machine: str, branch: str) -> Checkout:
        """Push everything to a server of its own, and clone that on another machine."""
        server = self.root.parent / "server.git"
        self.git("clone", "--quiet", "--bare", str(self.root), str(server))
        self.git("remote", "add", "origin", str(server))
        self.git("fetch", "--quiet", "origin")
        self.git("clone", "--quiet", "--branch", branch, str(server), str(root))
        return Checkout(root, self.faber, self.run_id, machine)

    def copy_workflows(self) -> None:
        """Put FABER's own workflows where its plugin has them in a project."""
        folder = self.root / "plugins" / "faber" / "config" / "workflows"
        folder.mkdir(parents=True)
        for path in (FIXTURES / "workflows").iterdir():
            shutil.copy(path, folder)
