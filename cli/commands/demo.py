"""`faber-ledger demo`: a run on two machines in a temporary folder, with real commands and hooks."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import click

from faber_ledger.cli.ui import output
from faber_ledger.cli.ui.output import json_option, say_lines, show
from faber_ledger.ledger.clock import now, utc_text
from faber_ledger.ledger.command_errors import StepFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.fold import blocks_of

Done: TypeAlias = subprocess.CompletedProcess[str]


WORKFLOW_PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
PROTOCOL = """\
# Workflow orchestration protocol

1. Work through the phases in their order: frame, architect, build, evaluate, release.
2. After each step write its result into `state.json`, and commit.
3. Never release without an approval.
"""
SPECIFICATION = """\
# Export reports as CSV

`export(rows)` gives one line a row, fields separated by commas, and quotes a field that holds a comma or a quote.
"""
GIT_CONFIG = """\
[user]
\tname = Demo
\temail = demo@example.invalid
[init]
\tdefaultBranch = main
"""
REASONS = ["compaction", "abandoned", "normal"]


@click.command()
@click.option("--keep", is_flag=True, help="Keep the folder with both clones, and print its path.")
@json_option
def demo(keep: bool, as_json: bool) -> None:
    """Show one run on two machines, with a compaction, a kill and a resume, in a temporary folder.

    Two other runs are there: one waits for an answer, and one has failed.

    \b
    Example: faber-ledger demo
    Exit codes: 0 everything worked; 1 a step failed, or `verify` found a problem; 2 wrong usage.
    """
    if shutil.which("git") is None:
        raise LedgerError("the demo needs git, which is not on PATH", hint="install git, and run the command again")
    folder = os.path.realpath(tempfile.mkdtemp(prefix="faber-ledger-demo-"))
    tell = _ignore if as_json else output.tell_lines
    try:
        data = _play(folder, tell)
        show(data | {"directory": folder if keep else None}, [], as_json=as_json)
    finally:
        if keep:
            say_lines(f"\nkept: both clones, in {folder}/laptop/myproject and {folder}/desktop/myproject")
            say_lines("`faber-ledger page`, run in one of them, shows all this in the browser")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if not keep:
        tell("\nTo look at it in the browser: `faber-ledger demo --keep`, then `faber-ledger page` in the kept folder")


def _ignore(line: str) -> None:
    """Print nothing."""


def _play(folder: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Play the whole demo and return the run's blocks and log at its end; raises StepFailed."""
    tell("One FABER run on two machines. Every command below is really run.\n")
    laptop, desktop = tell_story(folder, tell)
    tell("\n9. What the desktop knows of the run's sessions")
    desktop.run("faber-ledger", "replay", shown=slice(0, None))
    tell("\n10. The laptop gets all of it with a pull, and verifies the log")
    laptop.run("git", "pull", shown=slice(0, 1))
    laptop.run("faber-ledger", "verify", shown=slice(0, None))
    state = desktop.state()
    blocks = blocks_of(state)
    log = laptop.run("faber-ledger", "log", "--json", quiet=True)
    reasons = [session.get("end_reason") for session in blocks["sessions"]["session_history"]]
    if reasons != REASONS or blocks_of(laptop.state()) != blocks:
        raise StepFailed(f"the sessions ended as {reasons}, not as {REASONS}", hint="this is a bug: please report it")
    return {"run_id": state["run_id"], **blocks, "log": [json.loads(line) for line in log.splitlines()]}


def surroundings(folder: str) -> dict[str, str]:
    """Return the variables of the demo's commands: the caller's git settings, client and home do not reach them."""
    with open(os.path.join(folder, ".gitconfig"), "w", encoding="utf-8") as file:
        file.write(GIT_CONFIG)
    foreign = ("GIT_", "CLAUDE", "FABER_LEDGER_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    program = os.path.dirname(os.path.abspath(sys.argv[0]))
    return kept | {
        "HOME": folder,
        "PATH": program + os.pathsep + kept.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
        "PYTHONUTF8": "1",
    }


def tell_story(folder: str, tell: Callable[[str], None]) -> tuple[Machine, Machine]:
    """Play the story in an empty folder up to the run's end; returns laptop and desktop. Raises StepFailed."""
    environment = surroundings(folder)
    laptop = Machine("laptop", 26210, environment, tell)
    desktop = Machine("desktop", 30728, environment, tell)

    tell("1. A project with the hooks in its settings, and a clone of it on each machine")
    laptop.run("git", "init", "--bare", "../origin.git", quiet=True)
    laptop.clone("myproject")
    laptop.write(WORKFLOW_PROTOCOL, PROTOCOL)
    laptop.run("faber-ledger", "init", shown=slice(2))
    laptop.commit("Set up faber-ledger")
    desktop.clone("myproject")

    tell("\n2. Two other runs: on the laptop one waits for an answer, on the desktop one fails")
    play_session(laptop, "251", "Rate limits", LAPTOPS_OTHER, **WAITING)
    play_session(desktop, "263", "Nightly totals", DESKTOPS_OTHER, **FAILED)
    desktop.commit("Record the failed run")
    laptop.run("git", "pull", quiet=True)

    tell("\n3. A run starts on the laptop. The client starts, and its SessionStart hook gives the agent the context")
    start = ("run", "start", "--work-id", "258", "--target", "CSV export", "--yes")  # the other run is active
    laptop.run("faber-ledger", *start, shown=slice(-4, None))
    run_id = laptop.state()["run_id"]
    laptop.work(current_phase="frame")
    laptop.deliver("startup")

    tell("\n4. The agent works through Frame and Architect, and writes the specification")
    spec = "specs/SPEC-258-csv-export.md"
    laptop.write(spec, SPECIFICATION)
    laptop.work("frame", "architect", current_phase="build", artifacts={"spec_path": spec})
    laptop.commit("Specify the CSV export")
    laptop.respond((21_480, 0, 1_930), (3_260, 21_480, 4_120), (6_750, 24_740, 2_870))

    tell("\n5. In the middle of Build the context is full: the client compacts it, and the agent gets it back")
    laptop.deliver("compacting")
    laptop.deliver("compact")
    laptop.deliver("compacted")

    tell("\n6. Build is done and pushed. Then the client is killed, and no SessionEnd hook is called")
    laptop.write("export.py", "def export(rows): ...\n")
    laptop.work("build", current_phase="evaluate")
    laptop.commit("Build the CSV export")
    left_open = laptop.state()["sessions"]["current_session_id"].rpartition("-")[2]
    tell(f"   laptop  no hook ended the session: state.json still has {left_open} open")

    tell("\n7. On the desktop the run continues, with the same context")
    desktop.run("git", "pull", shown=slice(1))
    desktop.run("faber-ledger", "run", "resume", run_id, "--yes", shown=slice(-1, None))
    desktop.deliver("resume")

    tell("\n8. Evaluate and Release are done there, and the user leaves the client")
    desktop.write("CHANGELOG.md", "- Reports can be exported as CSV.\n")
    desktop.work("evaluate", "release", current_phase="release", status="completed")
    desktop.respond((18_340, 0, 1_240), (2_910, 18_340, 3_650))
    desktop.deliver("exit")
    desktop.commit("Release the CSV export")
    return laptop, desktop


def play_session(machine: Machine, work_id: str, target: str, conversation: str, **state: object) -> None:
    """Play a run of one session that ends in the middle of Build; show only what FABER writes of it."""
    silent = copy.copy(machine)
    silent.tell, silent.conversation = _ignore, conversation
    silent.run("faber-ledger", "run", "start", "--work-id", work_id, "--target", target)
    silent.deliver("startup")
    machine.work("frame", "architect", current_phase="build", **state)
    silent.respond((14_620, 0, 2_310), (5_180, 14_620, 3_440))
    silent.deliver("exit")


PRINTING = ("SessionStart", "PreCompact")  # a packet, and what a summary should keep
GIVEN = re.compile(r"^(?:=+ |- )?([a-z-]+)(?: \(required\))?(: (?:whole|outline|not shown)), ", re.MULTILINE)


class Machine:
    """A machine with a clone of the project; `tell` takes each line about what happens there."""

    def __init__(self, name: str, pid: int, environment: dict[str, str], tell: Callable[[str], None]) -> None:
        """Make the machine's folder in HOME; `pid` is the process id of the client that runs there."""
        self.name, self.pid, self.tell = name, pid, tell
        self.conversation = CONVERSATION
        self.environment = environment | {"FABER_LEDGER_HOSTNAME": name}
        self.directory = os.path.join(environment["HOME"], name)
        os.makedirs(self.directory)

    def clone(self, project: str) -> None:
        """Clone the origin as `project`, and go into it."""
        self.run("git", "clone", "../origin.git", project, shown=slice(1))
        self.directory = os.path.join(self.directory, project)

    def run(self, *command: str, shown: slice = slice(0), quiet: bool = False) -> str:
        """Run a command and return its standard output; show the command, and the lines of output that `shown` selects.

        With `quiet` the command is not shown. Raises StepFailed with what it printed.
        """
        if not quiet:
            self._tell_command(" ".join([f'"{word}"' if " " in word else word for word in command]))
        done = self._execute(list(command), self.environment)
        if done.returncode:
            raise self._failure(f"`{' '.join(command)}` ended with exit code {done.returncode}", done)
        for line in (done.stdout + done.stderr).splitlines()[shown]:
            self._tell_output(line.strip())
        return done.stdout

    def deliver(self, kind: str) -> None:
        """Call a hook as the client's settings say, with a delivery of this kind, and show what changed.

        Raises StepFailed if the hook complains, prints nothing where it should, or prints where it should not.
        """
        call = {
            "session_id": self.conversation,
            "transcript_path": self._transcript(),
            "cwd": self.directory,
            **EVENTS[kind],
        }
        event = call["hook_event_name"]
        with open(os.path.join(self.directory, ".claude", "settings.json"), encoding="utf-8") as file:
            command: str = json.load(file)["hooks"][event][0]["hooks"][0]["command"]
        why = next(f'"{name}":"{call[name]}"' for name in ("source", "trigger", "reason") if name in call)
        self._tell_command(f"{command.rpartition('exec ')[2]} ← {{{why}, …}}")
        before = self._sessions()
        client = {
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": self.conversation,
            "CLAUDE_PID": str(self.pid),
            "CLAUDE_PROJECT_DIR": self.directory,
        }
        done = self._execute(["sh", "-c", command], self.environment | client, json.dumps(call) + "\n")
        if done.returncode or done.stderr or bool(done.stdout) != (event in PRINTING):
            raise self._failure(f"the {event} hook failed", done)
        if event == "SessionStart":
            self._tell_packet(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
        for change in _session_changes(before, self._sessions()):
            self._tell_output(f"→ {change}")

    def respond(self, *responses: tuple[int, int, int]) -> None:
        """Write responses into the client's transcript: their tokens that no cache had, the cached ones, the output."""
        path = self._transcript()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            for fresh, cached, output_tokens in responses:
                usage = {"input_tokens": fresh, "cache_read_input_tokens": cached, "output_tokens": output_tokens}
                message = {"model": MODEL, "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "usage": usage}
                entry = {"message": message, "type": "assistant", "timestamp": utc_text(now())}
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")

    def write(self, path: str, text: str) -> None:
        """Write a file of the project; its path is relative."""
        absolute = os.path.join(self.directory, *path.split("/"))
        os.makedirs(os.path.dirname(absolute), exist_ok=True)
        with open(absolute, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)

    def commit(self, message: str) -> None:
        """Commit everything and push it."""
        self.run("git", "add", "--all", quiet=True)
        self.run("git", "commit", "-m", message, shown=slice(1))
        self.run("git", "push", shown=slice(-1, None))

    def work(self, *completed: str, **others: object) -> None:
        """Edit `state.json` as FABER does: mark phases as completed, and set other keys."""
        state = self.state()
        phases, current = state["phases"], others.get("current_phase")
        if current is not None:
            status = "failed" if others.get("status") == "failed" else "in_progress"
            phases[current] = {"status": status, "started_at": utc_text(now())}
        phases |= {phase: {**phases.get(phase, {}), "status": "completed"} for phase in completed}
        state |= others | {"updated_at": utc_text(now())}
        with open(self._state_path(), "w", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(state, ensure_ascii=False, indent=2) + "\n")
        done = f" {' and '.join(completed)} completed" if completed else ""
        self.tell(f"   {self.name:<7} FABER writes into state.json:{done}")
        self._tell_output(", ".join([f"{name} = {json.dumps(value)}" for name, value in others.items()]))

    def state(self) -> dict[str, Any]:
        """Read the active run's state."""
        with open(self._state_path(), encoding="utf-8") as file:
            state: dict[str, Any] = json.load(file)
        return state

    def _transcript(self) -> str:
        return os.path.join(self.environment["HOME"], ".claude", f"{self.conversation}.jsonl")  # both machines have it

    def _state_path(self) -> str:
        folder = os.path.join(self.directory, ".fractary")
        with open(os.path.join(folder, "faber", ".active-run-id"), encoding="utf-8") as file:
            return os.path.join(folder, "runs", file.read().strip(), "state.json")

    def _sessions(self) -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = self.state()["sessions"]["session_history"]
        return history

    def _execute(self, command: list[str], variables: dict[str, str], given: str = "") -> Done:
        return subprocess.run(
            command, cwd=self.directory, env=variables, input=given, capture_output=True, encoding="utf-8", check=False
        )

    def _failure(self, what: str, done: Done) -> StepFailed:
        said = (done.stderr + done.stdout).strip() or "it printed nothing"
        return StepFailed(
            f"{self.name}: {what}: {said}", hint="run `faber-ledger demo --keep` and look into the folder that it keeps"
        )

    def _tell_command(self, command: str) -> None:
        self.tell(f"   {self.name:<7} $ {command}")

    def _tell_output(self, line: str) -> None:
        self.tell(f"             {line}")

    def _tell_packet(self, packet: str) -> None:
        lines = packet.splitlines()
        self._tell_output(f"│ {lines[0]}")
        self._tell_output(f"│ {next(line for line in lines if line.startswith('Phase: '))}")
        self._tell_output(f"│ {' · '.join([name + how for name, how in GIVEN.findall(packet)])}")
        self._tell_output(f"→ the agent has these {len(packet):,} characters in its context")


def _session_changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a hook changed in the session history, in words."""
    known = {session["session_id"]: session for session in before}
    for session in after:
        name = session["session_id"].rpartition("-")[2]
        old = known.get(session["session_id"])
        if old is None:
            yield f"state.json: session {name} is open on the {session['environment']['hostname']}"
        elif session != old:
            completed = ", ".join(session["phases_completed"]) or "nothing"
            yield f"state.json: session {name} has ended ({session['end_reason']}); completed: {completed}"


CONVERSATION = "324802ff-0231-4ac6-8eb6-c6c99574fbae"  # the client's own session id, which a resume keeps
LAPTOPS_OTHER = "8c1f6a52-7d0e-4b39-9a84-20f1d3c7e655"
DESKTOPS_OTHER = "d94b70e3-15a8-4c62-b7f0-6e3a91c5284d"
MODEL = "claude-opus-4-1-20250805"
WAITING = {
    "status": "awaiting_feedback",
    "feedback_request": {"prompt": "Which limit do clients without a key get: 60 or 600 requests an hour?"},
}
FAILED = {
    "status": "failed",
    "errors": [{"phase": "build", "step": "implement", "message": "test_totals: 3 of 41 tests fail after 3 attempts"}],
}
EVENTS = {
    "startup": {"hook_event_name": "SessionStart", "source": "startup"},
    "compacting": {"hook_event_name": "PreCompact", "trigger": "auto"},
    "compact": {"hook_event_name": "SessionStart", "source": "compact"},
    "compacted": {"hook_event_name": "PostCompact", "trigger": "auto", "compact_summary": "Build goes on."},
    "resume": {"hook_event_name": "SessionStart", "source": "resume"},
    "exit": {"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"},
}
