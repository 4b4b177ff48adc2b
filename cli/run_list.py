"""`faber-ledger run list` and `status`: the runs of a project, and where one of them stands."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli import completing
from faber_ledger.cli.ledgers import folded
from faber_ledger.cli.output import json_option, show, warn
from faber_ledger.cli.words import events_shown
from faber_ledger.context.packet import position
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.difference import differing
from faber_ledger.recording.spool import waiting
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import chosen_run, read_active_run, run_in_file, tell_kept
from faber_ledger.runs.lost import lacks_ledger, loss_of
from faber_ledger.runs.progress import current_phase, resume_point
from faber_ledger.runs.projecting import run_taken_away
from faber_ledger.runs.run import Run, find_root, find_run, run_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.ledger.queries import Summary

COLUMNS = ("run", "status", "phase", "sessions", "open", "events", "last event")


@click.command("list", short_help="List the runs of this project.")
@click.option("--status", type=click.Choice(progress.STATUSES), help="Only runs with this status.")
@click.option("--work-id", help="Only runs of this work item.", metavar="ID")
@json_option
def run_list(status: str | None, work_id: str | None, as_json: bool) -> None:
    """List the runs of this project; the active one is marked with `*`.

    \b
    Example: faber-ledger run list --status in_progress
    Exit codes: 0 done; 2 wrong usage.
    """
    root = find_root(os.getcwd())
    rows = [_row(root, run_id) for run_id in run_ids(root)]
    rows = [row for row in rows if status is None or row["status"] == status]
    rows = [row for row in rows if work_id is None or row["work_id"] == work_id]
    lines = [*_table(rows, is_filtered=bool(status or work_id))]
    taken = None if as_json else run_taken_away(root)
    if taken:
        lines.append(f"{taken}: it went on here and was taken away; `faber-ledger run resume {taken}` brings it back")
    show(rows, lines, as_json=as_json)


@click.command(short_help="Say where a run stands.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completing.runs)
@json_option
def status(run: str | None, as_json: bool) -> None:
    """Say where RUN stands (default: the active run): its phase, its session, its context and its ledger.

    \b
    Example: faber-ledger status
    Exit codes: 0 done; 1 its state cannot be read; 2 wrong usage; 10 no such run;
    12 newer format; 20 the ledger is damaged.
    """
    root = find_root(os.getcwd())
    meant = chosen_run(root, run)
    named = run_in_file(root)
    if run is None and not as_json and named not in (None, meant.run_id):
        tell_kept(root, named, meant.run_id, warn)
    state = state_file.read_state(meant).value
    log = _log_of(meant)
    blocks = folded(meant) if log else shape.blocks_of(state)
    agrees = not differing(blocks, shape.blocks_of(state))
    data = {
        "run_id": meant.run_id,
        "work_id": state.get("work_id"),
        "target": state.get("target"),
        "workflow_id": state.get("workflow_id"),
        "status": state.get("status"),
        "current_phase": current_phase(state),
        "resume_point": resume_point(state),
        "sessions": blocks.get("sessions"),
        "context_metadata": blocks.get("context_metadata"),
        "events": log.events if log else 0,
        "last_event_at": log.last_at if log else None,
        "state_agrees": agrees,
        "waiting": len(waiting(meant)),
    }
    show(data, [*_status_lines(meant, state, blocks, log, agrees), *_waiting_lines(meant)], as_json=as_json)


def _row(root: str, run_id: str) -> dict[str, Any]:
    run = find_run(root, run_id)
    try:
        state, problem, ledger_problem = state_file.read_state(run).value, None, None
    except LedgerError as error:
        state, problem, ledger_problem = {}, error.message, None
    try:
        log = _log_of(run)
    except (LedgerError, sqlite3.DatabaseError) as error:
        log, ledger_problem = None, str(error)
    blocks = shape.blocks_of(state)
    return {
        "run_id": run_id,
        "active": read_active_run(root) == run_id,
        "work_id": state.get("work_id"),
        "status": state.get("status"),
        "phase": current_phase(state),
        "sessions": len(shape.session_history(blocks)),
        "open_session": shape.current_session(blocks),
        "events": log.events if log else 0,
        "last_event_at": log.last_at if log else None,
        "problem": problem,
        "ledger_problem": ledger_problem,
    }


def _log_of(run: Run) -> Summary | None:
    from faber_ledger.ledger.queries import summary  # at its use: `--help` loads every command

    return None if lacks_ledger(run) else summary(run.ledger_path)


def _table(rows: list[dict[str, Any]], *, is_filtered: bool) -> Iterator[str]:
    if not rows and is_filtered:
        yield "no run of this project is like that"
        return
    if not rows:
        yield "no runs yet: start one with `faber-ledger run start --work-id ID`"
        return
    cells = [COLUMNS, *[_cells(row) for row in rows]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    for row in rows:
        for problem in filter(None, [row["problem"], row["ledger_problem"]]):
            yield f"{row['run_id']}: {problem}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{'*' if row['active'] else ' '} {row['run_id']}",
        "unreadable" if row["problem"] else str(row["status"] or "unknown"),
        row["phase"] or "-",
        str(row["sessions"]),
        "yes" if row["open_session"] else "no",
        "unreadable" if row["ledger_problem"] else str(row["events"]),
        row["last_event_at"] or "-",
    )


def _status_lines(
    run: Run, state: dict[str, Any], blocks: shape.Blocks, log: Summary | None, agrees: bool
) -> Iterator[str]:
    yield f"Run: {run.run_id}"
    yield from position(run.run_id, state)[2:]
    yield f"Session: {_session_text(blocks)}"
    loads = shape.artifacts_in_context(blocks)
    names = ", ".join([str(load.get("artifact_id")) for load in loads])
    metadata = blocks.get("context_metadata")
    reload = metadata.get("last_artifact_reload") if isinstance(metadata, dict) else None
    yield f"In context: {names or 'nothing'}" + (f" (last reload {reload})" if reload else "")
    if log is None:
        lost = loss_of(run)
        yield f"Ledger: none; {lost[0]}: {lost[1]}" if lost else "Ledger: none yet; the first event makes it"
        return
    last = f", the last {log.last_type} at {log.last_at}" if log.events else ""
    yield f"Ledger: {events_shown(log.events)}{last}"
    if not agrees:
        yield f"state.json differs from the ledger: run `faber-ledger project {run.run_id}`"


def _waiting_lines(run: Run) -> Iterator[str]:
    count = len(waiting(run))
    if count:
        waits = "1 delivery waits" if count == 1 else f"{count} deliveries wait"
        command = f", and so does `faber-ledger project {run.run_id}`" if os.path.lexists(run.ledger_path) else ""
        yield f"{waits} to be recorded: the next hook does it{command}"


def _session_text(blocks: shape.Blocks) -> str:
    current = shape.current_session(blocks)
    count = len(shape.session_history(blocks))
    if current is None:
        return f"none open ({count} in all)"
    entry = shape.entry_of(blocks, current) or {}
    environment = entry.get("environment")
    host = environment.get("hostname") if isinstance(environment, dict) else None
    since = entry.get("started_at") or "an unknown time"
    return f"{current}, open since {since} on {host or 'an unknown machine'} ({count} in all)"
