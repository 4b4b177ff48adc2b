"""A hosting site: a bare repository without any configuration, so that no merge driver runs, and its pull requests."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from team.machine import Clock, plain_environment

if TYPE_CHECKING:
    from pathlib import Path

WAYS = ("merge", "squash", "rebase")


@dataclass
class PullRequest:
    """A branch that is proposed for main.

    `kind`: "one run", "no run", "two branches", or "unsealed" (a run that was finished by a tool and never
    sealed). `is_ready`: its author has said so; before that it is a draft.
    """

    number: int
    branch: str
    kind: str
    is_ready: bool = False
    is_open: bool = True


@dataclass
class Site:
    """The bare repository, and a plain work tree in which the site rebases."""

    folder: Path
    clock: Clock
    pull_requests: list[PullRequest] = field(default_factory=list)
    spoils: list[str] = field(default_factory=list)  # commits of main that changed its active file

    def __post_init__(self) -> None:
        self.root, self.work = self.folder / "origin.git", self.folder / "rebasing"
        self.folder.mkdir(parents=True)
        self._git("init", "-q", "--bare", str(self.root), cwd=self.folder)
        self._git("config", "uploadpack.allowFilter", "true")

    @property
    def url(self) -> str:
        return self.root.as_uri()

    def _git(self, *arguments: str, cwd: Path | None = None) -> str:
        code, said = self._ask(*arguments, cwd=cwd)
        assert code == 0, f"git {' '.join(arguments)}: {said}"
        return said

    def _ask(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str]:
        environment = {**plain_environment(self.clock, "site"), "HOME": str(self.folder)}
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.strip() or done.stderr.strip()

    def has(self, branch: str) -> bool:
        return self._ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}")[0] == 0

    def head(self, branch: str) -> str:
        return self._git("rev-parse", branch)

    def open(self, branch: str, kind: str, *, is_ready: bool) -> PullRequest:
        """Open a pull request into main."""
        made = PullRequest(len(self.pull_requests) + 1, branch, kind, is_ready)
        self.pull_requests.append(made)
        return made

    def list_open(self) -> list[PullRequest]:
        return [one for one in self.pull_requests if one.is_open]

    def conflicts(self, branch: str) -> list[str]:
        """Return the files for which the site shows a conflict with main."""
        code, said = self._ask("merge-tree", "--write-tree", "--name-only", "--no-messages", "main", branch)
        assert code in (0, 1), said
        return sorted(set(said.splitlines()[1:])) if code else []

    def files(self, branch: str) -> list[str]:
        """Return the files that a pull request of a branch changes."""
        return self._git("diff", "--name-only", f"main...{branch}").splitlines()

    def is_united(self, branch: str) -> bool:
        """Return whether a merge on a branch united what two clones had changed in one run: no rebase repeats that."""
        for merge in self._git("rev-list", "--merges", f"main..{branch}").split():
            base = self._git("merge-base", f"{merge}^1", f"{merge}^2")
            sides = [self._git("diff", "--name-only", base, f"{merge}^{side}", "--", ".fractary") for side in (1, 2)]
            if {*sides[0].splitlines()} & {*sides[1].splitlines()}:
                return True
        return False

    def is_spoiled(self, branch: str) -> bool:
        """Return whether main's active file was changed after a branch had been forked from it."""
        own = self._git("rev-list", "--first-parent", "main.." + branch).split()
        fork = f"{own[-1]}^" if own else branch
        return any(self._ask("merge-base", "--is-ancestor", spoil, fork)[0] for spoil in self.spoils)

    def merge(self, one: PullRequest, way: str) -> list[str]:
        """Merge a pull request as a site does; return the files in conflict, if it cannot be merged that way."""
        found = self.conflicts(one.branch)
        if found:
            return found
        if way == "rebase":
            made, found = self._rebase(one.branch)
            if found:
                return found
        else:
            tree = self._git("merge-tree", "--write-tree", "main", one.branch).splitlines()[0]
            parents = ["-p", "main", *(["-p", one.branch] if way == "merge" else [])]
            made = self._git("commit-tree", tree, *parents, "-m", f"Merge pull request #{one.number} ({way})")
        self._git("update-ref", "refs/heads/main", made)
        one.is_open = False
        if one.kind == "unsealed":
            self.spoils.append(made)
        return []

    def _rebase(self, branch: str) -> tuple[str, list[str]]:
        if not self.work.exists():
            self._git("clone", "-q", "--no-checkout", self.url, str(self.work), cwd=self.folder)
        self._git("fetch", "-q", "origin", cwd=self.work)
        self._git("checkout", "-q", "-f", "--detach", f"origin/{branch}", cwd=self.work)
        code, said = self._ask("rebase", "-q", "origin/main", cwd=self.work)
        if code:
            found = self._git("diff", "--name-only", "--diff-filter=U", cwd=self.work).splitlines()
            self._git("rebase", "--abort", cwd=self.work)
            return "", found or [said]
        self._git("push", "-q", "origin", "HEAD:refs/site/rebased", "--force", cwd=self.work)
        return self._git("rev-parse", "HEAD", cwd=self.work), []
