"""Which run is active in a work tree: the one that hooks record on and that commands mean (DECISIONS 2).

`active_run` alone decides it, by this rule; a run is at work unless it is completed or cancelled.

1. The run that the active file names, if it is at work, unless the checked-out branch is another run's at work and not
   its own. Of the two files the one that was written last holds.
2. Else the newest run at work whose branch is checked out.
3. For commands, unless the file's run has no other branch or their conversation is on it, the newest finished run whose
   branch is checked out.
4. Else, at a start and for commands, the only run at work here whose files this user has committed last.
5. Else the run that the active file names, although it is finished: it can be ended, sealed and shown.

A run's branches are the one that its state names and those on which `run start` or `run resume` named it in this clone;
while there is none, the first one that was recorded with it. The default branch is nobody's.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, folder_around, open_regular
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.clone import read_used_runs
from faber_ledger.runs.git import branch_of, default_branch, work_tree_of
from faber_ledger.runs.layouts import find_run, find_runs
from faber_ledger.runs.run import ACTIVE_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run


MOVE_FOLDER = "move the directory aside"
ACTIVE_FILE_BYTES = 512  # more than any run's id has
MOST_ASKED = 20  # runs at work, about whose last commits git is asked at once
MOST_COUNTED = 100  # runs that this clone has recorded on, the newest
SECONDS = 1.0  # for all that git is asked


class ActiveRun:
    """The run that is active in a work tree: its id, None if none is, and half a sentence that says why.

    `is_named`: the active file names it. `problem` is the line about an active file that names nothing usable, or
    empty; `is_another_named`: the file names another run at work.
    """

    def __init__(
        self, run: Run | None, why: str, problem: str, *, is_named: bool = False, is_another_named: bool = False
    ) -> None:
        self.run_id = run.run_id if run is not None else None
        self.why = why
        self.problem = problem
        self.is_named = is_named
        self.is_another_named = is_another_named
        self._run = run

    @property
    def status(self) -> object:
        """The run's status; None if no run is active, or nothing says it."""
        return read_status(self._run) if self._run is not None else None


def active_run(root: str, *, by_author: bool = True, is_start: bool = False) -> ActiveRun:
    """Return which run is active in a project's work tree, for a command or at a start.

    Git is asked for authors only with `by_author`; a finished run of the checked-out branch, too, is only looked for
    then.
    """
    name, problem = read_name(root)
    here = Here(root)
    named: Run | None = None
    if name is not None:
        named, unusable = _find_named(root, name, here)
        problem = problem or unusable
    why = f"{name.file} names it" if name is not None else ""
    is_at_work = named is not None and not here.is_finished(named)
    is_at_home = named is not None and is_at_work and here.is_at_home(named)
    others = [] if is_at_home else here.runs_on_branch()
    is_asked = by_author and not (is_at_home or others or is_start)
    if is_asked and (named is None or not (here.may_be_home_of(named, None) or _is_clients(root, named))):
        others = here.runs_on_branch(is_over=True)
    if named is not None and is_at_work and not others:
        return ActiveRun(named, why, problem, is_named=True)
    if others:
        is_beside = named is not None and is_at_work
        return ActiveRun(others[0], f"its branch {here.branch} is checked out", problem, is_another_named=is_beside)
    only = _only_run_of_user(root, here) if by_author else None
    if only is not None:
        return ActiveRun(only, "it is the only run at work here whose files you committed last", problem)
    if named is not None:
        return ActiveRun(named, why, problem, is_named=True)
    return ActiveRun(None, problem or "no active file names one", problem)


def _is_clients(root: str, run: Run) -> bool:
    """Return whether the newest session of the client that runs this command is on a run."""
    from faber_ledger.runs.seen import seen_client

    seen = seen_client(root, os.environ.get("CLAUDE_CODE_SESSION_ID"))
    return seen is not None and seen.run_id == run.run_id


def name_if_none_is(root: str, active: ActiveRun, run_id: str, warn: Callable[[str], None]) -> bool:
    """Name the active run in the active file, unless that names a run at work; return whether it was written."""
    if active.is_named or active.is_another_named or active.status in progress.FINISHED:
        return False
    try:
        write_active_file(root, run_id)
    except LedgerError as error:  # what happened on the run is in its log
        warn(f"{error.message} - {error.hint}")
        return False
    return True


def named_since(root: str, moment: float, run_id: str) -> bool:
    """Return whether the active file was written after a moment (seconds since 1970) with another run's name."""
    name, _ = read_name(root)
    if name is None or name.at <= moment:
        return False
    named, _ = _find_named(root, name, Here(root))
    return named is not None and named.run_id != run_id


# A run's status and branches


def read_status(run: Run) -> object:
    """Return a run's status by its state here, else by the copy that this clone keeps; None if neither says it."""
    return _state_to_ask(run).get("status")


def is_finished(run: Run) -> bool:
    """Return whether a run is known to be completed or cancelled."""
    return read_status(run) in progress.FINISHED


def _is_known_at_work(run: Run) -> bool:
    return read_status(run) not in (None, *progress.FINISHED)


def _state_to_ask(run: Run) -> dict[str, Any]:
    try:
        return state_file.look_at_state(run, state_file.LARGEST_TO_ASK).value
    except LedgerError:
        return state_file.look_at_copy(run)


class Here:
    """What a work tree says beside its active file: the checked-out branch, and the runs that the clone has used."""

    def __init__(self, root: str) -> None:
        """Read the branch and the clone's notes; no git process is started."""
        self.branch = branch_of(root)
        self.used = read_used_runs(root)
        self._root = root
        self._default: list[str | None] = []
        self._runs: list[Run] | None = None
        self._on_branch: dict[bool, list[Run]] = {}
        self._states: dict[str, dict[str, Any]] = {}

    def state_of(self, run: Run) -> dict[str, Any]:
        """Return a run's state, by its file here, else by the copy that this clone keeps; it is read once."""
        if run.state_path not in self._states:
            self._states[run.state_path] = _state_to_ask(run)
        return self._states[run.state_path]

    def is_finished(self, run: Run) -> bool:
        """Return whether a run is known to be completed or cancelled."""
        return self.state_of(run).get("status") in progress.FINISHED

    @property
    def default(self) -> str | None:
        """The default branch, which is nobody's."""
        if not self._default:
            self._default.append(default_branch(self._root))
        return self._default[0]

    def know(self, run: Run, state: dict[str, Any]) -> None:
        """Take a run's state as it was read just before."""
        self._states[run.state_path] = state

    def may_be_home_of(self, run: Run, log: Log | None) -> bool:
        """Return whether the checked-out branch is a run's own, or the run has none; `log` is its open log."""
        if self.branch in self._named_branches(run) and self.branch != self.default:
            return True
        branches = self.branches_of(run, log)
        return not branches or self.branch in branches

    def is_at_home(self, run: Run) -> bool:
        """Return whether the checked-out branch is a run's own, or nobody's; the cheapest question comes first."""
        if self.branch is None or self.branch in self._named_branches(run) or self.branch == self.default:
            return True
        return self.branch in self.branches_of(run)

    def owns_branch(self, run: Run) -> bool:
        """Return whether the checked-out branch is a run's own."""
        return self.branch is not None and self.branch in self.branches_of(run)

    def branches_of(self, run: Run, log: Log | None = None) -> list[str]:
        """Return a run's branches; `log` is its log if it is open."""
        own = [branch for branch in self._named_branches(run) if branch != self.default]
        return own or _first_recorded(run, self.default, log)

    def runs(self) -> list[Run]:
        """Return the runs of the work tree, then those that this clone keeps; none behind a link that leads out."""
        if self._runs is None:
            from faber_ledger.runs.kept import kept_runs_besides  # not where the active file names a run

            runs = find_runs(self._root)
            self._runs = [*runs, *kept_runs_besides(self._root, [run.run_id for run in runs])]
        return self._runs

    def runs_on_branch(self, *, is_over: bool = False) -> list[Run]:
        """Return the runs at work, or those that are finished, whose branch is checked out, the newest first."""
        if is_over not in self._on_branch:
            is_nobodys = self.branch is None or self.branch == self.default
            runs = [] if is_nobodys else self.runs()
            found = [run for run in runs if self.is_finished(run) == is_over and self.owns_branch(run)]
            found.sort(key=lambda run: (_started_at(self.state_of(run)), run.run_id), reverse=True)
            self._on_branch[is_over] = found
        return self._on_branch[is_over]

    def _named_branches(self, run: Run) -> list[str]:
        """Return the branch that a run's state names, and those on which a command named the run."""
        named = progress.branch_name(self.state_of(run))
        found = [named.removeprefix("refs/heads/")] if isinstance(named, str) else []
        return [*found, *self.used.branches.get(run.run_id, [])]


def can_be_on_branch(root: str, run_id: str) -> bool:
    """Return whether the checked-out branch is a run's own, or the run has none."""
    from faber_ledger.runs.kept import run_here

    return Here(root).may_be_home_of(run_here(root, run_id), None)


def _first_recorded(run: Run, default: str | None, log: Log | None) -> list[str]:
    """Return the first branch that was recorded with a run and is not the default one, if there is one."""
    if log is not None:
        first = log.first_branch(besides=default)
        return [first] if first is not None else []
    from faber_ledger.ledger.file import sqlite3  # only where nothing else says the branch
    from faber_ledger.ledger.foreign import open_untrusted
    from faber_ledger.ledger.log import Log as OpenLog

    for opened, path in ((OpenLog.read, run.log_path), (open_untrusted, run.ledger_path)):
        try:
            with opened(path) as found:
                first = found.first_branch(besides=default)
                return [first] if first is not None else []
        except (LedgerError, OSError, UnicodeDecodeError, sqlite3.Error):
            continue
    return []


# The active file


class Name:
    """A run's name in an active file: its first line, when it was written (seconds since 1970), and in which file."""

    def __init__(self, run_id: str, at: float, file: str) -> None:
        self.run_id = run_id
        self.at = at
        self.file = file


def read_name(root: str) -> tuple[Name | None, str]:
    """Return the name in the active file that was written last, and why a file cannot be read; empty if all can.

    White space around a name, CRLF, a missing newline and a byte-order mark are tolerated; an empty file counts as
    none (END, Step 1). Of a longer line the beginning is returned, which is not a run's id.
    """
    newest: Name | None = None
    problem = ""
    for file in ACTIVE_FILES:
        try:
            with open(open_regular(os.path.join(root, *file.split("/"))), "rb") as opened:
                at = os.fstat(opened.fileno()).st_mtime
                run_id = first_line(opened.read(ACTIVE_FILE_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, FileRefused, UnicodeDecodeError) as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None)
            problem = f"{file} cannot be read: {reason or error}"
            continue
        if run_id and (newest is None or at > newest.at):
            newest = Name(run_id, at, file)
    return newest, problem


def first_line(content: bytes) -> str:
    """Return the name in an active file's first 512 bytes, empty if there is none; raises UnicodeDecodeError."""
    text = content.decode(errors="strict" if len(content) < ACTIVE_FILE_BYTES else "ignore")
    lines = text.removeprefix("\ufeff").strip().splitlines()
    return lines[0].strip() if lines else ""


def check_active_folder(root: str) -> None:
    """Raise LedgerError if a link leads from the active file's folder out of the project."""
    folder = os.path.dirname(os.path.join(root, *ACTIVE_FILES[0].split("/")))
    if folder_around(folder, [root]) is None:
        message = f"{folder} is behind a link that leads out of the project, to {os.path.realpath(folder)}"
        raise LedgerError(message, hint="put the folder itself in the link's place")


def write_active_file(root: str, run_id: str) -> None:
    """Name a run in this work tree's active file (SPEC, Active Run ID Tracking Mechanism); raises LedgerError.

    FABER's own tools read the second file alone: it is written where it or its folder exists.
    """
    check_active_folder(root)
    first, second = [os.path.join(root, *name.split("/")) for name in ACTIVE_FILES]
    is_read = os.path.isdir(os.path.dirname(second)) and folder_around(os.path.dirname(second), [root]) is not None
    for path in (second, first) if is_read else (first,):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            disk.put(path, f"{run_id}\n".encode(), durable=False, locked=False)
        except OSError as error:
            is_folder = os.path.isdir(path)
            hint = MOVE_FOLDER if is_folder else "check the permissions of the .fractary folder"
            raise LedgerError(f"cannot write {path}: {error.strerror}", hint=hint) from error


def _find_named(root: str, name: Name, here: Here) -> tuple[Run | None, str]:
    """Return the run that an active file names, or None and the line that says why it cannot be used."""
    try:
        run = find_run(root, name.run_id)
        if not run.is_recorded():
            from faber_ledger.runs.kept import run_here  # only where the work tree lacks the run

            run = run_here(root, run.run_id)
    except InvalidRunId as error:
        return None, f"{name.file}: {error.message}"
    if not run.is_recorded() and not run.has_files():
        return None, f"{name.file} names {run.run_id}, which is not here"
    if run.run_id in here.used.recorded:
        return run, ""
    if here.owns_branch(run) or not _is_tracked(root, name.file):
        return run, ""
    why = f"git brought {name.file}, which names {run.run_id}: it counts only where that run is used"
    return None, f"{why}; `git rm --cached {name.file}` ends that, `faber-ledger run resume {run.run_id}` uses the run"


def _is_tracked(root: str, file: str) -> bool:
    """Return whether git has a file in its index; not, if git does not answer."""
    from faber_ledger.runs.git_query import GitQuery  # once in a run's life, before it is recorded on

    return work_tree_of(root) is not None and bool(GitQuery(["ls-files", "--", file], root).answer())


# The user


def _started_at(state: dict[str, Any]) -> float:
    from faber_ledger.ledger.clock import seconds_of  # only where several runs have a branch

    return seconds_of(state.get("started_at")) or 0.0


def _only_run_of_user(root: str, here: Here) -> Run | None:
    """Return the only run at work in the work tree whose files this user has committed last; None for several.

    None in a linked work tree: the run has its own, where its session is (SPEC, One Workflow Per Worktree Limitation).
    """
    at_work = []
    for run in here.runs():
        if not run.is_kept and here.state_of(run).get("status") not in (None, *progress.FINISHED):
            at_work.append(run)
        if len(at_work) > MOST_ASKED:
            return None
    if not at_work:
        return None
    from faber_ledger.runs.git_query import GitQuery, time_limit  # only where no file and no branch names a run

    tree = work_tree_of(root)
    if tree is None or tree.is_linked:
        return None
    deadline = time_limit(SECONDS)
    user = GitQuery(["var", "GIT_AUTHOR_IDENT"], root, deadline=deadline)
    authors = []
    for run in at_work:
        files = [run.shown(path) for path in run.tracked_paths]
        asked = ["--literal-pathspecs", "log", "-1", "--format=%ae", "--", *files]
        authors.append((run, GitQuery(asked, root, deadline=deadline)))
    mine = (user.answer() or "").rpartition("<")[2].partition(">")[0]
    found = [run for run, author in authors if author.answer() == mine and mine]
    return found[0] if len(found) == 1 else None


def count_used_at_work(root: str) -> int:
    """Count the runs at work that this clone has recorded on."""
    from faber_ledger.runs.kept import run_here  # only where no run is active

    count = 0
    for run_id in [*read_used_runs(root).recorded][-MOST_COUNTED:]:
        try:
            count += _is_known_at_work(run_here(root, run_id))
        except InvalidRunId:
            continue
    return count
