"""What the checks look at: the project, its clone and its runs, each read once and bounded."""

from __future__ import annotations

import os
import sqlite3
import stat
from functools import cached_property
from typing import Any

from faber_ledger.cli.worktrees.git import asked
from faber_ledger.files.folders import MOUNTS
from faber_ledger.ledger.errors import GitFailed, InvalidRunId, LedgerError
from faber_ledger.ledger.problems import LogProblem as Fault
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import active_run
from faber_ledger.runs.git import WorkTree, work_tree_of
from faber_ledger.runs.run import RUNS, Run, find_run, run_ids

MOST_RUNS = 1_000
MOST_VERIFIED = 200  # logs, and bytes of them: what is left out is `verify --all`'s
BYTES_VERIFIED = 64 * 1024 * 1024


class Patient:
    """A project as it is now. Nothing here writes."""

    def __init__(self, root: str, *, at: float, mounts: str = MOUNTS) -> None:
        """Take the project's root, the time in seconds since 1970, and where the mounted file systems are listed."""
        self.root = root
        self.at = at
        self.mounts = mounts

    @cached_property
    def place(self) -> WorkTree | None:
        """Where the work tree is, from the files themselves; None without git."""
        return work_tree_of(self.root)

    @cached_property
    def common(self) -> str | None:
        """The git directory that all worktrees share; None without git."""
        return self.place.common if self.place else None

    @cached_property
    def has_git(self) -> bool:
        """Whether git itself says that the project lies in a work tree."""
        try:
            done = asked("rev-parse", "--is-inside-work-tree", at=self.root)
        except GitFailed:
            return False
        return done.returncode == 0 and done.stdout.strip() == b"true"

    @cached_property
    def active(self) -> str | None:
        """The id of the active run, as it stands in the file."""
        return active_run(self.root).run_id

    @cached_property
    def runs_folders(self) -> list[str]:
        """The folders that hold runs, of those that are there."""
        folders = [os.path.join(self.root, *runs.split("/")) for runs in RUNS]
        return [folder for folder in folders if os.path.isdir(folder)]

    @cached_property
    def all_ids(self) -> list[str]:
        """The ids of all runs."""
        return run_ids(self.root)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs to look at: the active one first, then those changed last; at most `MOST_RUNS`."""
        found = []
        for run_id in self.all_ids:
            try:
                found.append(find_run(self.root, run_id))
            except InvalidRunId:
                continue  # behind a link that leads out: told by the check of the layout
        found.sort(key=lambda run: (run.run_id == self.active, _changed(run)), reverse=True)
        return found[:MOST_RUNS]

    @cached_property
    def states(self) -> dict[str, dict[str, Any]]:
        """The state of each run whose state can be read."""
        found = {}
        for run in self.runs:
            try:
                found[run.run_id] = state_file.read_state(run).value
            except LedgerError:
                continue  # told by the check of the projection
        return found

    def state(self, run: Run) -> dict[str, Any]:
        """Give a run's state; an empty one if it cannot be read."""
        return self.states.get(run.run_id, {})

    def is_at_work(self, run: Run) -> bool:
        """Tell whether a run's state says that it is in progress, paused, or waits for somebody."""
        return self.state(run).get("status") in progress.ACTIVE

    @cached_property
    def logged(self) -> list[Run]:
        """The runs that have a ledger, and no journal that SQLite would wait for; an empty file is none."""
        there = [run for run in self.runs if os.path.lexists(run.ledger_path) and not _is_empty(run.ledger_path)]
        return [run for run in there if not has_false_journal(run)]

    @cached_property
    def faults(self) -> dict[str, list[Fault]]:
        """What `verify` finds, by run, as far as the bounds go; a run that is left out is absent."""
        from faber_ledger.cli.reports.verify import run_findings  # at its use: with it come the models of all events

        found: dict[str, list[Fault]] = {}
        left = BYTES_VERIFIED
        for run in self.logged[:MOST_VERIFIED]:
            left -= _size(run.ledger_path)
            if left < 0:
                break
            try:
                found[run.run_id] = run_findings(run)
            except LedgerError as error:
                found[run.run_id] = [Fault(error.code, None, error.message, error.hint)]
            except (OSError, sqlite3.Error) as error:
                found[run.run_id] = [Fault("damaged", None, str(error), "run `faber-ledger verify`")]
        return found


def has_false_journal(run: Run) -> bool:
    """Tell whether what stands in a journal's place is no regular file: SQLite would open it, even a pipe."""
    try:
        return not stat.S_ISREG(os.lstat(run.ledger_path + "-journal").st_mode)
    except OSError:
        return False


def _changed(run: Run) -> float:
    try:
        return os.stat(run.directory).st_mtime
    except OSError:
        return 0.0


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _is_empty(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and _size(path) == 0
