"""A seeded walk: each step is chosen and carried out with a random generator of its own, so steps can be left out."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clients import model
from clients.world import ACTIVE, FABERS, OURS, STATES, CloneOnDisk, Person, World, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PAUSES = (1, 1, 1, 3, 20, 90, 600, 4000)
MAX_TREES = 3


class Walk:
    """A world, and the steps that can be taken in it. A step returns a difference to the model, or an empty text."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.world = World(folder)
        self.chance = random.Random()

    def step(self, number: int) -> str:
        """Take one step."""
        self.chance = random.Random(f"{self.seed}/{number}")
        self.world.pass_time(self.chance.choice(PAUSES) + 1)
        if number < len(PROLOGUE):
            return PROLOGUE[number](self)
        step = self.chance.choices([step for step, _ in STEPS], [weight for _, weight in STEPS])[0]
        return step(self)

    # Choices

    def a_clone(self) -> CloneOnDisk:
        return self.world.clones["ann" if self.chance.random() < 0.75 else "bob"]

    def a_tree(self, clone: CloneOnDisk) -> str:
        return self.chance.choice(sorted(clone.roots))

    def a_person(self, clone: CloneOnDisk | None = None) -> Person | None:
        """Return a client that is running."""
        people = [one for one in self.world.people if one.is_alive and clone in (None, self.world.clones[one.clone])]
        return self.chance.choice(people) if people else None

    def a_run(self, clone: CloneOnDisk, tree: str, statuses: tuple[str, ...] = ()) -> str | None:
        """Return a run that a work tree has."""
        states = clone.facts.trees[tree].states
        runs = sorted(run for run, state in states.items() if not statuses or state.status in statuses)
        return self.chance.choice(runs) if runs else None

    def new_pid(self) -> str | None:
        pid = self.world.new_name("")
        return pid if self.chance.random() < 0.75 else None

    # Clients

    def start_client(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        alive = [one for one in self.world.people if one.is_alive]
        if len(alive) > 4:
            alive[0].is_alive = False
            self.world.say(f"{alive[0].client} is killed")
        person = Person(clone.name, self.world.new_name("client"), self.new_pid(), tree, tree)
        self.world.people.append(person)
        return self.deliver(person, "SessionStart", source="startup")

    def deliver(self, person: Person, hook: str, **fields: str | None) -> str:
        """Deliver once or, where hooks are installed twice, two times."""
        difference = self.world.deliver(person, hook, **fields)
        if not difference and self.chance.random() < 0.12:
            self.world.pass_time(self.chance.choice((0, 0, 1, 5)))
            difference = self.world.deliver(person, hook, **fields)
        return difference

    def compact(self) -> str:
        person = self.a_person()
        return self.compact_one(person) if person is not None else ""

    def compact_one(self, person: Person) -> str:
        trigger = self.chance.choice(("auto", "manual"))
        difference = self.deliver(person, "PreCompact", trigger=trigger, custom_instructions=None)
        if difference or self.chance.random() < 0.3:
            return difference  # the compaction fails
        self.world.pass_time(self.chance.choice((1, 2, 40)))
        difference = self.deliver(person, "SessionStart", source="compact")
        if difference or self.chance.random() < 0.3:
            return difference  # an older client has no PostCompact
        self.world.pass_time(1)
        return self.deliver(person, "PostCompact", trigger=trigger, compact_summary="It went well.")

    def end(self) -> str:
        person = self.a_person()
        if person is None:
            return ""
        person.is_alive = False
        reason = self.chance.choice(("prompt_input_exit", "logout", "other"))
        return self.deliver(person, "SessionEnd", reason=reason)

    def kill(self) -> str:
        person = self.a_person()
        if person is not None:
            person.is_alive = False
            self.world.say(f"{person.client} is killed")
            if self.chance.random() < 0.6:
                self.world.pass_time(self.chance.choice((1, 3, 10)))
                return self._resume(person)
        return ""

    def resume(self) -> str:
        people = [one for one in self.world.people if not one.is_alive]
        return self._resume(self.chance.choice(people)) if people else ""

    def _resume(self, person: Person) -> str:
        person.is_alive, person.pid = True, self.new_pid()
        person.cwd = person.root
        return self.deliver(person, "SessionStart", source="resume")

    def clear(self) -> str:
        person = self.a_person()
        if person is None:
            return ""
        difference = self.deliver(person, "SessionEnd", reason="clear")
        if difference:
            return difference
        person.is_alive = False
        self.world.pass_time(self.chance.choice((1, 2)))
        return self._continue_as(person, "clear")

    def fork(self) -> str:
        person = self.a_person()
        if person is None:
            return ""
        person.is_alive = False
        return self._continue_as(person, "fork")

    def _continue_as(self, person: Person, source: str) -> str:
        new = Person(person.clone, self.world.new_name("client"), person.pid, person.root, person.cwd)
        self.world.people.append(new)
        return self.deliver(new, "SessionStart", source=source)

    def stray_end(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        person = Person(clone.name, self.world.new_name("stray"), self.new_pid(), tree, tree)
        return self.deliver(person, "SessionEnd", reason="other")

    def move(self) -> str:
        person = self.a_person()
        if person is not None:
            person.cwd = self.a_tree(self.world.clones[person.clone])
            self.world.say(f"{person.client} moves to {person.cwd}")
        return ""

    def enter_worktree(self) -> str:
        """A client moves to another work tree, and a run is started or resumed from there."""
        person = self.a_person(self.world.clones["ann"])
        if person is None or len(self.world.clones["ann"].roots) == 1:
            return self.new_tree()
        clone = self.world.clones[person.clone]
        person.cwd = self.chance.choice([tree for tree in sorted(clone.roots) if tree != person.root])
        self.world.say(f"{person.client} moves to {person.cwd}")
        difference = self.chance.choice((self._start_by_client, self._resume_by_client))(clone, person.cwd, person)
        if difference or self.chance.random() < 0.3:
            return difference
        self.world.pass_time(20)
        difference = self.compact_one(person)
        if difference or self.chance.random() < 0.5:
            return difference
        person.cwd = person.root
        self.world.say(f"{person.client} moves to {person.cwd}")
        self.world.pass_time(20)
        return self.compact_one(person)

    # FABER's tools

    def faber_starts_run(self, clone: CloneOnDisk | None = None, tree: str | None = None) -> str:
        clone = clone or self.a_clone()
        tree = tree or self.a_tree(clone)
        run = f"p-{self.world.new_name('')}-run-x"
        layout = self.chance.choice(STATES)
        which = self.chance.choice(((OURS,), (FABERS,), ACTIVE))
        branch = clone.facts.trees[tree].branch
        artifacts = {"branch_name": branch} if branch and self.chance.random() < 0.5 else {}
        more = {}
        if self.chance.random() < 0.2:  # as FABER's own session protocol writes it
            session = {"session_id": f"claude-session-of-{run}", "started_at": text_of(self.world.now)}
            more["sessions"] = {"current_session_id": session["session_id"], "session_history": [session]}
        self.world.write_run(clone, tree, run, layout, artifacts=artifacts, **more)
        self.world.write_active(clone, tree, run, which)
        named = f"{', '.join(which)} {artifacts}{' with a session' if more else ''}"
        self.world.say(f"{clone.name}/{tree}: FABER starts {run} in {layout}, named in {named}")
        self.world.look(clone)
        return ""

    def faber_switches(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        run = self.a_run(clone, tree)
        if run is not None:
            which = self.chance.choice(((OURS,), (FABERS,), ACTIVE))
            self.world.write_active(clone, tree, run, which)
            self.world.say(f"{clone.name}/{tree}: FABER names {run} in {which}")
            self.world.look(clone)
        return ""

    def faber_forgets(self) -> str:
        """FABER's tools remove or empty the active files."""
        clone = self.a_clone()
        tree = self.a_tree(clone)
        for name in self.chance.choice((ACTIVE, ACTIVE, (OURS,))):
            path = clone.roots[tree] / name
            if path.exists():
                path.unlink() if self.chance.random() < 0.7 else path.write_text("")
                self.world.say(f"{clone.name}/{tree}: FABER removes or empties {name}")
        self.world.look(clone)
        return ""

    def faber_writes_session(self) -> str:
        """A tool writes a session into a run that has a log, and a client of that work tree is heard of."""
        person = self.a_person()
        if person is None:
            return ""
        clone = self.world.clones[person.clone]
        self.world.look(clone)
        call = model.Delivery("PreCompact", person.root, person.cwd, self.world.now, person.client, person.pid, "")
        subject = model.subject_of(clone.facts, call)
        run, tree = subject.run, subject.tree
        if run not in tree.states or subject.is_shown or tree.states[run].status not in model.AT_WORK:
            return ""
        log = tree.logs.get(run, [])
        if run not in self.world.logs(clone) or any(not start.is_ours for start in model.open_sessions(log)):
            return ""
        self.world.write_session(clone, tree.root, run)
        self.world.say(f"{clone.name}/{tree.root}: a tool writes a session into {run}")
        self.world.pass_time(self.chance.choice((5, 100)))
        hook = self.chance.choice(("PreCompact", "SessionEnd"))
        if hook == "SessionEnd":
            person.is_alive = False
        difference = self.deliver(person, hook)
        clone.unadopted.clear()
        return difference

    def change_status(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        run = self.a_run(clone, tree)
        if run is not None:
            self._set_status(
                clone, tree, run, self.chance.choice(("paused", "in_progress", "awaiting_feedback", "failed"))
            )
        return ""

    def finish_run(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        active = model.active_run(clone.facts, clone.facts.trees[tree]).run
        run = active if active in clone.facts.trees[tree].states else self.a_run(clone, tree, model.AT_WORK)
        if run is not None:
            self._set_status(clone, tree, run, self.chance.choice(("completed", "completed", "cancelled")))
        return ""

    def _set_status(self, clone: CloneOnDisk, tree: str, run: str, status: str) -> None:
        finished = {"completed_at": text_of(self.world.now) if status in model.FINISHED else None}
        self.world.change_run(clone, tree, run, status=status, **finished)
        self.world.say(f"{clone.name}/{tree}: FABER says {run} is {status}")
        self.world.look(clone)

    def batch(self) -> str:
        """FABER carries out several runs in one client."""
        person = self.a_person()
        if person is None:
            return ""
        clone = self.world.clones[person.clone]
        for _ in range(self.chance.randint(2, 3)):
            self.faber_starts_run(clone, person.root)
            self.world.pass_time(self.chance.choice(PAUSES) + 1)
            if self.chance.random() < 0.5:
                difference = self.deliver(person, "PreCompact", trigger="auto", custom_instructions=None)
                if difference:
                    return difference
                self.world.pass_time(2)
                difference = self.deliver(person, "SessionStart", source="compact")
                if difference:
                    return difference
            self.world.pass_time(5)
            self.finish_run_of(clone, person.root)
            self.world.pass_time(5)
        return ""

    def finish_run_of(self, clone: CloneOnDisk, tree: str) -> None:
        run = model.active_run(clone.facts, clone.facts.trees[tree]).run
        if run is not None and run in clone.facts.trees[tree].states and self.chance.random() < 0.8:
            self._set_status(clone, tree, run, "completed")

    # Our commands

    def run_start(self) -> str:
        clone = self.a_clone()
        return self._start_by_client(clone, *self._where(clone))

    def _start_by_client(self, clone: CloneOnDisk, tree: str, person: Person | None) -> str:
        run = f"p-{self.world.new_name('')}-o"
        self.world.look(clone)
        arguments = ["run", "start", "--yes", "--work-id", run.split("-")[1], "--run-id", run]
        expected = model.name_run(clone.facts, tree, run, *identity(person), self.world.now, "run_start")
        return self.world.command(person, clone, tree, arguments, expected)

    def run_resume(self) -> str:
        clone = self.a_clone()
        return self._resume_by_client(clone, *self._where(clone))

    def _resume_by_client(self, clone: CloneOnDisk, tree: str, person: Person | None) -> str:
        self.world.look(clone)
        run = self.a_run(clone, tree, (*model.AT_WORK, "failed"))
        if run is None:
            return ""
        expected = model.name_run(clone.facts, tree, run, *identity(person), self.world.now, "run_resume")
        return self.world.command(person, clone, tree, ["run", "resume", "--yes", run], expected)

    def session_load(self) -> str:
        clone = self.a_clone()
        tree, person = self._where(clone)
        self.world.look(clone)
        active = model.active_run(clone.facts, clone.facts.trees[tree]).run
        if active is None or clone.facts.trees[tree].states.get(active, model.State("")).status not in model.AT_WORK:
            return ""
        trigger = self.chance.choice(("session_start", "manual"))
        expected = model.load(clone.facts, tree, trigger, *identity(person), self.world.now)
        return self.world.command(person, clone, tree, ["session-load", "--trigger", trigger], expected)

    def session_save(self) -> str:
        clone = self.a_clone()
        tree, person = self._where(clone)
        self.world.look(clone)
        facts = clone.facts
        active = model.active_run(facts, facts.trees[tree]).run
        opened = model.open_sessions(facts.trees[tree].logs.get(active or "", []))
        if person is not None and opened and opened[-1].client not in (None, person.client):
            return ""
        if len(opened) > 1 or (opened and not opened[-1].is_ours):
            return ""
        if active not in facts.trees[tree].states and self.world.has_ledger(clone, tree, active or ""):
            # END's error "Workflow state file not found": git took the state away, and the ledger was in no commit.
            expected = model.Outcome(active, printed="refused")
        else:
            expected = model.save(facts, tree, *identity(person), self.world.now)
        return self.world.command(person, clone, tree, ["session-save"], expected)

    def make_ready(self) -> str:
        """A branch is made ready for its pull request: `seal`, with --ready if its run is at work; and committed."""
        clone = self.a_clone()
        tree = self.a_tree(clone)
        self.world.look(clone)
        facts = clone.facts.trees[tree]
        active = model.active_run(clone.facts, facts)
        run = active.run
        if run is None or run not in facts.states or not model.belongs(clone.facts, facts, active):
            return ""
        if not self.world.has_ledger(clone, tree, run):
            return ""
        base = self.world.names_in_base(clone, tree)
        is_finished = facts.states[run].status in model.FINISHED
        wanted = model.put_back(facts, run, base, self.world.now) if base is not None else None
        arguments = ["seal", *([] if is_finished else ["--ready"])]
        difference = self.world.command(None, clone, tree, arguments, model.Outcome(run, tree))
        if difference:
            return difference
        self.world.look_at_git(clone, tree)
        found = tuple(file.name for file in facts.files)
        if wanted is not None and found != wanted:
            return f"put back: expected {wanted}, found {found}\n{self.world.describe(clone, tree)}"
        if self.chance.random() < 0.7:
            self.git(clone, tree, "commit", "-qam", "Ready")
            if self.chance.random() < 0.5 and facts.branch is not None:
                self.git(clone, tree, "push", "-q", "origin", "HEAD")
        return ""

    def _where(self, clone: CloneOnDisk) -> tuple[str, Person | None]:
        """Return where a command is run, and the client that runs it, if any."""
        person = self.a_person(clone) if self.chance.random() < 0.6 else None
        return (person.cwd, person) if person is not None else (self.a_tree(clone), None)

    # git

    def git(self, clone: CloneOnDisk, tree: str, *arguments: str) -> bool:
        """Run git, put a stopped merge or rebase back, and look at the result."""
        code, said = self.world.git(clone, tree, *arguments)
        self.world.say(f"{clone.name}/{tree}: git {' '.join(arguments)}{f' (exit {code})' if code else ''}")
        if code:
            folder = self.world.git_folder(clone, tree)
            for name, back in (
                ("MERGE_HEAD", ("merge", "--abort")),
                ("rebase-merge", ("rebase", "--abort")),
                ("rebase-apply", ("rebase", "--abort")),
                ("CHERRY_PICK_HEAD", ("cherry-pick", "--abort")),
            ):
                if (folder / name).exists():
                    code, said = self.world.git(clone, tree, *back)
                    self.world.say(
                        f"{clone.name}/{tree}: git {' '.join(back)}{f' (exit {code}) {said}' if code else ''}"
                    )
            if self.world.git(clone, tree, "ls-files", "-u")[1]:
                self.world.git(clone, tree, "reset", "-q", "--hard")
                self.world.say(f"{clone.name}/{tree}: git reset --hard")
        self.world.look_at_git(clone, tree)
        return code == 0

    def commit(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        self._commit(clone, tree)
        return ""

    def _commit(self, clone: CloneOnDisk, tree: str) -> None:
        if self.chance.random() < 0.2:
            (clone.roots[tree] / self.world.new_name("code")).write_text("new\n")
        self.git(clone, tree, "add", "-A")
        self.git(clone, tree, "commit", "-qm", "Work")

    def push(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        if self.chance.random() < 0.7:
            self._commit(clone, tree)
        if clone.facts.trees[tree].branch is not None:
            self.git(clone, tree, "push", "-q", "origin", "HEAD")
        return ""

    def pull(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        how = self.chance.choice((["--no-rebase"], ["--no-rebase"], ["--rebase", "--autostash"]))
        self.git(clone, tree, "pull", "-q", *how, "origin", self._a_remote_branch(clone, tree))
        return ""

    def _a_remote_branch(self, clone: CloneOnDisk, tree: str) -> str:
        branch = clone.facts.trees[tree].branch
        said = self.world.git(clone, tree, "ls-remote", "--heads", "origin")[1]
        names = sorted(line.partition("refs/heads/")[2] for line in said.splitlines())
        return branch if branch in names and self.chance.random() < 0.6 else self.chance.choice(names)

    def merge(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        how = self.chance.choice(
            (["merge", "-q", "--no-edit"], ["merge", "-q", "--no-edit", "--no-ff"], ["rebase", "-q"])
        )
        self.git(clone, tree, *how, self._a_branch(clone, tree))
        return ""

    def merge_on_site(self) -> str:
        """Somebody merges a branch into main and pushes it."""
        clone = self.a_clone()
        branch = self._a_branch(clone, "main")
        if clone.facts.trees["main"].branch != "main" and not self.git(clone, "main", "checkout", "-q", "main"):
            return ""
        self.git(clone, "main", "pull", "-q", "--no-rebase", "origin", "main")
        self.git(clone, "main", "merge", "-q", "--no-ff", "--no-edit", branch)
        self.git(clone, "main", "push", "-q", "origin", "main")
        return ""

    def _a_branch(self, clone: CloneOnDisk, tree: str) -> str:
        said = self.world.git(clone, tree, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes")[1]
        return self.chance.choice([name for name in sorted(said.split()) if name not in ("origin", "origin/HEAD")])

    def pull_colleagues_run(self) -> str:
        """A run is merged into main before it is finished, and a colleague whose own is finished pulls main."""
        names = ["ann", "bob"]
        self.chance.shuffle(names)
        giver, taker = (self.world.clones[name] for name in names)
        branch = self.world.new_name("feat")
        self._commit(giver, "main")
        if not self.git(giver, "main", "checkout", "-q", "-b", branch):
            return ""
        self.faber_starts_run(giver, "main")
        self.world.pass_time(5)
        person = Person(giver.name, self.world.new_name("client"), self.new_pid(), "main", "main")
        self.world.people.append(person)
        difference = self.deliver(person, "SessionStart", source="startup")
        if difference:
            return difference
        self.world.pass_time(2)  # what git does next is later than the session
        self._commit(giver, "main")
        if not self.git(giver, "main", "checkout", "-q", "main"):
            return ""
        self.git(giver, "main", "pull", "-q", "--no-rebase", "origin", "main")
        self.git(giver, "main", "merge", "-q", "--no-ff", "--no-edit", branch)
        self.git(giver, "main", "push", "-q", "origin", "main")
        self.world.pass_time(5)
        for run in sorted(taker.facts.trees["main"].states):
            if taker.facts.trees["main"].states[run].status in model.AT_WORK:
                self._set_status(taker, "main", run, "completed")
        self._commit(taker, "main")
        self.git(taker, "main", "checkout", "-q", self.chance.choice(("main", "main", branch)))
        self.git(taker, "main", "pull", "-q", "--no-rebase", "origin", "main")
        self.world.pass_time(5)
        new = Person(taker.name, self.world.new_name("client"), self.new_pid(), "main", "main")
        self.world.people.append(new)
        return self.deliver(new, "SessionStart", source="startup")

    def new_branch(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        self.git(clone, tree, "checkout", "-q", "-b", self.world.new_name("feat"))
        return ""

    def checkout(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        branch = "main" if self.chance.random() < 0.3 else self._a_branch(clone, tree)
        if branch.startswith("origin/"):
            branch = branch.removeprefix("origin/")  # a new branch that follows it
        if self.chance.random() < 0.5:
            self._commit(clone, tree)
        self.git(clone, tree, self.chance.choice(("checkout", "checkout", "switch")), "-q", branch)
        return ""

    def go_back_to_branch(self) -> str:
        """Somebody begins another run on a new branch, and goes back to the branch that was checked out."""
        clone = self.a_clone()
        tree = self.a_tree(clone)
        branch = clone.facts.trees[tree].branch
        people = [one for one in self.world.people if one.is_alive and (one.clone, one.root) == (clone.name, tree)]
        self._commit(clone, tree)
        if (
            branch is None
            or not people
            or not self.git(clone, tree, "checkout", "-q", "-b", self.world.new_name("feat"))
        ):
            return ""
        person = self.chance.choice(people)
        self.faber_starts_run(clone, tree)
        self.world.pass_time(5)
        difference = self.compact_one(person)
        if difference:
            return difference
        self.world.pass_time(5)
        self._commit(clone, tree)
        self.git(clone, tree, "checkout", "-q", branch)
        self.world.pass_time(5)
        return self.compact_one(person) if self.chance.random() < 0.5 else self._continue_as(person, "startup")

    def detach(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        self.git(clone, tree, "checkout", "-q", "--detach", self.chance.choice(("HEAD", "HEAD~1")))
        return ""

    def stash(self) -> str:
        clone = self.a_clone()
        tree = self.a_tree(clone)
        if clone.stashes and self.chance.random() < 0.6:
            clone.stashes -= 1
            if not self.git(clone, tree, "stash", "pop", "-q"):
                self.git(clone, tree, "stash", "drop", "-q")
            return ""
        before = self.world.git(clone, tree, "stash", "list")[1]
        self.git(clone, tree, "stash", "push", "-q", *self.chance.choice(([], ["-u"])))
        clone.stashes += self.world.git(clone, tree, "stash", "list")[1] != before
        return ""

    def clean(self) -> str:
        clone = self.a_clone()
        self.git(clone, self.a_tree(clone), "clean", "-q", *self.chance.choice((["-fd"], ["-fdx"])), ".fractary")
        return ""

    def reset(self) -> str:
        clone = self.a_clone()
        self.git(clone, self.a_tree(clone), "reset", "-q", "--hard", self.chance.choice(("HEAD", "HEAD~1")))
        return ""

    def new_tree(self) -> str:
        clone = self.world.clones["ann"]
        if len(clone.roots) < MAX_TREES:
            name = self.world.new_name("wt")
            if self.world.add_tree(clone, name, f"feat-{name}", inside=self.chance.random() < 0.5):
                self.world.say(f"ann: git worktree add {clone.roots[name]}")
        return ""


STEPS: tuple[tuple[Callable[[Walk], str], int], ...] = (
    (Walk.start_client, 14),
    (Walk.compact, 16),
    (Walk.end, 8),
    (Walk.kill, 4),
    (Walk.resume, 5),
    (Walk.clear, 4),
    (Walk.fork, 3),
    (Walk.stray_end, 2),
    (Walk.move, 5),
    (Walk.enter_worktree, 4),
    (Walk.faber_starts_run, 6),
    (Walk.faber_switches, 3),
    (Walk.faber_forgets, 1),
    (Walk.faber_writes_session, 2),
    (Walk.change_status, 3),
    (Walk.finish_run, 3),
    (Walk.batch, 2),
    (Walk.run_start, 2),
    (Walk.run_resume, 2),
    (Walk.session_load, 3),
    (Walk.session_save, 2),
    (Walk.make_ready, 4),
    (Walk.commit, 6),
    (Walk.push, 4),
    (Walk.pull, 4),
    (Walk.merge, 3),
    (Walk.merge_on_site, 2),
    (Walk.pull_colleagues_run, 5),
    (Walk.new_branch, 3),
    (Walk.checkout, 6),
    (Walk.go_back_to_branch, 4),
    (Walk.detach, 1),
    (Walk.stash, 3),
    (Walk.clean, 1),
    (Walk.reset, 1),
    (Walk.new_tree, 2),
)


PROLOGUE: tuple[Callable[[Walk], str], ...] = (Walk.faber_starts_run, Walk.start_client, Walk.push, Walk.new_branch)


def walk(seed: int, steps: Iterable[int]) -> tuple[int, str, list[str]]:
    """Walk, and return the first step that differs (-1: none), the difference, and the history."""
    with tempfile.TemporaryDirectory(prefix="faber-walk-") as folder:
        walking = Walk(Path(folder), seed)
        for number in steps:
            difference = walking.step(number)
            if difference:
                return number, difference, walking.world.history
        return -1, "", walking.world.history


def kind_of(difference: str) -> str:
    """Return what a shrunk walk must still show: the first line, without names and numbers."""
    return difference.partition(":")[0]


def shrink(seed: int, steps: list[int], difference: str, seconds: float) -> tuple[list[int], str, list[str]]:
    """Leave steps out, as long as a difference of the same kind remains."""
    until, best = time.monotonic() + seconds, walk(seed, steps)
    size = max(len(steps) // 2, 1)
    while time.monotonic() < until:
        kept = steps
        for start in range(0, len(steps), size):
            if time.monotonic() > until:
                break
            fewer = [number for number in kept if number not in steps[start : start + size]]
            found = walk(seed, fewer)
            if found[0] >= 0 and kind_of(found[1]) == kind_of(difference):
                kept, best = fewer[: fewer.index(found[0]) + 1], found
        if kept == steps and size == 1:
            break
        steps, size = kept, max(min(size // 2, len(kept) // 2), 1)
    return steps, best[1], best[2]


def main(words: list[str]) -> int:
    """Walk from the command line, and print the first difference of each walk, with as short a history as was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="in all walks together")
    parser.add_argument("--length", type=int, default=250, help="the steps of a walk")
    parser.add_argument("--seed", type=int, default=1, help="of the first walk; the next has the next")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to look for a shorter history")
    parser.add_argument("--keep-going", action="store_true", help="go on with the next walk after a difference")
    given = parser.parse_args(words)
    begin, done, differences = time.monotonic(), 0, 0
    for seed in range(given.seed, given.seed + -(-given.steps // given.length)):
        number, difference, history = walk(seed, range(given.length))
        done += given.length if number < 0 else number + 1
        speed = done / (time.monotonic() - begin)
        result = "no difference" if number < 0 else f"differs at step {number}"
        say(f"seed {seed}: {result} ({speed:.1f} steps a second)")
        if number < 0:
            continue
        differences += 1
        kept = list(range(number + 1))
        if given.shrink:
            kept, difference, history = shrink(seed, kept, difference, given.shrink)
        say(f"seed {seed}, {len(kept)} steps {kept}\n" + "\n".join(history) + f"\n{difference}\n")
        if not given.keep_going:
            break
    say(f"{done} steps, {differences} differences, {done / (time.monotonic() - begin):.1f} steps a second")
    return int(differences > 0)


def identity(person: Person | None) -> tuple[str | None, str | None]:
    """Return the client and the process that a command sees in its variables."""
    return (person.client, person.pid) if person is not None else (None, None)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
