"""What the checks examine, each thing read once and within limits; and what they find."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from faber_ledger.cli.reports.verify import run_findings
from faber_ledger.cli.ui.progress import progress_over
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.verify import LogProblem
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import ActiveRun, active_run
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.layouts import find_run, find_runs
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.settings import Settings, project_settings

if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded

Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error")
MOST_LISTED = 10  # findings of one check
MOST_RUNS = 1_000
MOST_VERIFIED = 200  # logs; `verify --all` checks all
NEWEST = 200  # events, among which the newest deliveries are looked for


class Patient:
    """A project under examination, as it is now. Nothing here writes."""

    def __init__(self, root: str, *, at: float) -> None:
        """Examine `root` at the time `at`, in seconds since 1970."""
        self.root = root
        self.at = at

    @cached_property
    def has_git(self) -> bool:
        """Whether git itself says that the project lies in a work tree."""
        try:
            done = run_git("rev-parse", "--is-inside-work-tree", at=self.root)
        except GitFailed:
            return False
        return done.returncode == 0 and done.stdout.strip() == b"true"

    @cached_property
    def active_run(self) -> ActiveRun:
        """Which run is active, and why."""
        return active_run(self.root)

    @property
    def active(self) -> str | None:
        """The id of the active run, even if it is only shown and not used."""
        return self.active_run.run_id

    @cached_property
    def settings(self) -> Settings:
        """The settings of the active run, or of the project if no run is active; raises InvalidRunId."""
        if self.active is None:
            return project_settings(self.root, os.environ)
        return Settings(find_run(self.root, self.active), os.environ)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs to examine: the active one first, then those changed last; at most `MOST_RUNS`."""
        found = [*find_runs(self.root)]
        found.sort(key=lambda run: (run.run_id == self.active, _changed_at(run)), reverse=True)
        return found[:MOST_RUNS]

    @cached_property
    def states(self) -> dict[str, dict[str, Any]]:
        """The readable states, by run id."""
        found = {}
        for run in self.runs:
            try:
                found[run.run_id] = state_file.read_state(run).value
            except LedgerError:
                continue  # reported by the check of the ledgers
        return found

    def state(self, run: Run) -> dict[str, Any]:
        """Return a run's state; an empty one if it cannot be read."""
        return self.states.get(run.run_id, {})

    def is_run_active(self, run: Run) -> bool:
        """Return whether a run's state says that it is in progress, paused or waiting."""
        return self.state(run).get("status") in progress.ACTIVE

    @cached_property
    def logged(self) -> list[Run]:
        """The runs with a ledger that is not empty."""
        return [run for run in self.runs if not lacks_ledger(run)]

    def newest_events(self) -> list[Recorded]:
        """Return the newest events of the active run; none if its log cannot be read, which other checks report."""
        for run in self.logged:
            if run.run_id == self.active:
                with suppress(LedgerError, OSError, sqlite3.Error), read_log(run) as log:
                    return list(log.newest(NEWEST))
        return []

    @cached_property
    def faults(self) -> dict[str, list[LogProblem]]:
        """What `verify` finds, by run id, within the limits; a run beyond them is absent."""
        found: dict[str, list[LogProblem]] = {}
        runs = self.logged[:MOST_VERIFIED]
        with progress_over(runs, "verifying") as advance:
            for run in runs:
                try:
                    found[run.run_id] = run_findings(run, is_one_of_many=len(runs) > 1)
                except LedgerError as error:
                    found[run.run_id] = [LogProblem(error.code, None, error.message, error.hint)]
                except (OSError, sqlite3.Error) as error:
                    found[run.run_id] = [LogProblem("damaged", None, str(error), "run `faber-ledger verify`")]
                advance(1)
        return found


def _changed_at(run: Run) -> float:
    try:
        return os.stat(run.directory).st_mtime
    except OSError:
        return 0.0


class Finding(NamedTuple):
    """One thing that a check found, about which somebody has to do or decide something."""

    level: Level
    what: str
    hint: str = ""


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings and a count of the others: hundreds of runs may have the same fault."""
    every = list(findings)
    yield from every[:MOST_LISTED]
    if left := every[MOST_LISTED:]:
        what = f"… and {len(left)} more like these"
        yield Finding(worst(left), what, "fix those above, then run `faber-ledger doctor` again")


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level among findings; `ok` for none."""
    return max([finding.level for finding in findings], key=LEVELS.index, default="ok")


def run_check(find: Callable[[Patient], Iterable[Finding]], patient: Patient) -> list[Finding]:
    """Return what a check finds, within limits; its own failure is a finding, too."""
    found: list[Finding] = []
    try:
        for finding in find(patient):
            found.append(finding)  # one by one: what was found before a failure is kept
    except LedgerError as error:
        found.append(Finding("error", f"this check failed: {error.message}", error.hint))
    except OSError as error:
        what = f"this check failed: {error.filename or ''} {error.strerror or error}"
        found.append(Finding("error", what, "check the permissions of the file"))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other checks still run
        what = f"this check failed: {error!r:.300}"
        found.append(Finding("error", what, "please report this line: it is a bug in faber-ledger"))
    return list(limit_findings(found))
