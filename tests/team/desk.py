"""What a developer does at a desk: in one work tree of one machine, with our commands or FABER's tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from team.machine import ACTIVE, FABERS, OURS, Machine, states_in
from team.team import Client, Team

if TYPE_CHECKING:
    from pathlib import Path

# Where FABER writes a run's state: the first two know it by its id, the others by its plan and suffix.
LAYOUTS = (
    ".fractary/runs/{0}/state.json",
    ".fractary/faber/runs/{0}/state.json",
    ".fractary/faber/runs/{1}/{2}/state.json",
    ".fractary/faber/runs/{1}/state-{2}.json",
)
PHASES = ("frame", "architect", "build", "evaluate", "release")


@dataclass
class Desk:
    """A work tree, and the code files that were written in it and are not committed yet."""

    team: Team
    machine: Machine
    root: Path
    files: list[str] = field(default_factory=list)

    def git(self, *arguments: str, may_fail: bool = False) -> bool:
        return self.team.git(self.machine, self.root, *arguments, may_fail=may_fail).code == 0

    def faber(self, *arguments: str, may_fail: bool = False, client: Client | None = None) -> bool:
        answer = self.team.faber(self.machine, self.root, *arguments, may_fail=may_fail, client=client)
        return answer.code == 0

    # Runs

    def start_run(self, by: str, client: Client | None = None) -> str:
        """Start a run with our command, or as FABER does: it writes a state and the active file."""
        run = self.team.new_run(self.machine.name)
        if self.root == self.machine.main:
            self.machine.at_work = run
        if by == "command":
            self.faber("run", "start", "--yes", "--work-id", run.split("-")[1], "--run-id", run, client=client)
        else:
            self._write_run(run)
        if client is not None:
            client.run = run
        return run

    def _write_run(self, run: str) -> None:
        chance = self.team.chance
        layout, which = chance.choice(LAYOUTS), chance.choice(((OURS,), (FABERS,), ACTIVE))
        path = self.root / layout.format(run, *run.split("-run-"))
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "run_id": run,
            "workflow_id": "fractary-faber:default",
            "work_id": run.split("-")[1],
            "status": "in_progress",
            "current_phase": "frame",
            "started_at": self._time(),
            "phases": {name: {"status": "pending"} for name in PHASES},
            "artifacts": chance.choice(({}, {"branch_name": self.machine.branch(self.root)})),
        }
        path.write_text(json.dumps(state, indent=2) + "\n")
        for name in which:
            active = self.root / name
            active.parent.mkdir(parents=True, exist_ok=True)
            active.write_text(f"{run}\n")
        self.team.say(f"{self.machine.name}/{self.root.name}: FABER starts {run} as {path.relative_to(self.root)}")

    def change_run(self, run: str, **members: Any) -> None:
        """Change members of a run's state, as FABER does."""
        path = states_in(self.root)[run]
        path.write_text(json.dumps({**json.loads(path.read_text()), **members}, indent=2) + "\n")

    def advance(self, run: str) -> None:
        """Complete the run's next phase, as FABER does."""
        phases = json.loads(states_in(self.root)[run].read_text())["phases"]
        name = next((name for name in PHASES if phases[name]["status"] != "completed"), PHASES[-1])
        self.change_run(run, phases={**phases, name: {"status": "completed"}}, current_phase=name)

    def finish(self, run: str, by: str) -> None:
        """Complete a run: with `run finish`, or as FABER does."""
        self.machine.at_work = None if self.machine.at_work == run else self.machine.at_work
        self.team.finished.add(run)
        phases = {name: {"status": "completed"} for name in PHASES}
        if by == "command":
            self.change_run(run, phases=phases, current_phase="release")
            self.faber("run", "finish", run)
        else:
            self.change_run(run, phases=phases, status="completed", completed_at=self._time())
            self.team.say(f"{self.machine.name}/{self.root.name}: FABER completes {run}")

    def _time(self) -> str:
        return datetime.fromtimestamp(self.team.clock.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # Clients

    def start_client(self, run: str | None) -> Client:
        name = self.team.new_name("client")
        client = Client(self.machine, self.root, name, self.team.new_name("1"), run)
        self.team.deliver(client, "SessionStart", source="startup")
        return client

    def compact(self, client: Client) -> None:
        trigger = self.team.chance.choice(("auto", "manual"))
        self.team.deliver(client, "PreCompact", trigger=trigger, custom_instructions=None)
        self.team.clock.pass_minutes(1)
        self.team.deliver(client, "SessionStart", source="compact")
        if self.team.chance.random() < 0.5:  # an older client has no PostCompact
            self.team.deliver(client, "PostCompact", trigger=trigger, compact_summary="It went well.")

    def resume_client(self, client: Client) -> None:
        """Kill a client, and resume its conversation."""
        client.pid = self.team.new_name("1")
        self.team.say(f"{client.name} is killed")
        self.team.deliver(client, "SessionStart", source="resume")

    def end_client(self, client: Client) -> None:
        reason = self.team.chance.choice(("prompt_input_exit", "logout", "other"))
        self.team.deliver(client, "SessionEnd", reason=reason)

    # git

    def write_code(self) -> None:
        name = self.team.new_name("code") + ".txt"
        (self.root / name).write_text(f"{name}\n")
        self.files.append(name)

    def commit(self, message: str) -> None:
        """Commit, prepared as the machine's user does it."""
        if self.machine.seals_by == "nothing":
            self.git("add", "-A")
        else:
            for name in self.files:
                self.git("add", name)
            if self.machine.seals_by == "seal":
                self.faber("seal")
        self.files.clear()
        if not self.machine.git(self.root, "diff", "--quiet", "HEAD").code and self.machine.seals_by == "hook":
            self.faber("seal")  # git calls no commit's hook for files that it does not know yet
        if self.machine.git(self.root, "diff", "--quiet", "HEAD").code:
            self.git("commit", "-qam", message)

    def go_to(self, *words: str) -> bool:
        """Check a branch out; where git refuses over a run's files, seal and commit first, as the guide says."""
        if self.git("checkout", "-q", *words, may_fail=True):
            return True
        self.team.counts["checkouts refused"] += 1
        if self.team.has_refs:
            self.team.differ("checkout refused", f"{self.machine.name}: {' '.join(words)}")
        elif self.machine.has_program:
            self.faber("seal")
        self.git("commit", "-qam", "Save the session", may_fail=True)
        return self.git("checkout", "-q", *words)

    def update_main(self) -> None:
        """Check main out, and pull it."""
        self.go_to("main")
        self.pull("main")

    def pull(self, branch: str) -> None:
        if not self.git("pull", "-q", self.machine.pulls_by, "--no-edit", "origin", branch, may_fail=True):
            self.settle("main")
        elif self.machine.unmerged(self.root):  # git says so, and exits with 0
            self.settle("autostash")
            self.git("stash", "drop", "-q")

    def push(self, branch: str) -> None:
        """Push; where somebody else has pushed meanwhile, pull before."""
        if self.git("push", "-q", "--force-with-lease", "-u", "origin", branch, may_fail=True):
            return
        self.git("fetch", "-q", "origin")
        self.pull(branch)
        self.git("push", "-q", "-u", "origin", branch)

    def settle(self, kind: str) -> bool:
        """Settle the conflicts of a merge, a rebase or a cherry-pick with our one command, and go on with it."""
        folder = self.machine.git(self.root, "rev-parse", "--absolute-git-dir").output.strip()
        for _ in range(30):
            unmerged = self.machine.unmerged(self.root)
            if unmerged:
                self._resolve(kind, unmerged)
            elif kind == "autostash":
                return True
            if self.machine.exists(folder, "rebase-merge") or self.machine.exists(folder, "rebase-apply"):
                going = ["rebase", "--continue"]
            elif self.machine.exists(folder, "CHERRY_PICK_HEAD"):
                going = ["cherry-pick", "--continue"]
            elif self.machine.exists(folder, "MERGE_HEAD"):
                going = ["commit", "-q", "--no-edit"]
            else:
                if not unmerged:
                    self.team.differ("refused", f"{self.machine.name}: {kind}: git failed, and no file is in conflict")
                return not unmerged
            if not self.git(*going, may_fail=True) and not self.machine.unmerged(self.root):
                self.git(going[0], "--skip", may_fail=True)
            if not self._is_stopped(folder):
                return True
        self.team.differ("not settled", f"{self.machine.name}: {kind}")
        return False

    def _is_stopped(self, folder: str) -> bool:
        names = ("rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "MERGE_HEAD")
        return any(self.machine.exists(folder, name) for name in names)

    def _resolve(self, kind: str, unmerged: list[str]) -> None:
        self.team.say(f"{self.machine.name}/{self.root.name}: {kind}: in conflict: {', '.join(unmerged)}")
        self.team.counts[f"stopped: {kind}"] += 1
        if any(not name.startswith(".fractary/") for name in unmerged):
            self.team.differ("code conflict", ", ".join(unmerged))
        self.faber("resolve", may_fail=True)
        left = self.machine.unmerged(self.root)
        if left:
            self.team.differ("not settled", f"{self.machine.name}: {kind}: {', '.join(left)}")
            self.git("checkout", "--theirs", "--", *left, may_fail=True)
            self.git("add", "-A")
        else:
            self.team.counts[f"settled: {kind}"] += 1
