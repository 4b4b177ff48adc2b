"""Which runs' ledgers a command is about."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

from faber_ledger.cli.output import warn
from faber_ledger.ledger.errors import InvalidRunId, Locked, NotWritable, RunNotFound, StateMissing
from faber_ledger.ledger.lock import RunLock
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from faber_ledger.runs.active import chosen_run, read_active_run
from faber_ledger.runs.lost import is_mirrored, lacks_ledger, loss_of
from faber_ledger.runs.projecting import regenerated
from faber_ledger.runs.run import Run, find_root, find_run, run_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.projections.blocks import Blocks

R = TypeVar("R")


def run_with_ledger(text: str | None) -> Run:
    """Give the run that is named, else the active one; raises as `chosen_run`, and RunNotFound if it has no ledger."""
    run = chosen_run(find_root(os.getcwd()), text)
    if lacks_ledger(run):
        lost = loss_of(run)
        if lost is not None:
            raise RunNotFound(lost[0], hint=lost[1])
        raise RunNotFound(
            f"the run {run.run_id} has no ledger yet",
            hint="its first event makes one: run `faber-ledger session-load`, or `faber-ledger init` for the hooks",
        )
    return run


def run_to_project(text: str | None, *, needs_ledger: bool = True) -> Run:
    """Give the run that is named, else the active one: one with a ledger, or with a mirror that brings it back.

    A backup can be restored without either. Raises as `run_with_ledger`.
    """
    root = find_root(os.getcwd())
    named = text or read_active_run(root)
    try:
        run = find_run(root, named) if named else None
    except InvalidRunId:
        run = None
    if run is None or not lacks_ledger(run) or not is_mirrored(run):
        return run_with_ledger(text) if needs_ledger else chosen_run(root, text)
    os.makedirs(run.directory, exist_ok=True)
    return run


def at_one_moment(run: Run, compare: Callable[[], list[R]]) -> list[R]:
    """Compare log and state.json: differences are looked at again under the run's lock.

    A hook may have been between the two. Without a lock file nobody has written here; whoever cannot have the lock has
    the first answer.
    """
    found = compare()
    if found and os.path.exists(run.lock_path):
        with suppress(Locked, NotWritable), RunLock(run.lock_path):
            return compare()
    return found


def folded(run: Run) -> Blocks:
    """Give the two blocks that a run's whole log comes to; raises as `Log.read`."""
    with Log.read(run.ledger_path) as log:
        return fold(log.stream())


def project_again(run: Run, *, rebuild: bool, redacted: bool = False) -> None:
    """Write a run's blocks as `regenerated` does, and say where a missing state.json was taken from.

    Where nothing has one it is left missing: one that is made of the log alone, in a commit, takes everybody's keys.
    """
    try:
        _, source, _ = regenerated(run, rebuild=rebuild, warn=warn, redacted=redacted)
    except StateMissing:
        told = f"{run.shown('state.json')} is missing, and neither a backup nor a commit has one: it is left so"
        warn(f"note: {told}; `faber-ledger project {run.run_id}` writes one from the ledger")
        return
    if source is not None:
        warn(f"note: {run.shown('state.json')} was missing and is taken from {source}")


def runs_with_ledgers(text: str | None, *, every: bool) -> list[Run]:
    """Give the one run, or with `every` all of the project's that have a ledger; raises as `run_with_ledger`."""
    if not every:
        return [run_with_ledger(text)]
    if text is not None:
        raise click.UsageError("give RUN or --all, not both")
    root = find_root(os.getcwd())
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    return [run for run in runs if os.path.lexists(run.ledger_path)]


def runs_to_tell(text: str | None, *, every: bool) -> list[Run]:
    """Give the same runs, and warn of those that are left out because their ledger is gone."""
    runs = runs_with_ledgers(text, every=every)
    if every:
        root, there = find_root(os.getcwd()), {run.run_id for run in runs}
        for run in [find_run(root, run_id) for run_id in run_ids(root) if run_id not in there]:
            lost = loss_of(run)
            why = f"{lost[0]}: {lost[1]}" if lost is not None else "it has no ledger"
            warn(f"{run.run_id} is left out: {why}")
    return runs
