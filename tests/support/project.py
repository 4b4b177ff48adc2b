"""A project with a run, to which the client's recorded deliveries are sent through the installed command."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.verify import find_problems
from faber_ledger.projections.fold import artifacts_in_context, blocks_of, fold, text_of
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.run import Run
from support.command import COMMAND, Command, run_command
from support.folders import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.projections.fold import Blocks

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN = "fractary-faber-258-20260105-143022-a1b2c3"
SPEC_RUN = "fractary-faber-258-20260105-143022"
PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
NUMBERS = itertools.count()  # in the ids of projects
ARGUMENTS = {event: name for event, (name, _) in HOOKS.items()}


class Answer:
    """The exit code, output and errors of a hook."""

    def __init__(self, code: int, output: bytes, errors: bytes) -> None:
        self.code = code
        self.output = output
        self.errors = errors.decode("utf-8", "replace")

    @property
    def packet(self) -> str | None:
        """The text that reaches the model; None if nothing was printed. Anything else on standard output fails."""
        if not self.output or self.hint is not None:
            return None
        assert self.output.count(b"\n") == 1
        assert self.output.endswith(b"\n")
        answer = json.loads(self.output.decode())
        answer.pop("systemMessage", None)
        if not answer:
            return None
        text = answer["hookSpecificOutput"]["additionalContext"]
        assert answer == {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}
        assert isinstance(text, str)
        return text

    @property
    def message(self) -> str | None:
        """The line that a start shows the user; None without one."""
        if not self.output or self.hint is not None:
            return None
        found = json.loads(self.output.decode()).get("systemMessage")
        assert found is None or "\n" not in found
        return found

    @property
    def hint(self) -> str | None:
        """The hint that a PreCompact gives the summarizer; None without one."""
        if not self.output.startswith(b"Keep in the summary"):
            return None
        assert (self.output.count(b"\n"), self.output[-1:]) == (3, b"\n")
        return self.output.decode()


class Project:
    """A git project with an active run, as FABER's own tools leave it, on the machine `hostname`."""

    def __init__(self, root: Path, run_id: str = RUN, hostname: str = "dev-machine-1") -> None:
        self.root = root
        self.run_id = run_id
        self.hostname = hostname
        self.run = root / ".fractary" / "runs" / run_id
        self.state_path = self.run / "state.json"
        self.ledger_path = self.run / "ledger.db"
        self.active_path = root / ".fractary" / "faber" / ".active-run-id"
        self.environment_file = root.parent / f"environment-of-{root.name}.sh"
        self.log_path = root / ".fractary" / "faber" / "logs" / "hooks.log"

    @property
    def private(self) -> Path:
        """The private folder of the run, which is made."""
        folder = Path(Run(str(self.root), self.run_id, str(self.run)).private_folder)
        for one in [*reversed(folder.parents), folder]:
            one.mkdir(mode=0o700, exist_ok=True)
        return folder

    @property
    def clones_log(self) -> Path:
        """The clone's log of the run."""
        return self.private / "log.db"

    @property
    def lock_path(self) -> Path:
        """The file that is locked while something is recorded on the run."""
        return self.private / "lock"

    def refuse(self) -> None:
        """Put a folder in the lock's place, so that nothing can be recorded."""
        self.lock_path.unlink(missing_ok=True)
        self.lock_path.mkdir()

    def relent(self) -> None:
        """Take the folder away again."""
        self.lock_path.rmdir()

    @classmethod
    def made(cls, root: Path, state: dict[str, Any] | str | bytes | None = None, run_id: str = RUN) -> Project:
        """Make the project: a commit, the run's state (by default `usual_state`), the active file, the protocol."""
        project = cls(root, run_id)
        shutil.copytree(_committed_project(), root, dirs_exist_ok=True)
        project.run.mkdir(parents=True)
        project.put_state(usual_state(run_id) if state is None else state)
        project.active_path.parent.mkdir(parents=True)
        project.active_path.write_text(f"{run_id}\n")
        note_use(str(root), run_id, is_taken_up=True)  # as by the first hook, before the state was committed
        return project

    @classmethod
    def fresh(cls, root: Path, run_id: str = RUN, hostname: str = "dev-machine-1") -> Project:
        """Make a git repository without a commit and without a run."""
        project = cls(root, run_id, hostname)
        root.mkdir(parents=True, exist_ok=True)
        project.git("init", "--quiet", "--initial-branch=main")
        return project

    @classmethod
    def noted(cls, root: Path) -> Project:
        """Make the project with git's drivers, and a session and a note in its run, all committed."""
        project = cls.made(root)
        shutil.copytree(_set_up_project(), root, dirs_exist_ok=True)
        settings = root / ".fractary/faber/ledger.json"
        settings.write_text(
            re.sub(r"[0-9A-Z]{26}", lambda found: f"{found[0][:16]}{next(NUMBERS):010d}", settings.read_text())
        )
        project.deliver("SessionStart.startup.print")
        assert project.faber("note", "add", "it went well").returncode == 0
        project.commit()
        return project

    def write(self, relative: str, content: str | bytes) -> Path:
        """Write a file of the project."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def map_fetch(self, *command: str) -> None:
        """Map the command that fetches a work item to a program of the user's."""
        self.configure(commands={"/fractary-work:issue-fetch": [*command]})

    def configure(self, **settings: Any) -> Path:
        """Write the user's own configuration, in a file that is there whole; return its path."""
        config = Path(self.environment()["XDG_CONFIG_HOME"]) / "faber-ledger/config.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        written = config.with_name("written")
        written.write_text(json.dumps(settings))
        written.chmod(0o600)
        return written.rename(config)

    def name_artifacts(self, *always: dict[str, Any], **lists: Any) -> None:
        """Let the run's workflow name these artifacts; one that does not say its type is a text."""
        named = {"always_load": [{"type": "markdown", **one} for one in always], **lists}
        self.write(".fractary/faber/workflows/own.json", json.dumps({"id": "own", "critical_artifacts": named}))
        self.change_state(workflow_id="own")

    def git(self, *arguments: str, code: int = 0) -> str:
        """Run git in the project, without this machine's configuration; raise CalledProcessError on another code."""
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        names = {f"GIT_{who}_{what}": f"dev@{who}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env={**os.environ, **quiet, **names}, capture_output=True, check=False
        )
        if done.returncode != code:
            raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
        return done.stdout.decode().strip()

    def commit(self, message: str = "Work", *options: str) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", message, *options)

    def commit_file(self, relative: str, content: str | bytes, message: str) -> None:
        """Write a file, and commit it alone."""
        self.write(relative, content)
        self.git("add", relative)
        self.git("commit", "--quiet", "-m", message)

    def clone(self, root: Path, hostname: str) -> Project:
        """Clone the project, as on another machine on which the run was resumed."""
        self.git("clone", "--quiet", str(self.root), str(root))
        clone = Project(root, self.run_id, hostname)
        clone.write(".fractary/faber/.active-run-id", f"{self.run_id}\n")
        note_use(str(root), self.run_id, is_taken_up=True)
        return clone

    # Running commands and hooks

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Return a user's environment without a client; `more` sets variables, and removes those that are None."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "GIT_"))}
        home = str(self.root.parent / f"home-{self.hostname}")
        own = {"HOME": home, "XDG_CONFIG_HOME": f"{home}/.config", "FABER_LEDGER_HOSTNAME": self.hostname}
        own |= {"GIT_AUTHOR_NAME": "dev@AUTHOR", "GIT_AUTHOR_EMAIL": "dev@AUTHOR"}
        merged: dict[str, str | None] = {**inherited, **own, **(more or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def faber(
        self,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        program: Sequence[str | Path] = (COMMAND,),
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the project, or `program` in its place; `options` are those of `subprocess.run`."""
        usual: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "encoding": "utf-8"}
        return run_command([*program, *arguments], cwd=self.root, env=self.environment(env), **(usual | options))

    def said(self, *arguments: str, code: int = 0, env: Mapping[str, str | None] | None = None) -> str:
        """Run a command, check its exit code, and return its output and its errors."""
        done = self.faber(*arguments, env=env)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def data(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> Any:
        """Run a command with `--json`, check that it succeeds, and return its data."""
        done = self.faber(*arguments, "--json", env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["data"]

    def start_run(self, work_id: str, *options: str, **env: str | None) -> str:
        """Start a run of a work item; return its id."""
        return str(self.data("run", "start", "--work-id", work_id, *options, env=env)["run_id"])

    def redact(self, *arguments: str, code: int = 0) -> str:
        return self.said("redact", *arguments, "--yes", code=code)

    def on_terminal(self, *arguments: str, answers: list[str] | None = None, env: Any = None) -> tuple[str, int]:
        """Run a command on a terminal, type an answer at each prompt; return what was shown, and the exit code."""
        ours, theirs = pty.openpty()
        process = Command(
            [COMMAND, *arguments], cwd=self.root, env=self.environment(env), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        shown, typed = b"", iter(answers or [])
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # on Linux: the other side is closed
                break
            if not piece:
                break
            shown += piece
            if shown.endswith((b"]: ", b"> ")):
                os.write(ours, next(typed).encode() + b"\n")
        os.close(ours)
        return shown.decode().replace("\r\n", "\n"), process.wait(timeout=60)

    def deliver(self, recorded: str, **changes: Any) -> Answer:
        """Deliver a recorded payload, named after its file and changed as in `prepared`; return the answer."""
        process = self.started(recorded, **changes)
        return answer_of(process, changes.get("stdin", self.prepared(recorded, **changes)[0]))

    def started(self, recorded: str, **changes: Any) -> subprocess.Popen[bytes]:
        """Start the hook's process for a recorded payload; the caller writes the delivery."""
        _, environment, event = self.prepared(recorded, **changes)
        return Command(
            [*changes.get("program", (COMMAND, "hook")), changes.get("argument", ARGUMENTS.get(event, event))],
            cwd=changes.get("directory", self.root),
            env=environment,
            preexec_fn=changes.get("preexec_fn"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def prepared(self, recorded: str, **changes: Any) -> tuple[bytes, dict[str, str], str]:
        """Return a delivery's bytes, its environment and its event, in this project.

        `client` and `pid` replace the recorded session id and process; `env` changes variables (None removes one);
        `fields` changes the payload, and `without` names fields to leave out; `stdin` replaces the bytes, `argument`
        the hook's name, `directory` the working directory, and `program` the command; the process calls `preexec_fn`.
        """
        payload = payload_of(recorded)
        values, variables = payload["stdin"], payload["env"]
        values["cwd"] = variables["CLAUDE_PROJECT_DIR"] = str(self.root)
        if "CLAUDE_ENV_FILE" in variables:
            variables["CLAUDE_ENV_FILE"] = str(self.environment_file)
        if "client" in changes:
            values["session_id"] = variables["CLAUDE_CODE_SESSION_ID"] = changes["client"]
        if "pid" in changes:
            variables["CLAUDE_PID"] = changes["pid"]
        values.update(changes.get("fields", {}))
        values = {name: value for name, value in values.items() if name not in changes.get("without", ())}
        content = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        environment = self.environment({**variables, **changes.get("env", {})})
        return changes.get("stdin", content), environment, payload["stdin"]["hook_event_name"]

    # Reading the result

    def put_state(self, state: dict[str, Any] | str | bytes) -> None:
        """Write state.json as another tool does."""
        text = json.dumps(state, indent=2, ensure_ascii=False) + "\n" if isinstance(state, dict) else state
        self.state_path.write_bytes(text.encode() if isinstance(text, str) else text)

    def change_state(self, **values: Any) -> None:
        """Change members of state.json as another tool does."""
        self.put_state({**self.state, **values})

    @property
    def state(self) -> dict[str, Any]:
        """The content of state.json."""
        found = json.loads(self.state_path.read_bytes().decode("utf-8-sig"))
        assert isinstance(found, dict)
        return found

    @property
    def history(self) -> list[dict[str, Any]]:
        """The session history; its length is checked."""
        sessions = self.state["sessions"]
        found: list[dict[str, Any]] = sessions["session_history"]
        assert sessions["total_sessions"] == len(found)
        return found

    @property
    def current(self) -> str | None:
        """The id of the open session."""
        found: str | None = self.state["sessions"]["current_session_id"]
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """The block `context_metadata`."""
        found: dict[str, Any] = self.state["context_metadata"]
        return found

    @property
    def in_context(self) -> list[str]:
        """The ids of the artifacts in context."""
        return [load["artifact_id"] for load in artifacts_in_context(self.state) if "artifact_id" in load]

    @property
    def events(self) -> list[Recorded]:
        """The log, in order."""
        with Log.read(str(self.ledger_path)) as log:
            return list(log.stream())

    @property
    def recorded(self) -> list[Recorded]:
        """The clone's log, of which the work tree's file may lack something."""
        with Log.read(str(self.clones_log)) as log:
            return list(log.stream())

    @property
    def types(self) -> list[str]:
        """The types of the log's events, in order, without those that accompany a session's start or end."""
        kinds = [recorded["event"]["type"] for recorded in self.events]
        beside = ("context_reloaded", "checkout_recorded")
        return [kind for kind in kinds if not kind.startswith("artifact_") and kind not in beside]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one type, in order."""
        return [dict(recorded["event"]) for recorded in self.events if recorded["event"]["type"] == kind]

    def folded(self) -> Blocks:
        """Fold the log."""
        return fold(self.events)

    def age_log(self, seconds: float) -> None:
        """Write the log anew as if its events had been recorded some seconds ago."""
        events = self.events
        self.ledger_path.unlink()
        shutil.rmtree(self.root / ".git" / "faber-ledger" / "runs")  # the clone's memory of it
        drafts: list[Draft] = [{"event": recorded["event"], "client": recorded["client"]} for recorded in events]
        with Log.open(str(self.ledger_path)) as log:
            log.append(drafts, at=now() - seconds, writer=events[0]["writer"])
            log.commit()

    def assert_projected(self) -> None:
        """Check that state.json shows the log, and that the log has no problem."""
        assert text_of(blocks_of(self.state)) == text_of(self.folded())
        problems = find_problems(str(self.ledger_path))
        assert [one for one in problems if not one.is_note] == []

    @property
    def log_lines(self) -> list[str]:
        """The lines of hooks.log."""
        return self.log_path.read_text().splitlines() if self.log_path.exists() else []


@functools.cache
def _committed_project() -> Path:
    """Make a repository with one commit, which each project begins as a copy of."""
    folder = make_folder()
    project = Project(folder)
    project.git("init", "--quiet", "--initial-branch=main")
    project.write(PROTOCOL, "# Orchestration\n\nOne step after the other.\n")
    project.commit("Begin")
    return project.root


@functools.cache
def _set_up_project() -> Path:
    """Set up what each project begins as a copy of; return it."""
    folder = make_folder()
    project = Project(folder)
    shutil.copytree(_committed_project(), project.root, dirs_exist_ok=True)
    assert project.faber("init", "--git-only").returncode == 0
    return project.root


def usual_state(run_id: str = RUN) -> dict[str, Any]:
    """Return the state of a run in Build, as FABER's own tools write it, without our blocks."""
    return {
        "run_id": run_id,
        "workflow_id": "fractary-faber:default",
        "work_id": "258",
        "status": "in_progress",
        "current_phase": "build",
        "phases": {"frame": {"status": "completed"}, "architect": {"status": "completed"}, "build": {}},
        "artifacts": {},
    }


def spec_state(**changes: Any) -> dict[str, Any]:
    """Return SPEC's example state (section 2) with its `sessions` changed."""
    state: dict[str, Any] = json.loads((FIXTURES / "states" / "spec-00027.json").read_text())
    state["sessions"].update(changes)
    return state


def payload_of(recorded: str) -> dict[str, Any]:
    """Read a recorded delivery."""
    found = json.loads((FIXTURES / "hook-payloads" / f"{recorded}.json").read_text())
    assert isinstance(found, dict)
    return found


def answer_of(process: subprocess.Popen[bytes], content: bytes) -> Answer:
    """Write a delivery to a hook's process and return its answer."""
    output, errors = process.communicate(content, timeout=60)  # a hook that hangs fails the test
    return Answer(process.returncode, output, errors)


def units(text: str) -> int:
    """Count a text's UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def heed_interrupts() -> None:
    """Let a child process react to interrupts, which a shell makes its background processes ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def without_overrides() -> None:
    """Drop root's permission-bypass capabilities in a child process."""
    if os.geteuid() == 0 and sys.platform == "linux":
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP takes effect at the exec that follows
