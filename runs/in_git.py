"""What of a run is not committed, not pushed or not fetched: its log against git's last commit and remote branches.

Git is asked with few processes, within one deadline, and nothing is fetched: what is known of the remote is what the
last `git fetch`, `pull` or `push` left in this clone. Where git does not answer, a number is None: unknown.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.encoding import without_surrogates
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import MAX_VALUE_BYTES, UNREADABLE, check_schema, sqlite3
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.runs.copies import runs_in_other_work_trees
from faber_ledger.runs.git import branch_of, is_safe, work_tree_of
from faber_ledger.runs.git_query import GitQuery, time_limit
from faber_ledger.runs.layouts import find_run, run_at
from faber_ledger.runs.run import LAYOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from faber_ledger.runs.run import Run


SECONDS = 2.0  # for all that git is asked about a work tree
LARGEST = 64 * 1024 * 1024  # bytes of the ledgers that git prints at once
DEFAULT_NAMES = ("HEAD", "main", "master")  # of a remote's default branch; `HEAD` is what a clone gets
MOST_BRANCHES = 20  # the newest, where another branch than the one that is checked out may have the run
CLEAN, UNTRACKED, UNMERGED = "", "?", "u"  # or git's two letters for another change
INTERRUPTED = ("rebase-merge", "rebase-apply", "BISECT_LOG")  # in the work tree's own git directory
FIELDS = "%(refname)%00%(objectname)%00%(upstream)%00%(upstream:remotename)%00%(push)"


class Branch:
    """A branch of this clone, or a remote-tracking branch; `name` is as git shows it: `feature`, `origin/feature`."""

    def __init__(self, ref: str, commit: str) -> None:
        self.commit = commit
        self.is_remote = not ref.startswith("refs/heads/")
        self.name = without_surrogates(ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"))


class InGit:
    """What of a run is in git, in numbers of events; None is unknown.

    `events` are those that the run's log has here, without those that need no commit here if it `is_of_file`. Of them
    `committed` are in the last commit, and `pushed` in a remote-tracking branch (None also without a remote). `to_pull`
    are others, which only the branch `newer` has; None with a branch are some, without one it is unknown. If `is_kept`,
    the work tree lacks the run, and `committed` counts the commits of all branches.
    """

    def __init__(self, events: int) -> None:
        self.events = events
        self.committed: int | None = None
        self.pushed: int | None = None
        self.to_pull: int | None = None
        self.newer: Branch | None = None
        self.is_of_file = False
        self.is_kept = False
        self.is_untracked = False
        self.is_unmerged = False
        self.is_state_committed = True
        self.is_state_pushed = True

    @property
    def is_committed(self) -> bool:
        """Whether the last commit has all events, and the state as it is; true if it is not known."""
        return self.committed in (None, self.events) and self.is_state_committed

    @property
    def is_pushed(self) -> bool:
        """Whether the remote has what is committed; true if there is no remote, or it is not known."""
        return (self.pushed is None or self.pushed >= (self.committed or 0)) and self.is_state_pushed


class GitSurvey:
    """What git says of a work tree, and of the runs in it.

    `branch` is the one that is checked out, None if none is; `commit` the last one, None before the first. `upstream`
    is where `git pull` pulls from. `remotes` are the names of the remotes. `is_known` is false without git, or if git
    does not answer: then nothing else holds.
    """

    def __init__(
        self, root: str, runs: Collection[Run], seconds: float = SECONDS, *, with_changes: bool = True
    ) -> None:
        """Ask git; not `with_changes`, git does not look at files, and only `find_newer` may be called."""
        self.root = root
        self.branch: str | None = None
        self.commit: str | None = None
        self.upstream: Branch | None = None
        self.remotes: list[str] = []
        self._deadline = time_limit(seconds)
        self._places = {run.run_id: find_run(root, run.run_id) if run.is_kept else run for run in runs}
        self._near: list[Branch] = []  # the branches that this one is pulled from or pushed to, or that it starts from
        self._pulled: list[Branch] = []
        self._far: list[Branch] | None = None
        self._trees: dict[str, dict[str, str] | None] = {}
        self._changes: dict[str, str] = {}
        self._contents: dict[str, set[str] | None] = {}
        self.is_known = self._read_config() and (self._read_status() if with_changes else self._read_head())
        self.is_known = self.is_known and self._read_branches()

    # What git is asked about the work tree

    def _read_config(self) -> bool:
        """Read which remotes there are; return whether git answered."""
        if work_tree_of(self.root) is None:
            return False
        printed = self._ask("config", "--null", "--list").answer_bytes()
        keys = dict.fromkeys([os.fsdecode(entry).partition("\n")[0] for entry in (printed or b"").split(b"\0")])
        self.remotes = [key[7:-4] for key in keys if key.startswith("remote.") and key.endswith(".url")]
        return printed is not None

    def _read_status(self) -> bool:
        """Read what is checked out, and which of the runs' files are not as in the last commit."""
        paths = {place.shown(path) for place in self._places.values() for path in place.required_paths}
        if len(self._places) != 1:
            paths = _folders_of_runs()
        printed = self._ask(
            *("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--no-renames", "--untracked-files=all"),
            *("--ignore-submodules=all", "-z", "--", *sorted(paths)),
        ).answer_bytes()
        tree = work_tree_of(self.root)
        if printed is None or tree is None:
            return False
        inside = os.path.relpath(os.path.realpath(self.root), os.path.realpath(tree.top)).replace(os.sep, "/")
        for entry in os.fsdecode(printed).split("\0"):
            kind, _, rest = entry.partition(" ")
            if kind == "#":
                self._read_header(*rest.split(" ", 1))
            elif kind in ("1", UNTRACKED, UNMERGED):
                fields = {"1": 7, UNMERGED: 9, UNTRACKED: 0}[kind]  # before the path
                *described, path = rest.split(" ", fields)
                name = path if inside == "." else path.removeprefix(f"{inside}/")
                self._changes[name] = described[0] if kind == "1" else kind
        return True

    def _read_head(self) -> bool:
        """Read what is checked out, without running git; return whether it is a branch."""
        self.branch = branch_of(self.root)
        return self.branch is not None

    def _read_header(self, name: str, value: str = "") -> None:
        if name == "branch.oid" and value != "(initial)":
            self.commit = value
        if name == "branch.head" and value != "(detached)":
            self.branch = value

    def _read_branches(self) -> bool:
        """Read which branch is pulled, and where the remotes may have what this branch has."""
        if self.branch is None:
            containing = ("for-each-ref", "--contains=HEAD", "--count=1", f"--format={FIELDS}", "refs/remotes")
            pushed = [Branch(row[0], row[1]) for row in _rows(self._ask(*containing).answer_bytes())]
            self._near = [*self._read_far(), *pushed]  # which may be older than the newest
            return True
        own = f"refs/heads/{self.branch}"
        same = [f"refs/remotes/{remote}/{self.branch}" for remote in self.remotes]
        default = [f"refs/remotes/{remote}/{name}" for remote in self.remotes for name in DEFAULT_NAMES]
        printed = self._ask("for-each-ref", f"--format={FIELDS}", own, *same, *default).answer_bytes()
        rows = _rows(printed)
        self.commit, upstream, remote, push = next((row[1:5] for row in rows if row[0] == own), (None, "", "", ""))
        followed = [ref for ref in (upstream if remote != "." else "", push) if ref]
        if missing := [ref for ref in followed if ref not in [row[0] for row in rows]]:
            rows += _rows(self._ask("for-each-ref", f"--format={FIELDS}", *missing).answer_bytes())
        found = {row[0]: Branch(row[0], row[1]) for row in rows if row[0] != own}
        self.upstream = found.get(upstream) if remote != "." else None
        self._pulled = [found[ref] for ref in dict.fromkeys([*followed, *same]) if ref in found]
        self._near = list(found.values())
        return printed is not None

    def _read_far(self) -> list[Branch]:
        """Return the newest branches, and remote-tracking branches, of the clone."""
        if self._far is None:
            listed = ("--sort=-committerdate", f"--count={MOST_BRANCHES}")
            asked = ("for-each-ref", *listed, f"--format={FIELDS}", "refs/heads", "refs/remotes")
            self._far = [Branch(row[0], row[1]) for row in _rows(self._ask(*asked).answer_bytes())]
        return self._far

    def pull_command(self, branch: Branch) -> str:
        """Return the command that pulls a remote-tracking branch into the one that is checked out."""
        is_named = branch is not self.upstream and is_safe(self.split(branch)[1])
        return f"git pull {' '.join(self.split(branch))}" if is_named else "git pull"

    def split(self, branch: Branch) -> tuple[str, str]:
        """Return the remote of a remote-tracking branch, and the branch's name there."""
        remotes = [remote for remote in self.remotes if branch.name.startswith(f"{remote}/")]
        remote = max(remotes, key=len, default=branch.name.partition("/")[0])
        return remote, branch.name.removeprefix(f"{remote}/")

    @property
    def fetched_at(self) -> float | None:
        """When git last fetched, in seconds since 1970, in any work tree; None if not since the clone was made."""
        tree = work_tree_of(self.root)
        if tree is None:
            return None
        admin = os.path.join(tree.common, "worktrees")
        linked = [os.path.join(admin, name) for name in os.listdir(admin)] if os.path.isdir(admin) else []
        return max([at for folder in (tree.common, *linked) if (at := _time_of_fetch(folder))], default=None)

    @property
    def is_interrupted(self) -> bool:
        """Whether no branch is checked out because git rebases or bisects, and would refuse another branch."""
        tree = work_tree_of(self.root) if self.branch is None else None
        return tree is not None and any([os.path.lexists(os.path.join(tree.own, name)) for name in INTERRUPTED])

    def find_runs_on_remotes(self) -> Branch | None:
        """Return the branch with runs that `git pull` would bring, else the newest remote-tracking branch with runs."""
        for one in [*self._pulled, *[one for one in self._read_far() if one.is_remote]]:
            if any([run_at(self.root, path) for path in self._files_in(one.commit) or ()]):
                return one
        return None

    # What is known of a run

    def facts_of(self, run: Run, *, with_log: bool = True) -> InGit | None:
        """Return what of a run is in git; None if git ignores the run, or the run has no log that can be read.

        With the log, its events count too, but not those that another work tree has in its file, to commit there.
        """
        place = self._places[run.run_id]
        ledger, state = place.shown(place.ledger_path), place.shown(place.state_path)
        in_log = _events_of_log(run)
        in_file = in_log if run.is_kept else events_of_file(run.ledger_path)
        head, change = self._blob(self.commit, ledger), self._changes.get(ledger, CLEAN)
        if in_file is None or (not run.is_kept and head is None and change == CLEAN):
            return None
        alone = (in_file if run.is_kept else in_log - in_file) if with_log else set()
        if alone:
            files = [one.ledger_path for one in runs_in_other_work_trees(place)]
            alone = alone.difference(*[events_of_file(path) or set() for path in files])
        if run.is_kept:
            in_file = set()
        own, branches = in_file | alone, self._read_far() if alone else self._near
        found = InGit(len(own))
        found.is_of_file = not in_log <= own
        found.is_kept = run.is_kept
        found.is_untracked = change == UNTRACKED
        found.is_unmerged = UNMERGED in (change, self._changes.get(state))
        found.is_state_committed = run.is_kept or state not in self._changes
        committed = self._events_in([self.commit], ledger)
        if committed is not None and not alone <= committed:
            elsewhere = self._events_in([one.commit for one in branches if not one.is_remote], ledger)
            committed = None if elsewhere is None else committed | (elsewhere & alone)
        found.committed = None if committed is None else len(own & committed)
        if self.remotes:
            self._compare_with_remotes(found, own, ledger, [one for one in branches if one.is_remote])
            found.is_state_pushed = run.is_kept or self._is_pushed(state)
        return found

    def _compare_with_remotes(self, found: InGit, own: set[str], ledger: str, branches: list[Branch]) -> None:
        pushed = self._events_in([one.commit for one in branches], ledger)
        found.pushed = None if pushed is None else len(own & pushed)
        newer = self._find_newer(own, ledger)
        if newer is not None:
            found.newer, found.to_pull = newer
        elif self._pulled:
            found.to_pull = 0

    def find_newer(self, run: Run) -> Branch | None:
        """Return the remote-tracking branch that has events of a run which this clone lacks; None if none has."""
        if all([one.commit == self.commit for one in self._pulled]):
            return None
        place = self._places[run.run_id]
        own = (events_of_file(run.ledger_path) or set()) | _events_of_log(run)
        newer = self._find_newer(own, place.shown(place.ledger_path))
        return newer[0] if newer is not None else None

    def _find_newer(self, own: set[str], ledger: str) -> tuple[Branch, int | None] | None:
        """Return the branch to pull that has other events, and how many; None for the number if it is not known."""
        for one in self._pulled:
            events = self._events_in([one.commit], ledger) if one.commit != self.commit else set()
            if events is None and not self._is_in_head(one.commit):
                return one, None
            if events is not None and not events <= own:
                return one, len(events - own)
        return None

    def _is_pushed(self, path: str) -> bool:
        """Return whether a remote-tracking branch has the commits of this branch that changed a file."""
        own = self._blob(self.commit, path)
        there = [one for one in self._near if one.is_remote]
        if own is None or own in [self._blob(one.commit, path) for one in there]:
            return True
        commits = [f"^{one.commit}" for one in there]
        ahead = self._ask("rev-list", "--max-count=1", self.commit or "HEAD", *commits, "--", path).answer()
        return not ahead

    def _is_in_head(self, commit: str) -> bool:
        return self._ask("merge-base", "--is-ancestor", commit, self.commit or "HEAD").answer_bytes() is not None

    # How git is asked

    def _ask(self, *arguments: str) -> GitQuery:
        return GitQuery(["--literal-pathspecs", *arguments], self.root, deadline=self._deadline, limit=LARGEST)

    def _blob(self, commit: str | None, path: str) -> str | None:
        """Return git's name of a file of a run in a commit; None if it has none there, or that is not known."""
        return (self._files_in(commit) or {}).get(path) if commit is not None else None

    def _files_in(self, commit: str) -> dict[str, str] | None:
        """Return git's names of the runs' files in a commit, by path; None if git does not answer."""
        if commit not in self._trees:
            printed = self._ask("ls-tree", "-r", "-z", commit, "--", *sorted(_folders_of_runs())).answer_bytes()
            entries = [os.fsdecode(entry).partition("\t") for entry in (printed or b"").split(b"\0")]
            found = {path: described.split(" ")[2] for described, tab, path in entries if tab}
            self._trees[commit] = None if printed is None else found
        return self._trees[commit]

    def _events_in(self, commits: Iterable[str | None], path: str) -> set[str] | None:
        """Return the ids of the events that a ledger has in these commits; None if one of them is not known."""
        found: set[str] = set()
        for commit in {commit for commit in commits if commit is not None}:
            blob, files = self._blob(commit, path), self._files_in(commit)
            if files is None:
                return None
            if blob is not None and blob not in self._contents:
                content = self._ask("cat-file", "blob", blob).answer_bytes()
                self._contents[blob] = None if content is None else _events_of_content(content)
            events = self._contents[blob] if blob is not None else set()
            if events is None:
                return None
            found |= events
        return found


def _folders_of_runs() -> set[str]:
    return {folder for folder, _ in LAYOUTS}


def _rows(printed: bytes | None) -> list[list[str]]:
    """Parse what git printed in the form of `FIELDS`, without the remotes' HEAD where the branch itself is listed."""
    rows = [os.fsdecode(line).split("\0") for line in (printed or b"").splitlines()]
    commits = {row[1] for row in rows if not row[0].endswith("/HEAD")}
    return [row for row in rows if not (row[0].endswith("/HEAD") and row[1] in commits)]


def _time_of_fetch(folder: str) -> float | None:
    """Return when git last fetched in a work tree; what it began and could not finish leaves an empty file."""
    try:
        found = os.stat(os.path.join(folder, "FETCH_HEAD"))
    except OSError:
        return None
    return found.st_mtime if found.st_size else None


def events_of_file(path: str) -> set[str] | None:
    """Return the ids of a log's events; None if it cannot be read."""
    try:
        with open_untrusted(path, check_values=False) as log:
            return _ids(log.connection)
    except (LedgerError, OSError, *UNREADABLE):
        return None


def _events_of_log(run: Run) -> set[str]:
    return (events_of_file(run.log_path) if os.path.isfile(run.log_path) else None) or set()


def _events_of_content(content: bytes) -> set[str] | None:
    """Return the ids of the events of a ledger that git has; None if it is not one."""
    if not content:
        return set()  # as a writer that was killed at its first event leaves it
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.deserialize(content)
        check_schema(connection, "the ledger in git")
        return _ids(connection)
    except (LedgerError, *UNREADABLE):
        return None
    finally:
        connection.close()


def _ids(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT id FROM event")}
