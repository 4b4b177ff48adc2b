"""Two clones of one repository with real git, real files and the real hook program; and a clock that only steps move.

`World` acts as git's users, FABER's tools and clients do. It looks at what git and the product left behind, and keeps
the plain facts in a `model.Clone` for each clone.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.command import COMMAND, Command
from support.digests import keyed_digest
from support.fork_server import CLOCK

from clients import model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS, FABERS = ACTIVE = (".fractary/faber/.active-run-id", ".fractary/faber/runs/.active-run-id")
LAYOUTS = (".fractary/runs", ".fractary/faber/runs")
# Where FABER writes a run's state (row 1): the first two know it by its id, the others by its plan and suffix.
STATES = (
    ".fractary/runs/{0}/state.json",
    ".fractary/faber/runs/{0}/state.json",
    ".fractary/faber/runs/{1}/{2}/state.json",
    ".fractary/faber/runs/{1}/state-{2}.json",
)
PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
BEGIN = 1_767_600_000  # 5 January 2026, in the past of every machine that runs this
ARGUMENTS = {
    "SessionStart": "session-start",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "SessionEnd": "session-end",
}
IGNORED = ".claude/\n*.log\n"
SEEN = ("session_started", "session_ended", "delivery_ignored", "compaction_completed")


@dataclass
class Person:
    """A client as its user has it: its process, where it was launched, and where its shell is now."""

    clone: str
    client: str
    pid: str | None
    root: str
    cwd: str
    is_alive: bool = True
    is_compacting: bool = False


@dataclass
class Answer:
    """What a hook or command printed."""

    code: int
    output: str
    errors: str

    def packet_of(self) -> tuple[str | None, str]:
        """Return what a hook printed: "packet", "shown", "hint" or None; and the text."""
        if not self.output:
            return None, ""
        if self.output.startswith("Keep in the summary"):
            return "hint", self.output
        answer = json.loads(self.output)
        text = answer.get("hookSpecificOutput", {}).get("additionalContext")
        if text is None:
            return None, answer.get("systemMessage", "")
        return ("packet" if "\n" in text else "shown"), text  # a packet begins with what is wrong, if anything is


class CloneOnDisk:
    """A clone, the facts about it, and what was read of its logs before."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.roots = {"main": root}
        self.facts = model.Clone()
        self.common = root / ".git"
        self.log_lengths: dict[str, int] = {}  # the lines of each work tree's reflog that were read
        self.read: dict[Path, tuple[tuple[int, int], list[dict[str, Any]]]] = {}
        self.names: dict[str, tuple[str | None, ...]] = {}  # what a commit's active files name
        self.stashes = 0
        self.unadopted: dict[str, model.Event] = {}  # sessions that a tool has written into runs that have a log


class World:
    """A repository, Ann's clone with linked work trees, Bob's clone, and the time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = BEGIN
        self.history: list[str] = []
        self.clones: dict[str, CloneOnDisk] = {}
        self.people: list[Person] = []
        self.count = 0
        self.plain = self._environment()
        self._begin()

    # The clock and the programs

    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    def say(self, what: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.now - BEGIN:>7}  {what}")

    def new_name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "CLAUDE", "FABER"))}
        settings = {
            "gc.auto": "0",
            "maintenance.auto": "false",
            "core.fsync": "none",
            "pull.rebase": "false",
            "advice.detachedHead": "false",
            "init.defaultBranch": "main",
        }
        kept |= {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for number, (name, value) in enumerate(settings.items()):
            kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        for role in ("AUTHOR", "COMMITTER"):
            kept |= {f"GIT_{role}_NAME": "dev", f"GIT_{role}_EMAIL": "dev@example.org"}
        path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "GIT_EDITOR": "true", "HOME": str(self.folder / "home")}

    def environment(self, clone: CloneOnDisk) -> dict[str, str]:
        moment = f"{self.now} +0000"
        own = {"FABER_LEDGER_HOSTNAME": clone.name, CLOCK: str(self.now)}
        return {**self.plain, **own, "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}

    def git(self, clone: CloneOnDisk, tree: str, *arguments: str) -> tuple[int, str]:
        """Run git in a work tree; return its exit code and what it printed."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=clone.roots[tree],
            env=self.environment(clone),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    def run(
        self,
        clone: CloneOnDisk,
        tree: str,
        arguments: Sequence[str],
        content: bytes = b"",
        more: dict[str, str | None] | None = None,
    ) -> Answer:
        """Run our program in a work tree, at the present moment of the simulation."""
        environment: dict[str, str | None] = {**self.environment(clone), **(more or {})}
        pipe = subprocess.PIPE
        with Command(
            [str(COMMAND), *arguments],
            cwd=clone.roots[tree],
            env={name: value for name, value in environment.items() if value is not None},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        ) as process:
            output, errors = process.communicate(content, timeout=120)
        return Answer(process.returncode, output.decode(), errors.decode())

    # The beginning

    def _begin(self) -> None:
        origin, ann = self.folder / "origin.git", self.folder / "ann"
        (self.folder / "home").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--bare", str(origin)], env=self.plain, check=True)
        ann.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=ann, env=self.plain, check=True)
        first = CloneOnDisk("ann", ann)
        (ann / ".gitignore").write_text(IGNORED)
        (ann / "code.txt").write_text("code\n")
        (ann / PROTOCOL).parent.mkdir(parents=True)
        (ann / PROTOCOL).write_text("# Orchestration\n\nOne step after the other.\n")
        assert self.run(first, "main", ["init", "--git-only"]).code == 0
        for arguments in (
            ("add", "-A"),
            ("commit", "-qm", "Begin"),
            ("remote", "add", "origin", str(origin)),
            ("push", "-qu", "origin", "main"),
        ):
            code, said = self.git(first, "main", *arguments)
            assert code == 0, said
        subprocess.run(["git", "clone", "-q", str(origin), str(self.folder / "bob")], env=self.plain, check=True)
        second = CloneOnDisk("bob", self.folder / "bob")
        assert self.run(second, "main", ["init", "--git-only"]).code == 0
        self.clones = {"ann": first, "bob": second}
        for clone in self.clones.values():
            self.look_at_git(clone, "main")

    def add_tree(self, clone: CloneOnDisk, name: str, branch: str, *, inside: bool) -> bool:
        """Add a linked work tree on a new branch, beside the main one or, as clients make them, inside it."""
        main = clone.roots["main"]
        root = main / ".claude" / "worktrees" / name if inside else main.parent / f"{main.name}-{name}"
        code, said = self.git(clone, "main", "worktree", "add", "-q", "-b", branch, str(root))
        if code:
            self.say(f"{clone.name}: git worktree add failed: {said.strip()[:100]}")
            return False
        clone.roots[name] = root
        self.look_at_git(clone, name)
        return True

    # What is there

    def git_folder(self, clone: CloneOnDisk, tree: str) -> Path:
        inside = clone.roots[tree] / ".git"
        if inside.is_dir():
            return inside
        return Path(inside.read_text().removeprefix("gitdir: ").strip())

    def set_times(self, clone: CloneOnDisk) -> None:
        """Give what this step wrote the time of the simulation."""
        paths = [root / name for root in clone.roots.values() for name in ACTIVE]
        own = ("faber-ledger-run", "faber-ledger-put-back")
        paths += [self.git_folder(clone, tree) / name for tree in clone.roots for name in own]
        clients = clone.common / "faber-ledger" / "clients"
        if clients.is_dir():
            paths += clients.iterdir()
        for path in paths:
            try:
                if path.stat().st_mtime > self.now + 1:
                    os.utime(path, (self.now, self.now))
            except FileNotFoundError:
                continue

    def look_at_git(self, clone: CloneOnDisk, tree: str) -> None:
        """Read a work tree's HEAD, reflog and index, after git has run in it."""
        self.set_times(clone)
        root, folder = clone.roots[tree], self.git_folder(clone, tree)
        facts = clone.facts.trees.setdefault(tree, model.Tree(tree, None, [], [], {}))
        head = (folder / "HEAD").read_text().strip()
        facts.branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else None
        log = folder / "logs" / "HEAD"
        lines = log.read_text().splitlines() if log.exists() else []
        new = lines[clone.log_lengths.get(tree, 0) :]
        clone.log_lengths[tree] = len(lines)
        # One command is one step: nobody has worked with what a rebase checks out on its way.
        steps = [(new[-1].split()[1], verb_of(new[0].partition("\t")[2]))] if new else []
        asked = [(sha, name) for sha, _ in steps if sha not in clone.names for name in ACTIVE]
        staged = [f":{stage}:{name}" for stage in (0, 2, 3) for name in ACTIVE]
        found = self._blobs(clone, root, [*staged, *(f"{sha}:{name}" for sha, name in asked)])
        for (sha, _), name in zip(asked, found[6:], strict=True):
            known = clone.names.get(sha, ())
            if len(known) < len(ACTIVE):
                clone.names[sha] = (*known, name)
        facts.heads += [model.Head(verb, self.now, clone.names[sha]) for sha, verb in steps]
        facts.files = [
            model.ActiveFile(None, 0, name, tuple(sides))
            for name, *sides in zip(found[:2], found[2:4], found[4:6], strict=True)
        ]
        self.look(clone)

    def _blobs(self, clone: CloneOnDisk, root: Path, wanted: list[str]) -> list[str | None]:
        content = "".join(f"{name}\n" for name in wanted).encode()
        done = subprocess.run(
            ["git", "cat-file", "--batch"],
            cwd=root,
            env=self.environment(clone),
            input=content,
            capture_output=True,
            check=True,
        )
        found: list[str | None] = []
        rest = done.stdout
        for _ in wanted:
            line, _, rest = rest.partition(b"\n")
            words = line.split()
            if len(words) == 3 and words[1] == b"blob":
                size = int(words[2])
                found.append(rest[:size].decode().strip())
                rest = rest[size + 1 :]
            else:
                found.append(None)
        return found

    def look(self, clone: CloneOnDisk) -> None:
        """Read the active files, the runs' states and the logs, as everything but git may have changed them."""
        self.set_times(clone)
        for tree, facts in clone.facts.trees.items():
            root = clone.roots[tree]
            for file, name in zip(facts.files, ACTIVE, strict=True):
                path = root / name
                file.name, file.at = None, 0
                if path.exists():
                    file.name, file.at = path.read_text().strip() or None, int(path.stat().st_mtime)
            facts.recorded = {run_of_ledger(path) for path in self._run_files(root, "ledger.lock", "ledger-*.lock")}
            facts.states = {run: state_at(path) for run, path in states_in(root).items()}
        kept = clone.common / "faber-ledger" / "runs"
        clone.facts.kept = {path.parent.name: state_at(path) for path in kept.glob("*/state.json")}
        mirrors = list(kept.glob("*/ledger.db"))
        for tree, facts in clone.facts.trees.items():
            files = self._run_files(clone.roots[tree], "ledger.db", "ledger-*.db")
            facts.logs = {run: events_of(rows) for run, rows in self.logs(clone, [*mirrors, *files]).items()}
            for run, path in states_in(clone.roots[tree]).items():
                if not facts.logs.get(run):
                    facts.logs[run] = sessions_of_tool(path)
            for run, start in clone.unadopted.items():
                # Row 49: "One that began while a session of this machine was open is that session: it adds nothing." Of
                # another that a tool wrote no machine is known before a load goes on with it.
                log = facts.logs[run]
                loaded = {event.session for event in log if event.type == "context_reloaded" and event.is_ours}
                opened = [
                    one for one in model.open_sessions(log) if one.source != model.ADOPTED or one.session in loaded
                ]
                if start.session not in {event.session for event in log} and not opened:
                    log.append(start)

    def logs(self, clone: CloneOnDisk, paths: list[Path] | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return each run's events in these ledgers, or in all that this clone has."""
        writer = clone.common / "faber-ledger" / "writer"
        own = writer.read_text().strip() if writer.exists() else ""
        logs: dict[str, dict[str, dict[str, Any]]] = {}
        for path in paths if paths is not None else self._ledgers(clone):
            for row in self._read(clone, path):
                logs.setdefault(run_of_ledger(path), {})[row["id"]] = {**row, "is_ours": row["writer"] == own}
        return {run: sorted(rows.values(), key=lambda row: (row["seq"], row["id"])) for run, rows in logs.items()}

    def _ledgers(self, clone: CloneOnDisk) -> Iterator[Path]:
        yield from (clone.common / "faber-ledger" / "runs").glob("*/ledger.db")
        for root in clone.roots.values():
            yield from self._run_files(root, "ledger.db", "ledger-*.db")

    def _run_files(self, root: Path, name: str, shared: str) -> Iterator[Path]:
        """List the files of all runs in a work tree; `shared`: their name in a folder that runs share."""
        for layout in LAYOUTS:
            for pattern in (f"*/{name}", f"*/*/{name}", f"*/{shared}"):
                yield from (root / layout).glob(pattern)

    def has_ledger(self, clone: CloneOnDisk, tree: str, run: str) -> bool:
        files = self._run_files(clone.roots[tree], "ledger.db", "ledger-*.db")
        return run in [run_of_ledger(path) for path in files]

    def _read(self, clone: CloneOnDisk, path: Path) -> list[dict[str, Any]]:
        there = path.stat()
        stamp = there.st_mtime_ns, there.st_size
        known = clone.read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        rows: list[dict[str, Any]] = []
        if there.st_size:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                database.row_factory = sqlite3.Row
                for row in database.execute("SELECT seq, id, type, at, writer, client, session_id, payload FROM event"):
                    rows.append({**dict(row), "payload": json.loads(row["payload"])})
        clone.read[path] = stamp, rows
        return rows

    # Deliveries

    def deliver(self, person: Person, hook: str, root: str | None = None, **fields: str | None) -> str:
        """Deliver to the hook; return the difference to the model, or an empty text."""
        clone = self.clones[person.clone]
        tree = root or person.root
        self.look(clone)
        payload = {
            "session_id": person.client,
            "transcript_path": "/t",
            "cwd": str(clone.roots[person.cwd]),
            "hook_event_name": hook,
            **fields,
        }
        content = json.dumps(payload, separators=(",", ":")).encode() + b"\n"
        digest = keyed_digest(clone.common, content)
        call = model.Delivery(hook, tree, person.cwd, self.now, person.client, person.pid, digest, fields.get("source"))
        before = self.logs(clone)
        files = self._stamps(clone)
        expected = model.outcome_of(clone.facts, call)
        answer = self.run(
            clone,
            tree,
            ["hook", ARGUMENTS[hook]],
            content,
            {
                "CLAUDE_PROJECT_DIR": str(clone.roots[tree]),
                "CLAUDE_PID": person.pid,
                "CLAUDE_CODE_SESSION_ID": person.client,
            },
        )
        self.look(clone)
        found = self._new_events(before, self.logs(clone))
        printed, text = answer.packet_of()
        wanted = sorted(expected.events, key=str)
        what = f"{person.clone}/{tree}{'' if person.cwd == tree else f' (cwd {person.cwd})'}: {hook}"
        detail = " ".join(f"{value}" for name, value in fields.items() if value and name != "compact_summary")
        self.say(f"{what} {detail} of {person.client} pid {person.pid} -> {brief(found)} {printed or ''}")
        differences = []
        if answer.code != 0 or "Traceback" in answer.errors or "bug in faber-ledger" in answer.errors:
            differences.append(f"the hook failed: {answer.code} {answer.errors}")
        if found != wanted:
            differences.append(f"events: expected {brief(wanted)}, found {brief(found)}")
        if printed != expected.printed:
            differences.append(f"printed: expected {expected.printed}, found {printed}: {text[:200]!r}")
        if printed is not None and expected.run is not None and expected.run not in text:
            differences.append(f"printed: not about {expected.run}: {text[:200]!r}")
        if not expected.events and self._stamps(clone) != files:
            differences.append("a tracked file changed although nothing was to be recorded")
        if not differences:
            return ""
        said = answer.errors.strip().replace("\n", "\n    ")
        return "\n".join(
            [*differences, f"model: {expected.why}", f"standard error: {said}", self.describe(clone, tree)]
        )

    def command(
        self, person: Person | None, clone: CloneOnDisk, tree: str, arguments: list[str], expected: model.Outcome
    ) -> str:
        """Run a command, inside a `person`'s client if there is one; return the difference to the model, if any."""
        before, facts = self.logs(clone), self.describe(clone, tree)
        inside: dict[str, str | None] = {}
        if person is not None:
            inside = {"CLAUDE_CODE_SESSION_ID": person.client, "CLAUDE_PID": person.pid}
        answer = self.run(clone, tree, arguments, more=inside)
        self.look(clone)
        found: list[model.Fact] = [(*event[:3], None) for event in self._new_events(before, self.logs(clone))]
        wanted: list[model.Fact] = sorted([(*event[:3], None) for event in expected.events], key=str)
        who = f" by {person.client} pid {person.pid}" if person is not None else ""
        self.say(f"{clone.name}/{tree}: faber-ledger {' '.join(arguments)}{who} -> {brief(found)} (exit {answer.code})")
        differences = []
        if "Traceback" in answer.errors:
            differences.append("the command failed")
        if sorted(found, key=str) != wanted:
            differences.append(f"events: expected {brief(wanted)}, found {brief(found)}")
        if (answer.code != 0) != (expected.printed == "refused"):
            differences.append(f"exit code {answer.code}, expected {expected.printed or 0}")
        if not differences:
            return ""
        said = (answer.output[-600:] + answer.errors[-1200:]).strip().replace("\n", "\n    ")
        return "\n".join([*differences, f"model: {expected.why}", f"output: {said}", facts])

    def names_in_base(self, clone: CloneOnDisk, tree: str) -> tuple[str | None, ...] | None:
        """Return what the active files name in the merge base of HEAD with the remote's main; None if there is none."""
        code, base = self.git(clone, tree, "merge-base", "refs/remotes/origin/main", "HEAD")
        if code:
            return None
        return tuple(self._blobs(clone, clone.roots[tree], [f"{base.strip()}:{name}" for name in ACTIVE]))

    def _new_events(
        self, before: dict[str, list[dict[str, Any]]], after: dict[str, list[dict[str, Any]]]
    ) -> list[model.Fact]:
        """Return the events that were added, as the model writes them."""
        found: list[model.Fact] = []
        opened: set[str] = set()
        for run, rows in after.items():
            known = {row["id"] for row in before.get(run, [])}
            for row in (row for row in rows if row["id"] not in known and row["type"] in SEEN):
                payload, at = row["payload"], seconds_of(row["at"])
                session = row["session_id"]
                if row["type"] == "session_started":
                    opened.add(session)
                    found.append((row["type"], run, model.NEW, (payload["source"], at)))
                elif row["type"] == "session_ended":
                    session = model.NEW if session in opened else session
                    found.append((row["type"], run, session, (payload["reason"], at)))
                elif row["type"] == "delivery_ignored":
                    found.append((row["type"], run, None, payload["reason"]))
                else:
                    found.append((row["type"], run, session, at))
        return sorted(found, key=str)

    def _stamps(self, clone: CloneOnDisk) -> dict[Path, tuple[int, int]]:
        """Return what says whether a run's files in the work trees have changed."""
        found = {}
        for root in clone.roots.values():
            for kind in ("ledger{}.db", "state{}.json"):
                for path in self._run_files(root, kind.format(""), kind.format("-*")):
                    there = path.stat()
                    found[path] = there.st_mtime_ns, there.st_size
        return found

    def describe(self, clone: CloneOnDisk, tree: str) -> str:
        """Return the facts that the model decided on."""
        lines = [f"at {self.now - BEGIN} in {clone.name}/{tree}; used here: {sorted(clone.facts.used)}"]
        for name, facts in clone.facts.trees.items():
            heads = [(head.verb, head.at - BEGIN, *head.names) for head in facts.heads[-6:]]
            claim = facts.claim and (facts.claim[0], facts.claim[1] - BEGIN)
            files = [(file.name, file.at - BEGIN, f"index {file.in_index}", *file.sides) for file in facts.files]
            states = {run: state.status for run, state in facts.states.items()}
            lines.append(
                f"  {name}: branch {facts.branch} files {files} claim {claim} states {states}\n    heads {heads}"
            )
            path = self.git_folder(clone, name) / "faber-ledger-run"
            if path.exists():
                lines.append(f"    the claim on disk: {path.read_text()!r} {int(path.stat().st_mtime) - BEGIN}")
        for client, seen in clone.facts.clients.items():
            session = f"{seen.run} since {seen.session_at - BEGIN}"
            lines.append(f"  client {client}: pid {seen.pid} first {seen.first_at - BEGIN} newest session on {session}")
        for run, log in clone.facts.trees[tree].logs.items():
            state = clone.facts.kept.get(run)
            kinds = [f"{event.type}:{event.session}:{event.client}:{event.at - BEGIN}" for event in log[-8:]]
            lines.append(f"  {run}: kept {state} open {[one.session for one in model.open_sessions(log)]}\n    {kinds}")
        return "\n".join(lines)

    # FABER's tools

    def write_run(self, clone: CloneOnDisk, tree: str, run: str, layout: str, **members: Any) -> None:
        """Write a new run's state, as FABER does."""
        path = clone.roots[tree] / layout.format(run, *run.split("-run-"))
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "run_id": run,
            "workflow_id": "fractary-faber:default",
            "work_id": run.split("-")[1],
            "status": "in_progress",
            "current_phase": "frame",
            "started_at": text_of(self.now),
            "phases": {"frame": {"status": "in_progress"}},
            "artifacts": {},
            **members,
        }
        path.write_text(json.dumps(state, indent=2) + "\n")

    def change_run(self, clone: CloneOnDisk, tree: str, run: str, **members: Any) -> None:
        """Change members of a run's state, as FABER does."""
        path = states_in(clone.roots[tree])[run]
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}, indent=2) + "\n")

    def write_session(self, clone: CloneOnDisk, tree: str, run: str) -> None:
        """Write a session that has just begun into the state of a run that has a log, as a tool does."""
        path = states_in(clone.roots[tree])[run]
        block = json.loads(path.read_text()).get("sessions") or {}
        entry = {"session_id": self.new_name("claude-session-of-tool"), "started_at": text_of(self.now)}
        history = [*(block.get("session_history") or []), entry]
        self.change_run(
            clone,
            tree,
            run,
            sessions={
                **block,
                "current_session_id": entry["session_id"],
                "total_sessions": len(history),
                "session_history": history,
            },
        )
        clone.unadopted[run] = model.Event(
            "session_started", self.now, session=entry["session_id"], source=model.ADOPTED
        )

    def write_active(self, clone: CloneOnDisk, tree: str, run: str, which: Sequence[str]) -> None:
        """Name a run in active files, as FABER does."""
        for name in which:
            path = clone.roots[tree] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{run}\n" if run else "")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def states_in(root: Path) -> dict[str, Path]:
    """Return the runs that a work tree has, each with the path of its state."""
    found = {}
    for layout in LAYOUTS:
        for pattern in ("*/state.json", "*/*/state.json", "*/state-*.json"):
            for path in (root / layout).glob(pattern):
                found[json.loads(path.read_text())["run_id"]] = path
    return found


def run_of_ledger(path: Path) -> str:
    """Return the run that a ledger belongs to."""
    if path.stem != "ledger":
        return f"{path.parent.name}-run-{path.stem.removeprefix('ledger-')}"
    plan = path.parent.parent.name
    return path.parent.name if plan == "runs" else f"{plan}-run-{path.parent.name}"


def sessions_of_tool(path: Path) -> list[model.Event]:
    """Return the sessions in the state of a run that has no log yet, as their adoption will record them (row 35)."""
    return sessions_in(json.loads(path.read_text()).get("sessions"))


def sessions_in(block: dict[str, Any] | None) -> list[model.Event]:
    """Return the starts and ends that a block `sessions` tells of."""
    events = []
    for entry in (block or {}).get("session_history") or []:
        session = entry["session_id"]
        at = seconds_of(entry["started_at"]) or 0
        events.append(model.Event("session_started", at, session=session, source=model.ADOPTED))
        if entry.get("ended_at"):
            events.append(model.Event("session_ended", seconds_of(entry["ended_at"]) or 0, session=session))
    return events


def events_of(rows: list[dict[str, Any]]) -> list[model.Event]:
    """Return a log's events, each adoption followed by the sessions that it brings."""
    events = []
    for row in rows:
        events.append(event_of(row))
        if row["type"] == "run_adopted":
            events += sessions_in(json.loads(row["payload"].get("blocks") or "{}").get("sessions"))
    return events


def verb_of(message: str) -> str:
    """Return git's verb for a line of the reflog, as the model calls it."""
    first = message.split(":", maxsplit=1)[0]
    if first.startswith("commit"):
        return "merge" if "(merge)" in first else "cherry-pick" if "(cherry-pick)" in first else "commit"
    word = first.split()[0] if first else ""
    return word if word in model.GIT_VERBS else "unknown"


def state_at(path: Path) -> model.State:
    """Read what the model needs of a `state.json`."""
    state = json.loads(path.read_text())
    artifacts = state.get("artifacts") or {}
    branch = artifacts.get("branch_name") or artifacts.get("branch") or state.get("branch")
    return model.State(
        state.get("status", "unknown"),
        branch,
        seconds_of(state.get("started_at")),
        seconds_of(state.get("completed_at")),
    )


def event_of(row: dict[str, Any]) -> model.Event:
    payload = row["payload"]
    delivery = payload.get("delivery") or {}
    at = seconds_of(row["at"])
    assert at is not None
    return model.Event(
        row["type"],
        at,
        client=row["client"],
        pid=payload.get("pid") or delivery.get("pid"),
        session=row["session_id"],
        is_ours=row["is_ours"],
        inferred=payload.get("inferred") is True,
        hook=delivery.get("hook"),
        digest=delivery.get("digest"),
        branch=payload.get("branch"),
        has_run=payload.get("has_run") is True,
        source=payload.get("source"),
        reason=payload.get("reason"),
    )


def seconds_of(text: str | None) -> int | None:
    return int(datetime.fromisoformat(text).timestamp()) if text else None


def text_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def brief(events: list[model.Fact]) -> str:
    """Return events on one line."""
    return "; ".join(" ".join(map(shown, event)) for event in events) or "no event"


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(shown, value))
    return str(value - BEGIN) if isinstance(value, int) else str(value)
