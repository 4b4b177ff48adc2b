"""A team: its machines, its hosting site, what was seen of its work, and what of that should not have been."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.digests import keyed_digest

from team.machine import BEGIN, Answer, Clock, Machine, states_in
from team.remote import wait_for_senders
from team.site import Site

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOL = "plugins/faber/docs/workflow-orchestration-protocol.md"
IGNORED = ".claude/\n*.log\n"
# Where ledgers travel in refs, git ignores the other files of runs, too, as FABER's own rules do with its states.
RUN_FILES = ".fractary/**/runs/**/state*.json\n.fractary/**/runs/**/metadata.json\n"


@dataclass
class Client:
    """A client as its user has it. `run`: the run that its user works on in it; None: no run."""

    machine: Machine
    root: Path
    name: str
    pid: str
    run: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {"CLAUDE_CODE_SESSION_ID": self.name, "CLAUDE_PID": self.pid, "CLAUDE_PROJECT_DIR": str(self.root)}


@dataclass(frozen=True)
class Difference:
    """Something that should not have been, and the length of the history at that moment."""

    kind: str
    text: str
    at: int


class Team:
    """Machines, a site and a clock. Each event that was ever seen is kept here, to be looked for at the end."""

    def __init__(self, folder: Path, seed: int, carry: str = "tree") -> None:
        self.folder = folder
        self.seed = seed
        self.carry = carry
        self.chance = random.Random(seed)
        self.clock = Clock()
        self.history: list[str] = []
        self.counts: Counter[str] = Counter()
        self.differences: list[Difference] = []
        self.seen: dict[str, dict[str, str | None]] = {}  # each run's events that were recorded: id and digest
        self.ended: dict[str, set[str]] = {}  # each run's ends of clients that were recorded: their digests
        self.unseen: set[str | None] = set()  # runs that a tool started, and whose branch was left before any hook
        self.finished: set[str] = set()
        self.names = 0
        self.site = Site(folder / "site", self.clock)
        self.machines: dict[str, Machine] = {}
        self._begin()

    # What happened

    def say(self, what: str) -> None:
        minutes, seconds = divmod(self.clock.now - BEGIN, 60)
        self.history.append(f"{minutes // 1440:>3}d {minutes // 60 % 24:02}:{minutes % 60:02}:{seconds:02}  {what}")

    def differ(self, kind: str, text: str) -> None:
        """Keep what should not have been."""
        self.say(f"!! {kind}: {text}")
        self.counts[f"difference: {kind}"] += 1
        self.differences.append(Difference(kind, text, len(self.history)))

    def new_name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def new_run(self, who: str) -> str:
        return f"p-{self.new_name('')}-run-{who}"

    @property
    def has_refs(self) -> bool:
        """Whether ledgers travel in git refs, and nobody calls a command to make a run ready."""
        return self.carry == "refs"

    # The beginning

    def _begin(self) -> None:
        first = self._add("laptop", seals_by="hook")
        root = first.main
        root.mkdir(parents=True)
        (root / ".gitignore").write_text(IGNORED + RUN_FILES * self.has_refs)
        (root / "code.txt").write_text("code\n")
        (root / PROTOCOL).parent.mkdir(parents=True)
        (root / PROTOCOL).write_text("# Orchestration\n\nOne step after the other.\n")
        self.git(first, root, "init", "-q")
        self.git(first, root, "remote", "add", "origin", self.site.url)
        self._set_up(first)
        for words in ("add -A", "commit -qm Begin", "push -qu origin main"):
            self.git(first, root, *words.split())
        self.git(first, root, "push", "-q", "origin", "main:release")
        self.git(first, root, "remote", "set-head", "origin", "main")
        for name, options, seals_by in (
            ("desktop", [], "seal"),
            ("bob", [], "seal"),
            ("cem", ["--filter=blob:none"], "nothing"),
            ("dee", ["--depth=1", "--no-single-branch"], "hook"),
            ("eve", [], "nothing"),
        ):
            machine = self._add(name, seals_by=seals_by)
            self.git(machine, self.folder, "clone", "-q", *options, self.site.url, str(machine.main))
            if machine.has_program:
                self._set_up(machine)

    def _set_up(self, machine: Machine) -> None:
        options = ["--carry", "refs"] if self.has_refs else ["--pre-commit"] * (machine.seals_by == "hook")
        self.faber(machine, machine.main, "init", "--git-only", *options)

    def _add(self, name: str, *, seals_by: str) -> Machine:
        home = self.folder / f"home-{name}"
        home.mkdir(parents=True)
        seals_by = "nothing" if self.has_refs else seals_by
        pulls_by = self.chance.choice(("--no-rebase", "--rebase"))
        trees = {"main": self.folder / name}
        machine = Machine(name, home, self.clock, name != "eve", pulls_by, seals_by, trees=trees)
        self.machines[name] = machine
        return machine

    # Programs

    def git(self, machine: Machine, root: Path, *arguments: str, may_fail: bool = False) -> Answer:
        """Run git in a work tree."""
        answer = machine.git(root, *arguments)
        self._take(machine, root, f"git {' '.join(arguments)}", answer, may_fail=may_fail)
        return answer

    def faber(
        self, machine: Machine, root: Path, *arguments: str, may_fail: bool = False, client: Client | None = None
    ) -> Answer:
        """Run the program in a work tree, inside a client if there is one."""
        answer = machine.faber(root, *arguments, client=client.variables if client else None)
        self._take(machine, root, f"faber-ledger {' '.join(arguments)}", answer, may_fail=may_fail)
        self._see(machine)
        return answer

    def _take(self, machine: Machine, root: Path, what: str, answer: Answer, *, may_fail: bool) -> None:
        self.counts[what.split(maxsplit=1)[0]] += 1
        self._let_send(machine)
        last = answer.said[-300:].replace("\n", " | ") if answer.code else ""
        self.say(f"{machine.name}/{root.name}: {what}{f' (exit {answer.code}: {last})' if last else ''}")
        if "Traceback" in answer.errors or "bug in faber-ledger" in answer.errors:
            self.differ("traceback", f"{machine.name}: {what}: {answer.said[-1500:]}")
        elif answer.code and not may_fail:
            self.differ("refused", f"{machine.name}: {what}: {answer.said[-800:]}")

    # Deliveries

    def deliver(self, client: Client, hook: str, **fields: str | None) -> None:
        """Deliver to a hook, and look whether it was recorded on the run that the client's user works on."""
        machine = client.machine
        payload = {
            "session_id": client.name,
            "transcript_path": f"/t/{self.new_name('')}",  # so that no two deliveries have the same bytes
            "cwd": str(client.root),
            "hook_event_name": hook,
            **fields,
        }
        content = json.dumps(payload, separators=(",", ":")).encode() + b"\n"
        status = self._status(client)
        answer = machine.hook(client.root, hook, content, client.variables)
        self._let_send(machine)
        if self._status(client) != status:
            self.differ("status changed", f"{machine.name}: {hook}: {self._status(client)}")
        digest = keyed_digest(machine.main / ".git", content)
        self.counts["deliveries"] += 1
        runs = sorted(run for run, events in self._see(machine).items() if digest in events.values())
        what = f"{hook} {fields.get('source') or fields.get('reason') or fields.get('trigger') or ''}".strip()
        printed, text = packet_of(answer)
        self.say(
            f"{machine.name}/{client.root.name}: {what} of {client.name} -> {', '.join(runs) or 'not recorded'}"
            f"{f', {printed}' if printed else ''}"
        )
        self.counts["recorded"] += len(runs) > 0
        self.unseen -= {*runs}
        for run in runs if hook == "SessionEnd" else ():
            self.ended.setdefault(run, set()).add(digest)
        self.counts["runs left unseen"] += client.run in self.unseen
        self._judge(client, what, answer, runs, printed, text)

    def _judge(self, client: Client, what: str, answer: Answer, runs: list[str], printed: str, text: str) -> None:
        report = f"{client.machine.name}/{client.root.name}: {what} of {client.name}, who works on {client.run}"
        errors, is_known = answer.errors.strip()[-600:], client.run not in self.unseen
        if self.has_refs and client.run is None and self._have_ended_elsewhere(client.root, runs):
            self.counts["ended elsewhere"] += 1
            is_known = False
        if answer.code or "Traceback" in answer.errors or "bug in faber-ledger" in answer.errors:
            self.differ("hook failed", f"{report}: exit {answer.code}: {answer.errors[-1500:]}")
        if len(runs) > 1:
            self.differ("recorded twice", f"{report}: on {', '.join(runs)}")
        elif client.run is not None and is_known and not runs:
            self.differ("not recorded", f"{report}: {errors}")
        elif runs and runs != [client.run] and is_known:
            self.differ("wrong run", f"{report}: on {', '.join(runs)}")
        if not runs:
            self.counts["no run" if printed != "shown" else "shown, not used"] += client.run is None
        if not what.startswith("SessionStart"):
            return
        if printed == "packet":
            self.counts["packets"] += 1
            if is_known and (client.run is None or client.run not in text):
                self.differ("wrong packet", f"{report}: {text[:300]!r}")
        elif client.run is not None and is_known:
            self.differ("no packet", f"{report}: {errors}")

    def _have_ended_elsewhere(self, root: Path, runs: list[str]) -> bool:
        """Return whether runs have ended on another machine, and this one has not fetched that yet."""
        states = states_in(root)
        known = [json.loads(states[run].read_text())["status"] for run in runs if run in states]
        return bool(runs) and self.finished.issuperset(runs) and "completed" not in known

    def _status(self, client: Client) -> str:
        """Return git's status where nothing of a run is in git, so that no hook may change it; else nothing."""
        return client.machine.git(client.root, "status", "--porcelain").output if self.has_refs else ""

    def _let_send(self, machine: Machine) -> None:
        """Wait for the process that sends: steps are minutes apart."""
        if self.has_refs and machine.trees and not wait_for_senders([*machine.trees.values()]):
            self.differ("endless sending", machine.name)

    def _see(self, machine: Machine) -> dict[str, dict[str, str | None]]:
        """Keep the events that a clone has now; return them."""
        found = {}
        for run, events in machine.logged().items():
            found[run] = {one: digest_of(event["payload"]) for one, event in events.items()}
            self.seen.setdefault(run, {}).update(found[run])
        return found


def packet_of(answer: Answer) -> tuple[str, str]:
    """Return what a hook printed ("packet", "shown", "hint" or nothing), and the text."""
    if not answer.output:
        return "", ""
    if answer.output.startswith("Keep in the summary"):
        return "hint", answer.output
    found = json.loads(answer.output)
    text = found.get("hookSpecificOutput", {}).get("additionalContext")
    if text is None:
        return "message", found.get("systemMessage", "")
    return ("packet" if "\n" in text else "shown"), text  # a packet begins with what is wrong, if anything is


def digest_of(payload: dict[str, object]) -> str | None:
    """Return the digest of the delivery that an event came with."""
    delivery = payload.get("delivery")
    return str(delivery["digest"]) if isinstance(delivery, dict) else None
