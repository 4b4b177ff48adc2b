"""A developer's machine: a home, a clone with its work trees, and the program or not."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.command import COMMAND, Command
from support.fork_server import CLOCK
from support.program import program_folder

OURS, FABERS = ACTIVE = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")
BEGIN = 1_767_600_000  # 5 January 2026, in the past of every machine that runs this
SETTINGS = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.fsync": "none",
    "advice.detachedHead": "false",
    "init.defaultBranch": "main",
    "fetch.prune": "true",
}
HOOKS = {
    "SessionStart": "session-start",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "SessionEnd": "session-end",
}


@dataclass
class Clock:
    """The present moment, in whole seconds; only steps move it."""

    now: int = BEGIN

    def pass_minutes(self, minutes: int) -> None:
        self.now += 60 * minutes


@dataclass
class Answer:
    """What a program printed, and its exit code."""

    code: int
    output: str
    errors: str

    @property
    def said(self) -> str:
        return (self.output + self.errors).strip()


def plain_environment(clock: Clock, who: str) -> dict[str, str]:
    """Return an environment with a quiet git and the simulation's time, and nothing of the caller's clients or CI."""
    others = ("GIT_", "CLAUDE", "FABER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others) and name != "CI"}
    kept |= {"GIT_CONFIG_COUNT": str(len(SETTINGS)), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for number, (name, value) in enumerate(SETTINGS.items()):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    for role in ("AUTHOR", "COMMITTER"):
        kept |= {f"GIT_{role}_NAME": who, f"GIT_{role}_EMAIL": f"{who}@example.org"}
        kept[f"GIT_{role}_DATE"] = f"{clock.now} +0000"
    return {**kept, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0", CLOCK: str(clock.now)}


def search_path(*, has_program: bool) -> str:
    """Return the PATH of a machine that has the program, or does not have it."""
    others = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "faber-ledger").exists()]
    return os.pathsep.join([*[program_folder()] * has_program, *others])


@dataclass
class Machine:
    """A machine with one clone. `pulls_by`: its user's habit; `seals_by`: how its user prepares a commit."""

    name: str
    home: Path
    clock: Clock
    has_program: bool = True
    pulls_by: str = "--no-rebase"
    seals_by: str = "seal"  # or "hook" (pre-commit), or "nothing"
    at_work: str | None = None  # the run that is at work in the clone's main work tree
    trees: dict[str, Path] = field(default_factory=dict)
    read: dict[Path, tuple[tuple[int, int], dict[str, dict[str, Any]]]] = field(default_factory=dict)

    @property
    def main(self) -> Path:
        return self.trees["main"]

    @property
    def environment(self) -> dict[str, str]:
        path = search_path(has_program=self.has_program)
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config"), "PATH": path}
        return {**plain_environment(self.clock, self.name), **own, "FABER_LEDGER_HOSTNAME": self.name}

    def git(self, root: Path, *arguments: str) -> Answer:
        """Run git in a work tree; any exit code is accepted."""
        return self._run(["git", *arguments], root)

    def faber(self, root: Path, *arguments: str, client: dict[str, str] | None = None) -> Answer:
        """Run the program in a work tree, inside a client if there is one."""
        return self._run([str(COMMAND), *arguments], root, more=client)

    def hook(self, root: Path, name: str, content: bytes, client: dict[str, str]) -> Answer:
        """Run the program as a client's hook."""
        return self._run([str(COMMAND), "hook", HOOKS[name]], root, content, client)

    def _run(self, words: list[str], root: Path, content: bytes = b"", more: dict[str, str] | None = None) -> Answer:
        pipe = subprocess.PIPE
        environment = {**self.environment, **(more or {})}
        with Command(words, cwd=root, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            output, errors = process.communicate(content, timeout=180)
        return Answer(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))

    # What is on the disk

    def branch(self, root: Path) -> str:
        return self.git(root, "branch", "--show-current").output.strip()

    def exists(self, folder: str, name: str) -> bool:
        """Return whether a file of git's directory is there, such as MERGE_HEAD while a merge has stopped."""
        return os.path.exists(os.path.join(folder, name))

    def unmerged(self, root: Path) -> list[str]:
        """Return the files in conflict."""
        lines = self.git(root, "ls-files", "-u", "-z").output.split("\0")
        return sorted({line.partition("\t")[2] for line in lines if line})

    def logged(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what this clone has recorded or received: each run's events, by their ids."""
        kept = self.main / ".git" / "faber-ledger" / "runs"
        return {run_in(path.parent): self.events(path) for path in kept.glob("*/log.db")}

    def ledgers(self, root: Path) -> dict[str, Path]:
        """Return the ledgers that a work tree has, by the names of their runs."""
        return {run: path.with_name(ledger_name(path)) for run, path in states_in(root).items()}

    def events(self, path: Path) -> dict[str, dict[str, Any]]:
        """Return a ledger's events, by their ids."""
        there = path.stat()
        stamp = there.st_mtime_ns, there.st_size
        known = self.read.get(path)
        if known is None or known[0] != stamp:
            known = self.read[path] = stamp, read_events(path)
        return known[1]


def run_in(private: Path) -> str:
    """Return the id of the run that a private folder is for."""
    return (private / "place").read_text().splitlines()[1]


def read_events(path: Path) -> dict[str, dict[str, Any]]:
    """Return a ledger's events by their ids: type, hash and payload."""
    if not path.stat().st_size:
        return {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT id, type, hash, payload FROM event").fetchall()
    return {row[0]: {"type": row[1], "hash": row[2], "payload": json.loads(row[3])} for row in rows}


def states_in(root: Path) -> dict[str, Path]:
    """Return the runs that a work tree has, in any layout, each with the path of its state."""
    found = {}
    for layout in (".fractary/runs", ".fractary/faber/runs"):
        for pattern in ("*/state.json", "*/*/state.json", "*/state-*.json"):
            for path in (root / layout).glob(pattern):
                found[re.findall(r'^  "run_id": "(.*)"', path.read_text(), re.MULTILINE)[0]] = path
    return found


def ledger_name(state: Path) -> str:
    """Return the name of the ledger beside a state."""
    return state.stem.replace("state", "ledger", 1) + ".db"
