"""Clones, one of them without drivers, a worktree and a bare remote work on one run at random: no event is lost.

Ledgers travel with the code, or in git refs: then each end starts a process that sends, while the walk goes on.
`THREE_CLONES_SEED` chooses the walk, which a failure prints, and `THREE_CLONES_STEPS` its length.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.program import path_with_program
from support.project import Project, answer_of
from support.sizes import pick
from team.remote import events_at, wait_for_senders

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import blocks_of, fold, text_of

SEED = int(os.environ.get("THREE_CLONES_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
STEPS = int(os.environ.get("THREE_CLONES_STEPS", "0")) or pick(20, 200)
DELIVERIES = [
    "SessionStart.startup.print",
    "SessionStart.resume.print",
    "SessionStart.compact.print",
    "PreCompact.auto.print",
    "PostCompact.auto.print",
    "SessionEnd.other.print",
]
COMMANDS = [("session-load", "--force"), ("session-save",), ("project",), ("seal",)]
KILLED = """
import os, signal, sys
from faber_ledger.cli.entry import main
from faber_ledger.ledger.log import Log

def die(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def commit_and_die(log, commit=Log.commit):
    commit(log)
    die()

where = sys.argv.pop(1)
if where == "before the commit":
    Log.commit = die
elif where == "after the commit":
    Log.commit = commit_and_die
else:
    os.replace = die
main()
"""
# What each step is, and how often it is chosen.
WEIGHTS = {
    "deliver": 30,
    "command": 12,
    "at_once": 4,
    "kill": 6,
    "commit": 20,
    "push": 14,
    "pull": 10,
    "pull_by_rebase": 8,
    "merge": 6,
    "cherry_pick": 5,
    "revert": 3,
    "stash": 4,
    "stash_pop": 5,
    "reset": 5,
    "checkout": 5,
    "restore": 3,
    "clean": 2,
}
OF_REFS = {"sync": 8, "fetch": 6, "lose_remote": 3, "reach_remote": 6}


class World:
    """The clones; `walk` is what they did so far, `acknowledged` every event that a command has recorded."""

    def __init__(self, folder: Path, seed: int, carry: str) -> None:
        self.chance = random.Random(seed)
        self.has_refs = carry == "refs"
        self.weights = WEIGHTS | OF_REFS if self.has_refs else WEIGHTS
        self.remote = folder / "remote.git"
        self.walk: list[str] = []
        self.acknowledged: set[str] = set()
        first = Project.made(folder / "one")
        first.git("init", "--bare", "--quiet", "--initial-branch=main", str(self.remote))
        first.git("remote", "add", "origin", str(self.remote))
        assert first.faber("session-load").returncode == 0
        options = ("init", "--git-only", "--carry", carry)
        assert first.faber(*options).returncode == 0
        first.commit("A run")
        first.git("push", "--quiet", "--set-upstream", "origin", "main")
        if self.has_refs:
            assert first.faber("sync").returncode == 0
        clones = [first]
        for name in ("two", "three", "four"):
            first.git("clone", "--quiet", "-c", "fetch.prune=true", str(self.remote), str(folder / name))
            clones.append(Project(folder / name, hostname=name))
        first.git("worktree", "add", "--quiet", "-b", "side-tree", str(folder / "tree"))
        self.trees = [*clones, Project(folder / "tree", hostname="one")]
        self.main = {clone.root: "side-tree" if clone.root.name == "tree" else "main" for clone in self.trees}
        for tree in self.trees:
            assert tree.faber(*options, "--pre-commit").returncode == 0
            assert tree.faber("run", "resume", tree.run_id).returncode == 0
            self.keep(tree)
        self.bare = clones[-1]  # of drivers, as a hosting site is: `resolve` settles its conflicts
        self.bare.git("config", "--local", "--remove-section", "merge.faber-ledger")

    def step(self) -> None:
        """Do one thing somewhere."""
        tree = self.chance.choice(self.trees)
        (name,) = self.chance.choices(list(self.weights), list(self.weights.values()))
        self.walk.append(f"{tree.root.name}: {name}")
        getattr(self, name)(tree)

    # What appends

    def keep(self, tree: Project) -> None:
        """Count what a log and its published copy hold as acknowledged, once a command has succeeded."""
        for path in (tree.ledger_path, tree.clones_log):
            if path.exists():
                with Log.read(str(path)) as log:
                    self.acknowledged.update(name for (name,) in log.connection.execute("SELECT id FROM event"))

    def has_run(self, tree: Project) -> bool:
        return tree.state_path.exists()

    def deliver(self, tree: Project) -> None:
        answer = tree.deliver(self.chance.choice(DELIVERIES), **self._caller())
        assert answer.code == 0
        assert "not recorded" not in answer.errors, answer.errors
        assert "is not used" not in answer.errors, answer.errors
        self.keep(tree)

    def command(self, tree: Project) -> None:
        command = self.chance.choice(COMMANDS)
        self.walk[-1] += f" {command}"
        done = tree.faber(*command)
        assert done.returncode == 0, done.stderr
        self.keep(tree)

    def at_once(self, tree: Project) -> None:
        """Deliver to all worktrees at once."""
        started = []
        for one in self.trees:
            changes = self._caller()
            recorded = self.chance.choice(DELIVERIES)
            started.append((one.started(recorded, **changes), one.prepared(recorded, **changes)[0]))
        for process, content in started:
            assert answer_of(process, content).code == 0
        for one in self.trees:
            self.keep(one)

    def kill(self, tree: Project) -> None:
        where = self.chance.choice(["before the commit", "after the commit", "before the rename"])
        self.walk[-1] += f" {where}"
        killed = tree.faber("session-load", "--force", program=[sys.executable, "-c", KILLED, where])
        is_unpublished = where == "before the rename" and killed.returncode == 0  # nothing was renamed
        assert is_unpublished or killed.returncode == -signal.SIGKILL, killed.stderr

    def _caller(self) -> dict[str, str]:
        return {"client": f"client-{self.chance.randrange(3)}", "pid": str(self.chance.randrange(10**6))}

    # What git does

    def git(self, tree: Project, *arguments: str) -> bool:
        """Run git, check that it never prompts, and return whether it did what it was asked."""
        self.walk.append(f"    git {' '.join(arguments)}")
        done = subprocess.run(
            ["git", *arguments], cwd=tree.root, env=environment(tree), capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.walk[-1] += f" -> {done.returncode}: {(done.stdout + done.stderr)[-700:]}"
        if tree is self.bare and output(tree, "ls-files", "--unmerged"):
            return self._is_resolved(tree)
        unmerged = output(tree, "ls-files", "--unmerged")
        assert not unmerged, f"git left a conflict:\n{unmerged}\n{done.stdout}{done.stderr}\n{output(tree, 'diff')}"
        return done.returncode == 0

    def _is_resolved(self, tree: Project) -> bool:
        """Resolve a conflict that git has left, and end a merge; return whether that ended what git was asked."""
        resolved = tree.faber("resolve")
        self.walk.append(f"    faber-ledger resolve -> {resolved.returncode}: {resolved.stdout}{resolved.stderr}")
        assert resolved.returncode == 0
        assert not output(tree, "ls-files", "--unmerged")
        if not (tree.root / ".git" / "MERGE_HEAD").exists():
            return False
        return self.git(tree, "commit", "--quiet", "--no-edit")

    def commit(self, tree: Project) -> None:
        if self.has_run(tree):
            self.git(tree, "add", "--all")
            self.git(tree, "commit", "--quiet", "-m", "Work")

    def push(self, tree: Project) -> None:
        self.git(tree, "push", "--quiet", "origin", f"HEAD:{self.main[tree.root]}")

    def pull(self, tree: Project) -> None:
        self.git(tree, "pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")

    def pull_by_rebase(self, tree: Project) -> None:
        if not self.git(tree, "pull", "--quiet", "--rebase", "origin", "main"):
            self._go_on(tree, "rebase")

    def merge(self, tree: Project) -> None:
        """Merge what another worktree has committed."""
        other = self.chance.choice(self.trees)
        if self.git(tree, "fetch", "--quiet", str(other.root), "HEAD"):
            self.git(tree, "merge", "--quiet", "--no-edit", "FETCH_HEAD")

    def cherry_pick(self, tree: Project) -> None:
        other = self.chance.choice(self.trees)
        if self.git(tree, "fetch", "--quiet", str(other.root), "HEAD"):
            commits = output(tree, "rev-list", "--no-merges", "--max-count=4", "FETCH_HEAD").split()[:-1]
            if commits and not self.git(tree, "cherry-pick", self.chance.choice(commits)):
                self._go_on(tree, "cherry-pick")

    def revert(self, tree: Project) -> None:
        commits = output(tree, "rev-list", "--no-merges", "--max-count=3", "HEAD").split()
        is_long = len(output(tree, "rev-list", "HEAD").split()) > 4
        if is_long and commits and not self.git(tree, "revert", "--no-edit", commits[0]):
            self._go_on(tree, "revert")

    def stash(self, tree: Project) -> None:
        self.git(tree, "stash", *(["--include-untracked"] if self.chance.random() < 0.3 else []))

    def stash_pop(self, tree: Project) -> None:
        self.git(tree, "stash", "pop")

    def reset(self, tree: Project) -> None:
        back = self.chance.choice(["HEAD", "HEAD", "HEAD~1"])
        if len(output(tree, "rev-list", "--first-parent", "HEAD").split()) > 3:
            self.git(tree, "reset", "--quiet", "--hard", back)

    def checkout(self, tree: Project) -> None:
        """Go to another branch or commit and, with what one has, to where one was."""
        self.git(tree, "checkout", "--quiet", "-B", f"other-{tree.root.name}")
        commits = output(tree, "rev-list", "--max-count=4", "HEAD").split()[:-1]
        if commits and self.git(tree, "checkout", "--quiet", "-m", self.chance.choice(commits)):
            self.deliver(tree)
        self.git(tree, "checkout", "--quiet", "-m", self.main[tree.root])
        here = output(tree, "rev-parse", "--abbrev-ref", "HEAD").strip()  # `HEAD` where a commit is checked out
        if here != self.main[tree.root]:
            assert self.git(tree, "checkout", "--quiet", "--force", self.main[tree.root])

    def restore(self, tree: Project) -> None:
        """Restore a file from a commit."""
        self.git(tree, "checkout", "--quiet", "HEAD", "--", str(tree.ledger_path))

    def clean(self, tree: Project) -> None:
        self.git(tree, "clean", "-fdx", "--quiet")

    def _go_on(self, tree: Project, verb: str) -> None:
        """Leave out commits that change nothing any more, until the verb is done."""
        for _ in range(20):
            if not self._is_under_way(tree, verb):
                return
            if not self.git(tree, verb, "--skip") and not self._is_under_way(tree, verb):
                return
        pytest.fail(f"{verb} does not end")

    def _is_under_way(self, tree: Project, verb: str) -> bool:
        names = {"rebase": ("rebase-merge", "rebase-apply"), "cherry-pick": ("CHERRY_PICK_HEAD", "sequencer")}
        marks = names.get(verb, ("REVERT_HEAD",))
        return any((tree.root / output(tree, "rev-parse", "--git-path", mark).strip()).exists() for mark in marks)

    # What only git refs know

    def sync(self, tree: Project) -> None:
        """Exchange the run with its ref; a remote that is away is said, by its own code."""
        done = tree.faber("sync")
        self.walk[-1] += f" -> {done.returncode}: {done.stdout}{done.stderr}"
        assert done.returncode == (0 if self._is_reached(tree) else 13)

    def fetch(self, tree: Project) -> None:
        self.git(tree, "fetch", "--quiet", "--prune")

    def lose_remote(self, tree: Project) -> None:
        for program in ("uploadpack", "receivepack"):
            self.git(tree, "config", f"remote.origin.{program}", "false")

    def reach_remote(self, tree: Project) -> None:
        if not self._is_reached(tree):
            for program in ("uploadpack", "receivepack"):
                self.git(tree, "config", "--unset", f"remote.origin.{program}")

    def _is_reached(self, tree: Project) -> bool:
        return "remote.origin.uploadpack" not in output(tree, "config", "--local", "--name-only", "--list")

    def settle_refs(self) -> None:
        """Let each clone exchange the run, as its next session's end would, once what was started has ended."""
        for tree in self.trees:
            self.reach_remote(tree)
        assert wait_for_senders([tree.root for tree in self.trees])
        for tree in [*self.trees, *self.trees]:
            self.walk.append(f"{tree.root.name}: settles")
            self.sync(tree)
            self.keep(tree)

    # The end

    def settle(self) -> None:
        """Let each work tree merge what all others have, as people do at the end of a day."""
        for _ in range(2):
            for tree in self.trees:
                self.walk.append(f"{tree.root.name}: settles")
                assert tree.faber("seal", tree.run_id).returncode == 0
                self.commit(tree)
                self.pull(tree)
                assert tree.faber("seal", tree.run_id).returncode == 0
                self.commit(tree)
                assert self.git(tree, "push", "--quiet", "origin", "HEAD:main")


def environment(tree: Project) -> dict[str, str]:
    names = {f"GIT_{who}_{what}": "dev@host" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_EDITOR": "true"}
    path = path_with_program()
    return {**tree.environment(), **quiet, **names, "PATH": path}


def output(tree: Project, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=tree.root, env=environment(tree), capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.long
def test_clones_with_refs_end_with_every_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with_program())
    monkeypatch.delenv("CI", raising=False)
    world = World(tmp_path, SEED, "refs")
    try:
        for _ in range(STEPS):
            world.step()
        world.settle_refs()
        (there,) = events_at(world.remote).values()
        assert there.keys() == world.acknowledged
        for tree in world.trees:
            assert not tree.ledger_path.exists()
            with Log.read(str(tree.clones_log)) as log:
                recorded = list(log.stream())
                assert {one["id"] for one in recorded} == there.keys()
            if world.has_run(tree):
                # The branch may not be the run's, or another work tree of the clone may have fetched.
                assert tree.faber("seal", tree.run_id).returncode == 0
                assert text_of(blocks_of(tree.state)) == text_of(fold(recorded))
                verified = tree.faber("verify", tree.run_id)
                assert verified.returncode == 0, verified.stdout
        assert len(there) > STEPS / 4
    except BaseException:
        report(world)
        raise


@pytest.mark.long
def test_three_clones_end_with_the_same_log_and_every_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with_program())
    world = World(tmp_path, SEED, "tree")
    try:
        for _ in range(STEPS):
            world.step()
        world.settle()
        logs = []
        for tree in world.trees:
            tree.assert_projected()
            with Log.read(str(tree.ledger_path)) as log:
                ids = {name for (name,) in log.connection.execute("SELECT id FROM event")}
                logs.append((log.heads(), ids, text_of(blocks_of(tree.state))))
        for heads, ids, blocks in logs:
            assert world.acknowledged - ids == set()
            assert (heads, blocks) == (logs[0][0], logs[0][2])
            assert ids == logs[0][1]
        assert len(logs[0][1]) > STEPS / 4
    except BaseException:
        report(world)
        raise


def report(world: World) -> None:
    print("\n".join(world.walk[-40:]))  # noqa: T201 -- pytest shows it with the failure
    print(f"to walk this way again: THREE_CLONES_SEED={SEED} THREE_CLONES_STEPS={STEPS}")  # noqa: T201 -- the way to repeat a failure
