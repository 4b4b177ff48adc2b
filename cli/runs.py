"""Which run a command is about: the one named, by its id or an unambiguous start of it, else the active one."""

from __future__ import annotations

import os

from faber_ledger.context.project import Run, find_root, find_run, read_active_run, run_ids
from faber_ledger.ledger.errors import NoActiveRun, RunNotFound

LIST = "run `faber-ledger run list` to see the runs of this project"


def run_meant(name: str | None) -> Run:
    """Give the run that has this id or an id starting so, or the active run.

    Raises NoActiveRun, RunNotFound (several runs start so, or none does) and InvalidRunId.
    """
    root = find_root(os.getcwd())
    if name is None:
        name = read_active_run(root)
        if name is None:
            raise NoActiveRun("no run is active here", hint=f"name one; {LIST}")
        return _existing(find_run(root, name))
    known = run_ids(root)
    meant = [name] if name in known else [run_id for run_id in known if run_id.startswith(name)]
    if len(meant) > 1:
        raise RunNotFound(f"several runs start with {name}: {', '.join(meant)}", hint="give more of the id")
    return _existing(find_run(root, meant[0] if meant else name))


def run_with_ledger(name: str | None) -> Run:
    """Give the run as `run_meant` does; raises RunNotFound also if it has no ledger."""
    run = run_meant(name)
    if not os.path.lexists(run.ledger_path):
        raise RunNotFound(
            f"the run {run.run_id} has no ledger yet",
            hint="its first event makes one: run `faber-ledger session-load`, or `faber-ledger init` for the hooks",
        )
    return run


def all_runs_with_ledgers() -> list[Run]:
    """Give every run of the project that has a ledger, in order of their ids."""
    root = find_root(os.getcwd())
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    return [run for run in runs if os.path.lexists(run.ledger_path)]


def _existing(run: Run) -> Run:
    if not os.path.isdir(run.directory):
        raise RunNotFound(f"there is no run {run.run_id}", hint=LIST)
    return run
