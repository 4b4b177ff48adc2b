"""Clones whose ledgers travel in git refs, and the bare repository between them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.log import Log
from support.clones import ACTIVE, RUN, Clone
from support.command import COMMAND, Command, run_command
from support.folders import make_folder
from support.program import make_program
from support.project import usual_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.clones import Done

SENT = "refs/faber-ledger/"
SETTINGS = ".fractary/faber/ledger.json"
SECONDS = 30.0  # until a background process must have done its work


def agree(root: Path, remote: str = "origin", *, auto: bool = False) -> None:
    """Set a project and this clone of it up for git refs, as `init --carry refs` does."""
    settings = root / SETTINGS
    found = json.loads(settings.read_text()) if settings.exists() else {}
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({**found, "carry": "refs"}, indent=2) + "\n")
    asked = ["git", "-C", str(root), "rev-parse", "--path-format=absolute", "--git-common-dir"]
    common = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.rstrip("\n"))
    (common / "faber-ledger").mkdir(exist_ok=True)
    (common / "faber-ledger/carry.json").write_text(json.dumps({"remote": remote, "is_automatic": auto}))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return as soon as something is so; fail where it never is."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_sending(root: Path) -> bool:
    """Return whether a background process of a clone lives."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (process / "cwd").samefile(root)
            found.append(is_ours and b"--background" in (process / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended
    return any(found)


class Origin:
    """A bare repository, as a host has it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def made(cls, root: Path) -> Origin:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(root)], check=True)
        return cls(root)

    def git(self, *arguments: str, content: bytes = b"") -> str:
        who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, input=content, env={**os.environ, **who})
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def heads(self) -> dict[str, str]:
        """Return the ledgers' refs and their commits."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)", SENT).splitlines()
        return {name.removeprefix(SENT): commit for name, _, commit in (line.partition(" ") for line in lines)}

    def has(self, clone: CarriedClone, name: str = RUN) -> bool:
        """Return whether a ref has all events of a clone's log."""
        return name in self.heads() and self.ids(name) >= events_in(clone.private(name) / "log.db")

    def content(self, file: str, name: str = RUN) -> bytes:
        """Return a file of a ref's newest commit."""
        command = ["git", "-C", str(self.root), "cat-file", "blob", f"{SENT}{name}:{file}"]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def ids(self, name: str = RUN) -> set[str]:
        """Return the events of a ref's newest commit."""
        path = make_folder() / "ledger.db"
        path.write_bytes(self.content("ledger.db", name))
        return events_in(path)

    def put(
        self,
        files: dict[str, bytes | tuple[str, str, str]],
        name: str = RUN,
        *,
        message: bytes = b"x\n",
        is_child: bool = True,
    ) -> str:
        """Put a commit with files onto a ref; a file is its content, or mode, type and id of another entry."""
        rows = []
        for file, content in files.items():
            entry = ("100644", "blob", self.blob(content)) if isinstance(content, bytes) else content
            rows.append(f"{' '.join(entry)}\t{file}\n")
        tree = self.git("mktree", "--missing", content="".join(rows).encode())
        parent = self.heads().get(name)
        of = ["-p", parent] if parent and is_child else []
        commit = self.git("commit-tree", tree, *of, content=message)
        self.git("update-ref", SENT + name, commit)
        return commit

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", content=content)

    def refuse(self, text: str = "not here") -> None:
        """Refuse every push to the refs of ledgers, as a host's rules do."""
        make_program(self.root / "hooks/pre-receive", f"if grep -q {SENT}; then echo {text} >&2; exit 1; fi")

    def relent(self) -> None:
        (self.root / "hooks/pre-receive").unlink()


class CarriedClone(Clone):
    """A clone of a project whose ledgers travel in git refs."""

    @classmethod
    def started(cls, root: Path, *, ignores_state: bool = False) -> CarriedClone:
        """Make a clone beside its `origin.git`, with a run that has one session, of which nothing was sent."""
        made = _started_clone()
        shutil.copytree(made / "origin.git", root.parent / "origin.git", symlinks=True)
        shutil.copytree(made / "one", root, symlinks=True)
        clone = cls(root)
        clone.git("remote", "set-url", "origin", str(root.parent / "origin.git"))
        if ignores_state:
            clone.git("rm", "--cached", "-rq", ".fractary/runs")
            (root / ".gitignore").write_text("state.json\nmetadata.json\n")
            clone.commit("ignored")
            clone.git("push", "-q", "origin", "main")
        return clone

    @property
    def origin(self) -> Origin:
        return Origin(self.root.parent / "origin.git")

    @property
    def origin_above(self) -> Origin:
        """Return the repository of a project that is not at its own repository's top."""
        return Origin(self.root.parents[1] / "origin.git")

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [str(COMMAND), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in super().environment.items() if name != "CI"}

    def second(self, name: str, *options: str, auto: bool = False) -> CarriedClone:
        """Clone from `origin.git`, as on another machine that has agreed, too."""
        self.git("clone", "-q", *options, f"file://{self.origin.root}", f"../{name}")
        made = CarriedClone(self.root.parent / name)
        made.name_run()
        agree(made.root, auto=auto)
        return made

    def second_at_work(self) -> CarriedClone:
        """Send the run, and return another clone, which has sent its session `by two` since."""
        self.sync()
        two = self.second("two")
        two.sync()
        two.work("by two")
        two.sync()
        return two

    def sync(self, *arguments: str, code: int = 0, path: str | None = None) -> Done[str]:
        done = self.call(str(COMMAND), "sync", *arguments, PATH=path or self.environment["PATH"])
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def synced(self) -> dict[str, Any]:
        """Exchange, and return what was done with the run."""
        rows = json.loads(self.sync("--json").stdout)["data"]["refs"]
        (found,) = [row for row in rows if row["run_id"] == RUN]
        assert isinstance(found, dict)
        return found

    def start_sync(self) -> Command:
        """Start an exchange, and return without waiting for it."""
        return Command(
            [COMMAND, "sync"],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end_with(self, client: str, **more: str) -> None:
        """End a session with more variables in the client's environment."""
        given = {"session_id": client, "cwd": str(self.root), "hook_event_name": "SessionEnd", "reason": "other"}
        environment = {**self.environment, **more, "CLAUDE_PROJECT_DIR": str(self.root)}
        content = json.dumps(given).encode()
        run_command([COMMAND, "hook", "session-end"], cwd=self.root, env=environment, input=content, check=True)

    def is_sending(self) -> bool:
        """Return whether a background process of this clone lives."""
        return is_sending(self.root)

    def wait_for_sender(self) -> None:
        """Wait until the background process has sent all of the run, and has ended."""
        wait_until(lambda: self.origin.has(self) and not self.is_sending())

    def work(self, client: str) -> None:
        """Record a session from its start to its end."""
        self.record(client)
        self.end(client)

    def start_line(self, client: str = "looks") -> str:
        """Start a session, and return the line that the user is shown."""
        done = self.deliver("session-start", client, hook_event_name="SessionStart", source="startup")
        return str(json.loads(done.stdout)["systemMessage"])

    @property
    def log(self) -> Path:
        return self.private(RUN) / "log.db"

    def private(self, run_id: str) -> Path:
        return self.root / ".git/faber-ledger/runs" / run_id.replace("/", "+")

    def log_of(self, run_id: str) -> set[str]:
        return events_in(self.private(run_id) / "log.db")

    def log_ids(self) -> set[str]:
        return events_in(self.log)

    def clients(self) -> set[str]:
        with Log.read(str(self.log)) as log:
            return {str(recorded["client"]) for recorded in log.stream() if recorded["client"]}

    def add_run(self, run_id: str, work_id: str = "7", **more: Any) -> None:
        """Make another run the active one, with a session in it and `more` in its state."""
        folder = self.root / ".fractary/runs" / run_id
        folder.mkdir(parents=True)
        state = {**usual_state(run_id), "work_id": work_id, "updated_at": "2026-01-06T10:00:00Z", **more}
        (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")
        self.name_run(run_id)
        self.deliver("session-start", f"of {run_id}", hook_event_name="SessionStart", source="startup")

    def refs(self, prefix: str = "refs") -> str:
        return self.git("for-each-ref", "--format=%(refname) %(objectname)", prefix)


def path_with_script(clone: CarriedClone, verb: str, script: str, times: int = 1) -> str:
    """Return a search path with a git that runs a shell script first, the first times that it is asked for a verb."""
    folder = make_folder()
    (folder / "git").write_text(
        f"""#!/bin/sh
PATH=${{PATH#*:}}
for word in "$@"; do
  if [ "$word" = {verb} ] && [ "$(ls {folder} | wc -l)" -le {times} ]; then
    mktemp {folder}/done.XXXXXX > /dev/null
    ({script}) > /dev/null
  fi
done
exec git "$@"
"""
    )
    (folder / "git").chmod(0o755)
    return f"{folder}:{clone.environment['PATH']}"


def count_git(clone: CarriedClone, *arguments: str) -> list[str]:
    """Run the command, and return the verbs of git that it and its background process start, in their order."""
    folder = make_folder()
    clone.call(str(COMMAND), *arguments, GIT_TRACE2_EVENT=str(folder))
    wait_until(lambda: not clone.is_sending())
    found = []
    for file in folder.iterdir():
        first = [json.loads(line) for line in file.read_text().splitlines()]
        (start,) = [one for one in first if one["event"] == "start"]
        names = [one["name"] for one in first if one["event"] == "cmd_name"]
        if "/" not in start["sid"]:
            found.append((start["time"], names[0]))
    return [name for _, name in sorted(found)]


def events_in(path: Path) -> set[str]:
    """Return the ids of the events in a ledger."""
    with Log.read(str(path)) as log:
        return {recorded["id"] for recorded in log.stream()}


@functools.cache
def _started_clone() -> Path:
    folder = make_folder()
    Origin.made(folder / "origin.git")
    clone = CarriedClone(folder / "one")
    clone.root.mkdir()
    clone.git("init", "-q", "-b", "main")
    clone.git("remote", "add", "origin", str(folder / "origin.git"))
    clone.faber("init", "--git-only")
    agree(clone.root)
    clone.state_path.parent.mkdir(parents=True)
    clone.put({**usual_state(RUN), "updated_at": "2026-01-05T14:30:22Z"})
    (clone.root / ACTIVE).parent.mkdir(exist_ok=True)
    clone.name_run()
    clone.work("first")
    clone.commit("begin")
    clone.git("push", "-q", "origin", "main")
    return folder
