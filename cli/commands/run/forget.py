"""`faber-ledger run forget`: list and remove this clone's logs of runs that are gone."""

from __future__ import annotations

import os
import shutil

import click

from faber_ledger.cli.reports.run_list import (
    count_events,
    gone_runs,
    never_recorded,
    places_of,
    what_forget_would_lose,
)
from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.runs.clone import inbox_path
from faber_ledger.runs.kept_summaries import summary_paths
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import has_log
from faber_ledger.runs.run import find_root


@click.command()
@click.argument("run_id", required=False, metavar="[RUN]")
@click.option("--list", "listing", is_flag=True, help="List the runs of which only the log is left.")
@click.option("--yes", is_flag=True, help="Remove what nothing else has, too.")
@json_option
def forget(run_id: str | None, listing: bool, yes: bool, as_json: bool) -> None:
    """Remove the log of a run that is gone.

    RUN must be gone from every worktree and branch; its log is under the git directory. The copy of its state
    and the summaries beside it are removed too. Only with --yes: a run that no commit has, that has an open session,
    or that a worktree is working on, and deliveries that wait to be recorded.

    \b
    Example: faber-ledger run forget --list
    Exit codes: 0 done; 1 the run still exists, or --yes is needed; 2 wrong usage;
    10 the run has no log.
    """
    root = find_root(os.getcwd())
    if listing == bool(run_id):
        raise click.UsageError("give RUN, or --list")
    if run_id is None:
        gone = [(run.run_id, count_events(path)) for run, path in gone_runs(root)]
        data = [{"run_id": name, "events": events} for name, events in gone]
        lines = [f"{name}: {events_shown(events)} in this clone's log alone" for name, events in gone]
        show(data, lines or ["every log has its run"], as_json=as_json)
        return
    run = find_run(root, run_id)
    if not has_log(run):
        raise RunNotFound(f"this clone has no log of a run {run_id}", hint="run `faber-ledger run forget --list`")
    places = places_of(run)
    if places:
        raise LedgerError(f"the run {run_id} still exists: {', '.join(places)}", hint="a run that exists keeps its log")
    events, waits, kept = count_events(run.log_path), list_waiting(run), summary_paths(run).values()
    loss = None if yes else what_forget_would_lose(run)
    if loss is not None:
        raise LedgerError(
            f"the log of {run_id}, with {events_shown(events)}, would be removed, and {loss}",
            hint=f"`faber-ledger run resume {run_id}` restores the run; `faber-ledger run forget {run_id} --yes`"
            " removes what is left of it",
        )
    shutil.rmtree(run.private_folder)
    shutil.rmtree(inbox_path(run), ignore_errors=True)
    more = f", {plural(len(kept), 'kept summary', 'kept summaries')}" if kept else ""
    removed = f"its log, with {events_shown(events)}{more}" + (f", and {never_recorded(waits)}" if waits else "")
    show(
        {"run_id": run_id, "events": events, "summaries": len(kept), "waiting": len(waits)},
        [f"{run_id}: {removed}, {'are' if waits or kept else 'is'} removed"],
        as_json=as_json,
    )
