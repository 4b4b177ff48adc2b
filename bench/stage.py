"""Set up what is measured, in a temporary folder: the wheel as users have it, a project with a run, a long log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from conversation import write_conversation

REPOSITORY = Path(__file__).resolve().parent.parent
RUN_ID = "bench-258-20260105-143022-a1b2c3"
CLIENT = "c422f8d6-75ff-4d55-a402-dff1f0a6c68a"
WRITER = "5f" * 16
PARAGRAPH = "The agent reads this again at each session's start, so that it goes on where it was. " * 4
ARTIFACTS = {"plugins/faber/docs/workflow-orchestration-protocol.md": 6, "specs/WORK-00258-session-ledger.md": 12}
SUMMARY = Path(__file__).with_name("summary.txt").read_text()
DELIVERIES: dict[str, dict[str, object]] = {
    "session-start": {"hook_event_name": "SessionStart", "source": "startup"},
    "pre-compact": {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": None},
    "session-start (compact)": {"hook_event_name": "SessionStart", "source": "compact"},
    "post-compact": {"hook_event_name": "PostCompact", "trigger": "auto", "compact_summary": PARAGRAPH * 4},
    "post-compact (real summary)": {"hook_event_name": "PostCompact", "trigger": "auto", "compact_summary": SUMMARY},
    "session-end": {"hook_event_name": "SessionEnd", "reason": "other"},
}
# A pre-compact after which so many bytes of the client's conversation are new, and what reading them may cost, in REF.
CONVERSATIONS = {"pre-compact (100 KB are new)": (100_000, 0.03), "pre-compact (5 MB are new)": (5_000_000, 0.25)}


class Stage:
    """A folder with `venv/` (the installed wheel), `project/` (a run that has one ended session) and `elsewhere/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.python = str(self.bin / "python")
        self.command = str(self.bin / "faber-ledger")
        self.project = folder / "project"
        self.run = self.project / ".fractary" / "runs" / RUN_ID
        self.elsewhere = folder / "elsewhere"
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG", "LC_ALL") if name in os.environ}
        self.environment = kept | {"PATH": f"{self.bin}:{os.environ['PATH']}", "CLAUDE_PID": "28355"}

    def install(self, *, is_newest: bool = True, extras: str = "[bench,postgres]") -> None:
        """Build the wheel and install it with its bytecode, by the newest pip or the one of a fresh environment."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        build += ["--no-build-isolation", "--wheel-dir", str(self.folder), str(REPOSITORY)]
        subprocess.run(build, check=True, env=environment)
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], check=True, env=environment)
        install = [self.python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        if is_newest:
            subprocess.run([*install, "--upgrade", "pip"], check=True, env=environment)
        wheels = [f"{wheel}{extras}" for wheel in self.folder.glob("*.whl")]
        constraint = ["--constraint", str(REPOSITORY / "requirements.lock")]
        subprocess.run([*install, "--compile", *constraint, *wheels], check=True, env=environment)

    def pip_version(self) -> str:
        """Return the version of the pip that installed the wheel."""
        return subprocess.check_output([self.python, "-m", "pip", "--version"], text=True).split()[1]

    def fill(self) -> None:
        """Make the git project and its run, with artifacts to load, and keep a copy of the run for `restore`."""
        git = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]
        for folder in (self.project, self.elsewhere):
            self.run_command([*git, "init", "--quiet", str(folder)])
        for name, paragraphs in ARTIFACTS.items():
            path = self.project / name
            path.parent.mkdir(parents=True)
            path.write_text(f"# {path.stem}\n\n" + f"{PARAGRAPH}\n\n" * paragraphs)
        self.run_command([*git, "add", "."], self.project)
        self.run_command([*git, "commit", "--quiet", "--message", "First"], self.project)
        self.run_command([self.command, "run", "start", "--work-id", "258", "--run-id", RUN_ID], self.project)
        state = json.loads((self.run / "state.json").read_text())
        state["artifacts"] = {"spec_path": "specs/WORK-00258-session-ledger.md"}
        (self.run / "state.json").write_text(json.dumps(state, indent=2) + "\n")
        for name, fields in DELIVERIES.items():
            self._deliver(name, self.folder / "missing" / f"{CLIENT}.jsonl", fields)
        for name, (size, _) in CONVERSATIONS.items():
            path = self.folder / name / f"{CLIENT}.jsonl"
            write_conversation(path, size)
            self._deliver(name, path, DELIVERIES["pre-compact"])
        for name in ("session-start", "session-end"):
            with self.delivery(name).open("rb") as stdin:
                subprocess.check_output(self.hook(name), cwd=self.project, env=self.environment, stdin=stdin)
        shutil.copytree(self.run, self.folder / "run")
        shutil.copytree(self.private, self.folder / "private")

    def _deliver(self, name: str, transcript: Path, fields: dict[str, object]) -> None:
        delivery = {"session_id": CLIENT, "transcript_path": str(transcript), "cwd": str(self.project), **fields}
        self.delivery(name).write_text(json.dumps(delivery, separators=(",", ":")) + "\n")

    @property
    def private(self) -> Path:
        """The clone's private folder of the run, with its log."""
        return self.project / ".git" / "faber-ledger" / "runs" / RUN_ID

    def restore(self) -> None:
        """Restore the run and flush it to disk, so that no measured process writes its dirty pages."""
        for path in (self.folder / "run").iterdir():
            shutil.copy2(path, self.run)
        shutil.copytree(self.folder / "private", self.private, dirs_exist_ok=True)
        found = (self.run / "ledger.db").stat()
        for path in self.private.glob("tree-*.json"):  # else the next hook would absorb the file again
            note = json.loads(path.read_text())
            note["shape"] = [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
            path.write_text(json.dumps(note))
        os.sync()

    def delivery(self, name: str) -> Path:
        """Return the file with what the client sends to a hook."""
        return self.folder / f"{name}.json"

    def hook(self, name: str) -> list[str]:
        """Return a hook's command."""
        return [f"{self.command}-hook", name.partition(" ")[0]]

    def long_log(self, events: int, reloads: int = 1) -> Path:
        """Return a log of that many events, in sessions with `reloads` reloads of eight artifacts; write it once."""
        path = self.folder / f"{events}-{reloads}.db"
        if not path.exists():
            script = str(Path(__file__).with_name("long_log.py"))
            self.run_command([self.python, script, str(path), str(events), str(reloads)])
        return path

    def long_run(self, events: int) -> Path:
        """Make a project whose active run has a long log; return its folder."""
        project = self.folder / "long"
        run = project / ".fractary" / "runs" / RUN_ID
        run.mkdir(parents=True)
        (run / "ledger.db").hardlink_to(self.long_log(events))
        (project / ".fractary" / "faber").mkdir()
        (project / ".fractary" / "faber" / ".active-run-id").write_text(f"{RUN_ID}\n")
        return project

    def many_runs(self, runs: int, events: int) -> Path:
        """Make a project with that many runs in git; return its folder."""
        project = self.folder / "many"
        script = str(Path(__file__).with_name("make_runs.py"))
        self.run_command([self.python, script, str(project), str(runs), str(events)])
        return project

    def run_command(self, command: list[str], cwd: Path | None = None) -> None:
        """Run a command that must succeed."""
        subprocess.run(command, cwd=cwd or self.folder, env=self.environment, check=True, stdout=subprocess.DEVNULL)
