"""Clones of one repository, each as on a machine of its own, with real git and the installed command."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import blocks_of, fold, text_of
from faber_ledger.runs.clone import note_use
from support.command import COMMAND, run_command
from support.folders import make_folder
from support.program import path_with_program
from support.project import usual_state

RUN = "example-258-20260105-143022-a1b2c3"
FOLDER = f".fractary/runs/{RUN}"
LEDGER, STATE = f"{FOLDER}/ledger.db", f"{FOLDER}/state.json"
ACTIVE = ".fractary/faber/.active-run-id"
Done = subprocess.CompletedProcess


class Clone:
    """A clone with an active run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = root / LEDGER
        self.state_path = root / STATE

    @classmethod
    def first(cls, root: Path, *, driver: bool = True) -> Clone:
        """Make the repository, set up, with a run that has one session, all committed."""
        shutil.copytree(_first_clone(root.name, driver), root, symlinks=True)
        return cls(root)

    @classmethod
    def begin(cls, root: Path, *, driver: bool) -> Clone:
        """Make what `first` copies."""
        clone = cls(root)
        root.mkdir()
        clone.git("init", "-q", "-b", "main")
        clone.faber("init", "--git-only")
        if not driver:
            clone.forget_driver()
        clone.state_path.parent.mkdir(parents=True)
        clone.put({**usual_state(RUN), "updated_at": "2026-01-05T14:30:22Z", "notes": {"a": 1, "b": 2, "c": 3}})
        (root / ACTIVE).parent.mkdir(exist_ok=True)
        (root / ACTIVE).write_text(f"{RUN}\n")
        clone.record("first")
        clone.commit("begin")
        return clone

    def clone(self, name: str, *, driver: bool = True) -> Clone:
        """Clone the repository, as on another machine."""
        self.git("clone", "-q", ".", f"../{name}")
        made = Clone(self.root.parent / name)
        made.name_run()
        if driver:
            with (made.root / ".git/config").open("a") as file:
                file.write(_drivers())
        return made

    def name_run(self, run_id: str = RUN) -> None:
        """Name the run in the active file, as `run resume` does, which git ignores."""
        (self.root / ACTIVE).parent.mkdir(parents=True, exist_ok=True)
        (self.root / ACTIVE).write_text(f"{run_id}\n")
        note_use(str(self.root), run_id, is_taken_up=True)

    def forget_driver(self) -> None:
        """Remove the merge driver from the clone's configuration, as in a clone that was never set up."""
        self.git("config", "--local", "--remove-section", "merge.faber-ledger")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "CLAUDE"))}
        home = str(self.root.parent / f"home-{self.root.name}")
        who = {
            f"GIT_{role}_{what}": "dev@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        own = {"HOME": home, "XDG_CONFIG_HOME": f"{home}/.config", "FABER_LEDGER_HOSTNAME": self.root.name}
        path = {"PATH": path_with_program()}
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}
        return {**kept, **who, **own, **path, **quiet}

    def call(self, *arguments: str, cwd: Path | None = None, **more: str) -> Done[str]:
        """Run a program in the clone; any exit code is accepted."""
        done = run_command(
            arguments,
            cwd=cwd or self.root,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def git(self, *arguments: str, code: int = 0) -> str:
        done = self.call("git", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def faber(self, *arguments: str, code: int = 0, **options: Any) -> Done[str]:
        """Run a command; `options` are those of `call`."""
        done = self.call(str(COMMAND), *arguments, **options)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def record(self, client: str) -> None:
        """Start a client's session on the run; its events are in the log when this returns."""
        done = self.deliver("session-start", client, hook_event_name="SessionStart", source="startup")
        assert client in self.clients(), done.stderr

    def end(self, client: str) -> None:
        """End a client's session."""
        self.deliver("session-end", client, hook_event_name="SessionEnd", reason="other")

    def compact(self, client: str) -> str:
        """Compact a client's context, and return what its next session is given."""
        self.deliver("pre-compact", client, hook_event_name="PreCompact", trigger="auto")
        return self.deliver("session-start", client, hook_event_name="SessionStart", source="compact").stdout.decode()

    def deliver(self, hook: str, client: str, **members: str) -> subprocess.CompletedProcess[bytes]:
        """Call a hook, as a client does."""
        done = run_command(
            [COMMAND, "hook", hook],
            cwd=self.root,
            env={**self.environment, "CLAUDE_PROJECT_DIR": str(self.root)},
            input=json.dumps(
                {"session_id": client, "cwd": str(self.root), "transcript_path": "/t", **members}
            ).encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0
        return done

    def commit(self, message: str, *options: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message, *options)

    def advance(self, client: str) -> None:
        """Record a session and commit it."""
        self.record(client)
        self.commit(client)

    # What is there

    def ids(self, path: Path | None = None) -> set[str]:
        with Log.read(str(path or self.ledger)) as log:
            return {recorded["id"] for recorded in log.stream()}

    def kept_ids(self) -> set[str]:
        """Return the events that this clone has: in the file, or in its log."""
        log = self.root / ".git/faber-ledger/runs" / RUN / "log.db"
        return self.ids(log) | (self.ids() if self.ledger.exists() else set())

    def clients(self) -> set[str]:
        with Log.read(str(self.ledger)) as log:
            return {str(recorded["client"]) for recorded in log.stream() if recorded["client"]}

    def put(self, state: dict[str, Any]) -> None:
        self.state_path.write_text(json.dumps(state, indent=2) + "\n")

    def change(self, **members: Any) -> None:
        self.put({**self.state, **members})

    @property
    def state(self) -> dict[str, Any]:
        found = json.loads(self.state_path.read_text())
        assert isinstance(found, dict)
        return found

    def assert_sound(self) -> None:
        """Check that the log is sound, and that state.json shows it."""
        said = self.faber("verify", RUN).stdout
        assert said == f"{RUN}: sound\n", said
        with Log.read(str(self.ledger)) as log:
            assert text_of(blocks_of(self.state)) == text_of(fold(log.stream()))


@functools.cache
def _first_clone(name: str, driver: bool) -> Path:
    folder = make_folder()
    return Clone.begin(folder / name, driver=driver).root


@functools.cache
def _drivers() -> str:
    """Return what `init` adds to a clone's configuration."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        clone = Clone(Path(folder))
        clone.git("init", "-q")
        before = (clone.root / ".git/config").read_text()
        clone.faber("init", "--git-only")
        after = (clone.root / ".git/config").read_text()
    assert after.startswith(before)
    return after.removeprefix(before)


def forge(ledger: Path, payload: str, kind: str = "note") -> None:
    """Insert a row that no writer would write; `payload` is an SQL expression."""
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            f"INSERT INTO event SELECT 1 + max(seq), '7' || id, ?, 1, at, writer, NULL, NULL, hash, salt, {payload},"
            " NULL, zeroblob(32) FROM event",
            (kind,),
        )
    connection.close()
