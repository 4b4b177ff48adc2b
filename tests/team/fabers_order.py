"""FABER's own order of work, with this program and without it: `python -m team.fabers_order` prints the comparison.

Build commits in each phase, and pushes; Evaluate merges the branch into `test` (`evaluate-forward-to-test`); Release
has the site squash it into main and delete the branch. Only then the run is completed, a cleanup is committed and goes
to main, and the client ends last. Nobody calls a command of this program but `init`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from team.machine import Clock, Machine, read_events, states_in
from team.remote import ledgers_at, open_sessions, wait_for_senders
from team.site import Site

if TYPE_CHECKING:
    from team.machine import Answer

STATES = "faber/runs/**/state-*.json\n"
ACTIVE = "faber/runs/.active-run-id\n"
ACTIVE_FILE = f".fractary/{ACTIVE.strip()}"
SET_UP = (".fractary/.gitignore", ".fractary/.gitattributes", ".fractary/faber/ledger.json", ".claude/settings.json")


class Way(NamedTuple):
    """A way of working. `carry`: how ledgers travel; None: nobody has the program."""

    carry: str | None
    ignores_state: bool
    returns_to_main: bool

    @property
    def described(self) -> str:
        ignored = "active + state ignored" if self.ignores_state else "active ignored, state tracked"
        after = "switches to main and pulls" if self.returns_to_main else "stays on branch"
        return f"{ignored}; {after} | {self.carry or 'no program'}"


WAYS = [
    Way(carry, ignores_state, returns_to_main)
    for ignores_state, returns_to_main in ((True, False), (False, False), (True, True))
    for carry in (None, "tree", "refs")
]


class Order:
    """Developers, the site between them, and what was counted."""

    def __init__(self, folder: Path, way: Way, developers: int) -> None:
        self.folder = folder
        self.way = way
        self.clock = Clock()
        self.site = Site(folder / "site", self.clock)
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []  # what should not have been
        self.seen: dict[str, set[str]] = {}  # the events of each run, which clones have recorded
        self.codes: list[tuple[str, int]] = []  # of each `git pull` and `git fetch`
        names = [f"dev{number}" for number in range(developers)]
        self.machines = [self._add(name) for name in names]
        self._begin()

    def _add(self, name: str) -> Machine:
        home = self.folder / f"home-{name}"
        home.mkdir()
        return Machine(name, home, self.clock, self.way.carry is not None, trees={"main": self.folder / name})

    def _begin(self) -> None:
        first = self.machines[0]
        first.main.mkdir()
        (first.main / ".fractary").mkdir()
        (first.main / ".fractary/.gitignore").write_text(ACTIVE + (STATES if self.way.ignores_state else ""))
        (first.main / "code.py").write_text("x = 0\n")
        for words in (["init", "-q"], ["remote", "add", "origin", self.site.url]):
            self.git(first, *words)
        self.init(first)
        self.commit(first, "Begin")
        self.git(first, "push", "-q", "-u", "origin", "main")
        self.git(first, "push", "-q", "origin", "main:test")
        for machine in self.machines[1:]:
            done = machine.git(self.folder, "clone", "-q", self.site.url, str(machine.main))
            assert done.code == 0, done.said
            self.init(machine)

    def init(self, machine: Machine) -> None:
        if self.way.carry is not None:
            done = machine.faber(machine.main, "init", "--carry", self.way.carry)
            assert done.code == 0, done.said

    # What developers do

    def git(self, machine: Machine, *words: str, may_fail: bool = False) -> Answer:
        done = machine.git(machine.main, *words)
        if words[0] in ("pull", "fetch"):
            self.codes.append((" ".join(words), done.code))
        if done.code and not may_fail:
            self.found.append(f"{machine.name}: git {' '.join(words)}: {done.said[-300:]}")
        return done

    def commit(self, machine: Machine, message: str) -> None:
        self.git(machine, "add", "-A")
        self.git(machine, "commit", "-q", "-m", message)

    def hook(self, machine: Machine, number: int, name: str, **fields: str) -> None:
        """Deliver to a hook, and look what it has recorded and whether it left git's status as it was."""
        if self.way.carry is None:
            return
        before = self.status(machine)
        client = {"CLAUDE_CODE_SESSION_ID": f"client-{number}", "CLAUDE_PID": f"{number + 1}"}
        payload = {"session_id": f"client-{number}", "cwd": str(machine.main), "hook_event_name": name, **fields}
        payload["transcript_path"] = f"/t/{self.counts['deliveries']}"
        content = json.dumps(payload).encode()
        there = {"CLAUDE_PROJECT_DIR": str(machine.main)}
        known = {run: {*events} for run, events in machine.logged().items()}
        done = machine.hook(machine.main, name, content, client | there)
        self.clock.pass_minutes(1)
        self.counts["deliveries"] += 1
        new = {run: {*events} - known.get(run, set()) for run, events in machine.logged().items()}
        for run, events in new.items():
            self.seen.setdefault(run, set()).update(events)
        if done.code or (self.has_run(machine) and not any(new.values())):
            self.counts["deliveries not recorded"] += 1
            self.found.append(f"{machine.name}: {name} of {number}: {done.errors[-300:]}")
        if self.status(machine) != before:
            self.counts["hooks that changed git's status"] += 1
        if self.way.carry == "refs":
            assert wait_for_senders([machine.main])

    def has_run(self, machine: Machine) -> bool:
        """Return whether a run is at work in a clone, so that a delivery has to be recorded."""
        active = machine.main / ACTIVE_FILE
        path = states_in(machine.main).get(active.read_text().strip()) if active.exists() else None
        return path is not None and json.loads(path.read_text())["status"] != "completed"

    def status(self, machine: Machine) -> str:
        return machine.git(machine.main, "status", "--porcelain").output

    def begin(self, number: int) -> None:
        """Play Frame to Build, up to the push of the branch."""
        machine, branch = self.machine(number), f"feature/{number}"
        self.git(machine, "checkout", "-q", "main")
        self.git(machine, "pull", "-q", "--ff-only")
        self.hook(machine, number, "SessionStart", source="startup")
        self.git(machine, "checkout", "-q", "-b", branch)
        self.change(number, status="in_progress", current_phase="frame", artifacts={"branch_name": branch})
        (machine.main / ACTIVE_FILE).write_text(f"{run_of(number)}\n")
        self.state(number).with_name("plan.json").write_text(f'{{"id": "plan-{number}"}}\n')
        for phase in ("architect", "build"):
            (machine.main / f"{phase}-{number}.py").write_text("x = 1\n")
            self.change(number, current_phase=phase)
            self.commit(machine, f"{phase} of {number}")
            self.compact(number)
        self.change(number, current_phase="evaluate")
        self.commit(machine, f"Before the request of {number}") if self.status(machine) else None
        self.git(machine, "push", "-q", "-u", "origin", branch)

    def forward(self, number: int) -> None:
        """Merge the branch into `test`, as FABER's Evaluate does."""
        machine, branch = self.machine(number), f"feature/{number}"
        self.git(machine, "checkout", "-q", "-B", "test", "origin/test")
        self.git(machine, "pull", "-q", "--ff-only", "origin", "test")
        if self.git(machine, "merge", "-q", "--no-edit", branch, may_fail=True).code:
            self.counts["forward to test: conflicts"] += 1
            self.git(machine, "merge", "--abort")
        else:
            self.git(machine, "push", "-q", "origin", "test")
        self.git(machine, "checkout", "-q", branch)

    def release(self, number: int) -> None:
        """Squash on the site, delete the branch, complete the run, clean up, and end the client."""
        machine, branch = self.machine(number), f"feature/{number}"
        self.change(number, current_phase="release")
        if self.status(machine):
            self.commit(machine, f"Release of {number}")
            self.git(machine, "push", "-q", "origin", branch)
        self.squash(branch, "PR conflicts")
        self.git(machine, "push", "-q", "origin", "--delete", branch)
        self.git(machine, "fetch", "-q")
        self.compact(number)
        if self.way.returns_to_main:
            self.git(machine, "checkout", "-q", "main")
            self.git(machine, "pull", "-q", "--ff-only")
        self.change(number, status="completed", completed_at="2026-01-06T10:00:00Z")
        (machine.main / f"report-{number}.md").write_text("done\n")
        self.commit(machine, f"Clean up {number}")
        if self.way.returns_to_main:
            self.git(machine, "push", "-q", "origin", "main")
        else:
            self.git(machine, "push", "-q", "origin", branch)
            self.squash(branch, "cleanup never merged")
        self.hook(machine, number, "SessionEnd", reason="other")

    def squash(self, branch: str, kind: str) -> None:
        """Let the site squash a branch into main; count it as of a kind if it conflicts."""
        changed = ask(self.site.root, "diff", "--name-only", f"main...{branch}").splitlines()
        ours = [name for name in changed if is_ours(name)]
        self.counts["files of ours in pull requests"] += len(ours)
        request = self.site.open(branch, "one run", is_ready=True)
        conflicts = self.site.merge(request, "squash")
        if conflicts:
            self.counts[kind] += 1
            self.found.append(f"{branch}: {kind}: {', '.join(conflicts)}")

    def compact(self, number: int) -> None:
        self.hook(self.machine(number), number, "PreCompact", trigger="auto")
        self.hook(self.machine(number), number, "SessionStart", source="compact")

    def machine(self, number: int) -> Machine:
        return self.machines[number % len(self.machines)]

    def state(self, number: int) -> Path:
        return self.machine(number).main / f".fractary/faber/runs/plan-{number}/state-1.json"

    def change(self, number: int, **members: object) -> None:
        """Write the run's state, as FABER does."""
        path = self.state(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() else {"run_id": run_of(number), "work_id": str(number)}
        path.write_text(json.dumps({**known, **members}, indent=2) + "\n")

    # What came out

    def judge(self, issues: int) -> Counter[str]:
        """Count what main and the refs have in the end."""
        kept = {run: {*events} for run, events in self.published().items()}
        for number in range(issues):
            on_main = ask(self.site.root, "ls-tree", "-r", "--name-only", "main").splitlines()
            self.counts["cleaned up on main"] += f"report-{number}.md" in on_main
            run = run_of(number)
            self.counts["runs without a record at the remote"] += run not in kept
        for run, events in self.seen.items():
            self.counts["events"] += len(events)
            self.counts["events not at the remote"] += len(events - kept.get(run, set()))
        for machine in self.machines:
            self.counts["clones with a dirty git status at the end"] += bool(self.status(machine))
        return self.counts

    def published(self) -> dict[str, dict[str, object]]:
        """Return the events of each run at the remote, in its ref or on main; count sessions without an end."""
        if self.way.carry is None:
            return {}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = ledgers_at(self.site.root, folder) if self.way.carry == "refs" else self.on_main(folder)
            self.counts["sessions without an end at the remote"] += sum(map(open_sessions, found.values()))
            for run in self.seen:
                self.counts["runs whose last session has no end at the remote"] += run not in found or bool(
                    open_sessions(found[run])
                )
            return {run: dict(read_events(path)) for run, path in found.items()}

    def on_main(self, folder: Path) -> dict[str, Path]:
        """Write the ledgers that main has into a folder, and return the files by the ids of their runs."""
        names = ask(self.site.root, "ls-tree", "-r", "--name-only", "main").splitlines()
        found = {}
        for name in [one for one in names if one.endswith(".db")]:
            number = Path(name).parent.name.removeprefix("plan-")
            path = found[run_of(int(number))] = folder / f"{number}.db"
            path.write_bytes(
                subprocess.run(
                    ["git", "cat-file", "blob", f"main:{name}"], cwd=self.site.root, capture_output=True, check=True
                ).stdout
            )
        return found


def is_ours(name: str) -> bool:
    """Return whether a file of a pull request is one that this program writes: FABER's state and plan are not."""
    return Path(name).name.startswith(("ledger", "metadata")) or name in SET_UP


def run_of(number: int) -> str:
    return f"plan-{number}-run-1"


def ask(bare: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=bare, capture_output=True, text=True, check=True).stdout


def play(folder: Path, way: Way, *, issues: int, developers: int) -> Order:
    """Let developers work off issues in FABER's order, some of them at once; `counts` has what came out."""
    folder.mkdir(parents=True)
    order, waiting = Order(folder, way, developers), []
    for number in range(issues):
        order.begin(number)
        waiting.append(number)
        while waiting and (len(waiting) == developers - 1 or number == issues - 1):
            order.forward(waiting[0])
            order.release(waiting.pop(0))
    order.judge(issues)
    return order


def main() -> None:
    """Play every way of working, and print what came out of each."""
    with tempfile.TemporaryDirectory(prefix="faber-order-") as folder:
        for number, way in enumerate(WAYS):
            order = play(Path(folder) / str(number), way, issues=8, developers=4)
            sys.stdout.write(f"{way.described} | {dict(sorted((+order.counts).items()))}\n")
            sys.stdout.write("".join([f"    {one}\n" for one in order.found[:6]]))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
