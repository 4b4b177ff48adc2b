"""Which run a session-load is about (RELOAD, Step 1): the one named, the active one, or one that a scan finds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli import texts
from faber_ledger.cli.output import say, tell
from faber_ledger.ledger.errors import LedgerError, NoActiveRun, RunNotFound, SeveralActiveRuns
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import holder_elsewhere, known_run, read_active_run, why_none
from faber_ledger.runs.run import Run, find_run, run_ids

if TYPE_CHECKING:
    from collections.abc import Callable

LOAD = "session-load --run-id"


def run_to_load(root: str, run_id: str | None, log: Callable[[str], None], example: str = LOAD) -> Run:
    """Give the run to load; raises LedgerError for none, or for several where nobody can be asked."""
    named = run_id or read_active_run(root)
    if named is not None:
        try:
            return known_run(root, named)
        except RunNotFound as error:
            error.block = texts.run_not_found(find_run(root, named))
            raise
    runs = _active_runs(root)
    if not runs:
        why = why_none(root)
        block = texts.NO_WORKFLOW_TO_LOAD + (f"\n{why[2].upper()}{why[3:]}" if why else "")
        raise NoActiveRun(f"No active workflow found{why}", block=block)
    if len(runs) == 1:
        log(f"✓ Auto-detected active workflow: {runs[0][0].run_id}")
        return runs[0][0]
    return _asked(runs, example)


def _active_runs(root: str) -> list[tuple[Run, dict[str, Any]]]:
    """List the runs at work, with their states: not those that cannot be read, nor those that other worktrees hold."""
    found = []
    for run_id in run_ids(root):
        try:
            run = find_run(root, run_id)
            state = state_file.read_state(run).value
        except LedgerError:
            continue
        if state.get("status") in progress.ACTIVE and holder_elsewhere(root, run_id) is None:
            found.append((run, state))
    return found


def _asked(runs: list[tuple[Run, dict[str, Any]]], example: str) -> Run:
    lines = ["Multiple active workflows found. Please select:"]
    for number, (run, state) in enumerate(runs, 1):
        phase, started = state.get("current_phase") or "unknown", state.get("started_at") or "unknown"
        lines.append(f"{number}. {run.run_id} ({phase} phase, started {started})")
    if not sys.stdin.isatty():
        block = "\n".join([*lines, "", f"Name one: faber-ledger {example} {runs[0][0].run_id}"])
        names = [run.run_id for run, _ in runs]
        hint = "name one with --run-id"
        raise SeveralActiveRuns("Multiple active workflows found", hint=hint, block=block, data={"candidates": names})
    for line in lines:
        tell(line)
    while True:
        chosen = click.prompt("", prompt_suffix="> ", type=int, err=True)
        if 1 <= chosen <= len(runs):
            return runs[chosen - 1][0]
        say(f"There is no number {chosen}.")
