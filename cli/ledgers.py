"""Which runs' ledgers a command is about."""

from __future__ import annotations

import os

import click

from faber_ledger.context.project import Run, chosen_run, find_root, find_run, run_ids
from faber_ledger.ledger.errors import RunNotFound


def run_with_ledger(text: str | None) -> Run:
    """Give the run that is named, else the active one; raises as `chosen_run`, and RunNotFound if it has no ledger."""
    run = chosen_run(find_root(os.getcwd()), text)
    if not os.path.lexists(run.ledger_path):
        raise RunNotFound(
            f"the run {run.run_id} has no ledger yet",
            hint="its first event makes one: run `faber-ledger session-load`, or `faber-ledger init` for the hooks",
        )
    return run


def runs_with_ledgers(text: str | None, *, every: bool) -> list[Run]:
    """Give the one run, or with `every` all of the project's that have a ledger; raises as `run_with_ledger`."""
    if not every:
        return [run_with_ledger(text)]
    if text is not None:
        raise click.UsageError("give RUN or --all, not both")
    root = find_root(os.getcwd())
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    return [run for run in runs if os.path.lexists(run.ledger_path)]
