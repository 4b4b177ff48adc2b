"""What of a run is not in git: not committed, not pushed or not pulled, by the hashes that git has of its files.

Nothing is fetched: what is known of the remote is what the last `git fetch`, `pull` or `push` left in this clone. Where
git does not answer in time, nothing is missing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.encoding import without_surrogates
from faber_ledger.runs.copies import is_in_head, is_newer_in, state_in
from faber_ledger.runs.git import branch_of, default_branch, is_safe
from faber_ledger.runs.git_query import GitQuery, time_limit
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import CONSOLIDATED, EVENTS, SUMMARIES, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 2.0  # for all that git is asked about a work tree
REMOTE_BRANCHES = "refs/remotes/"
HOW_TO_PULL = r"^(pull\.(rebase|ff)|branch\..*\.rebase)$"  # settings for a branch and its upstream that went apart


class Branch(NamedTuple):
    """A remote-tracking branch; `name` is as git shows it: `origin/feature`."""

    name: str
    commit: str


class Missing(NamedTuple):
    """What of a run git lacks: files that differ from the last commit, a push, and the branch with a newer version.

    `of_faber` names the folders, or the file, of FABER's events and summaries that differ, which `seal` does not stage.
    """

    uncommitted: list[str]
    of_faber: list[str]
    is_untracked: bool
    is_unpushed: bool
    newer: Branch | None


class GitSurvey:
    """What git says of the branch that is checked out, None if none is.

    `upstream` is where `git pull` pulls from; `pulled` are it and the remotes' branches of the same name.
    """

    def __init__(self, root: str, seconds: float = SECONDS) -> None:
        """Ask git which branches are pulled."""
        self.root = root
        self.branch = branch_of(root)
        self.upstream: Branch | None = None
        self.pulled: list[Branch] = []
        self.is_gone = False  # its upstream was deleted, as after a merge
        self._deadline = time_limit(seconds)
        if self.branch is not None:
            self._find_pulled(f"refs/heads/{self.branch}")

    def _find_pulled(self, own: str) -> None:
        rows = self._list_branches(own, f"{REMOTE_BRANCHES}*/{self.branch}")
        upstream = next((row[2] for row in rows if row[0] == own), "")
        if upstream.startswith(REMOTE_BRANCHES) and upstream not in [ref for ref, _, _ in rows]:
            rows += self._list_branches(upstream)
        found = {ref: _branch(ref, commit) for ref, commit, _ in rows if ref != own}
        self.upstream = found.pop(upstream, None)
        self.is_gone = upstream.startswith(REMOTE_BRANCHES) and self.upstream is None
        self.pulled = [*([self.upstream] if self.upstream is not None else []), *found.values()]

    @property
    def remotes(self) -> list[str]:
        """The names of the remotes."""
        return (self._ask("remote").answer() or "").splitlines()

    def pull_command(self, branch: Branch) -> str:
        """Return the command that pulls a remote-tracking branch into the one that is checked out.

        If the upstream is gone, the command switches to the default branch first. If both branches have new commits, it
        says `--no-rebase`, unless the user has set how git pulls.
        """
        remote, _, name = branch.name.partition("/")
        if branch not in self.pulled and is_safe(name):
            return f"git switch {name} && git pull"
        is_forward = self._has_all("HEAD", branch.commit)
        how = "" if is_forward or self._ask("config", "--get-regexp", HOW_TO_PULL).answer() else " --no-rebase"
        return f"git pull{how}{f' {remote} {name}' if branch != self.upstream and is_safe(name) else ''}"

    def is_merged(self, missing: Missing) -> bool:
        """Return whether another branch than the one that is checked out has a newer version, as after a merge."""
        return missing.newer is not None and missing.newer not in self.pulled

    def is_behind(self) -> bool:
        """Return whether the upstream has commits that HEAD lacks, so that git refuses to push."""
        return self.upstream is not None and not self._has_all(self.upstream.commit, "HEAD")

    def _has_all(self, commits: str, tip: str) -> bool:
        """Return whether a commit has all that another one has; False where git does not answer."""
        return self._ask("merge-base", "--is-ancestor", commits, tip).answer_bytes() is not None

    def find_missing(self, run: Run) -> Missing | None:
        """Return what of a run's files git lacks; None if git ignores them or does not answer, or they are not here."""
        if run.is_kept:
            newer = self.find_finished(find_run(run.root, run.run_id))
            return Missing([], [], False, False, newer) if newer is not None else None
        if not os.path.isfile(run.ledger_path):
            return None
        files = [run.shown(path) for path in (run.ledger_path, run.state_path)]
        of_faber = [run.shown(os.path.join(run.own_directory, name)) for name in (EVENTS, CONSOLIDATED, SUMMARIES)]
        options = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all")
        printed = self._ask("status", *options, "--", *files, *of_faber).answer_bytes()
        if printed is None:
            return None
        changes = {entry[3:]: entry[:2] for entry in os.fsdecode(printed).split("\0") if entry}
        names = {os.path.basename(path): change for path, change in changes.items()}
        change = names.get(os.path.basename(run.ledger_path))
        if change is None and not is_in_head(run):
            return None
        newer = self.find_newer(run) or self.find_finished(run, besides=self.pulled)
        own = sorted({*map(os.path.basename, files)} & names.keys())
        others = [os.path.basename(path) for path in of_faber if any([f"/{path}" in f"/{one}" for one in changes])]
        return Missing(own, others, change == "??", self._is_unpushed(files), newer)

    def _is_unpushed(self, files: list[str]) -> bool:
        """Return whether no remote-tracking branch has HEAD's last change of a run's files.

        The default branch may have it in another commit, as after a merge that squashed.
        """
        ahead = self._ask("rev-list", "--max-count=1", "HEAD", "--not", "--remotes", "--", *files).answer()
        if not ahead:
            return False
        tips = [f"{REMOTE_BRANCHES}{remote}/{default_branch(self.root)}" for remote in self.remotes]
        asked = [self._ask("diff-tree", "--quiet", tip, "HEAD", "--", *files) for tip in tips]
        return all([question.answer_bytes() is None for question in asked])

    def find_newer(self, run: Run) -> Branch | None:
        """Return the branch to pull that has another ledger of a run, which HEAD does not contain; None if none has.

        Where the upstream is gone, as after a merge, the default branch may have it.
        """
        merged = self._default_branches() if self.is_gone else []
        return next((one for one in [*self.pulled, *merged] if is_newer_in(run, one.commit, self._deadline)), None)

    def find_finished(self, run: Run, besides: Sequence[Branch] = ()) -> Branch | None:
        """Return the branch that has a run finished, by a later state than HEAD's, which has it at work or lacks it.

        So it is where the run was merged, and the upstream is not known to be gone. `besides` were asked before.
        """
        branches = [one for one in dict.fromkeys(self.pulled + self._default_branches()) if one not in besides]
        here = state_in(run, "HEAD") if branches else {}
        for one in branches if here.get("status") not in FINISHED else ():
            there = state_in(run, one.commit)
            is_later = (seconds_of(there.get("updated_at")) or 0.0) >= (seconds_of(here.get("updated_at")) or 0.0)
            if there.get("status") in FINISHED and is_later:
                return one
        return None

    def _default_branches(self) -> list[Branch]:
        pattern = f"{REMOTE_BRANCHES}*/{default_branch(self.root)}"
        return [_branch(ref, commit) for ref, commit, _ in self._list_branches(pattern)]

    def _list_branches(self, *patterns: str) -> list[list[str]]:
        """Return ref, commit and upstream of branches."""
        fields = "--format=%(refname)%00%(objectname)%00%(upstream)"
        printed = self._ask("for-each-ref", fields, *patterns).answer_bytes() or b""
        return [os.fsdecode(line).split("\0") for line in printed.splitlines()]

    def _ask(self, *arguments: str) -> GitQuery:
        return GitQuery(["--literal-pathspecs", *arguments], self.root, deadline=self._deadline)


def _branch(ref: str, commit: str) -> Branch:
    return Branch(without_surrogates(ref.removeprefix(REMOTE_BRANCHES)), commit)


def command_to_pull(survey: GitSurvey) -> str:
    """Return the command that pulls the branch that is checked out, or the default one if its upstream is gone."""
    name = default_branch(survey.root) or ""
    return f"git switch {name} && git pull" if is_safe(name) and survey.is_gone else "git pull"


def way_to_completed(survey: GitSurvey, run: Run) -> str:
    """Return how to get the files of a run that was completed elsewhere, as it follows these words."""
    there = survey.find_finished(run)
    if there is None:
        return ", and neither this branch nor the default one is known to have that: `git fetch --prune` asks again"
    return f", after the commit that is here: run `{survey.pull_command(there)}`"
