"""`faber-ledger run list`: the runs of a project."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.table import table
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.blocks import blocks_of, current_session, session_history
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import active_run
from faber_ledger.runs.lost import lacks_ledger
from faber_ledger.runs.progress import current_phase
from faber_ledger.runs.projecting import find_removed_run
from faber_ledger.runs.run import find_root, find_run, run_ids

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    taken = None if as_json else find_removed_run(root)
    if taken:
        lines.append(f"{taken}: it was active here and was removed; `faber-ledger run resume {taken}` restores it")
    show(rows, lines, as_json=as_json)


def _row(root: str, run_id: str) -> dict[str, Any]:
    from faber_ledger.ledger.queries import summarize  # at its use: `--help` loads every command

    run = find_run(root, run_id)
    try:
        state, problem, ledger_problem = state_file.read_state(run).value, None, None
    except LedgerError as error:
        state, problem, ledger_problem = {}, error.message, None
    try:
        log = None if lacks_ledger(run) else summarize(run.ledger_path)
    except (LedgerError, sqlite3.DatabaseError) as error:
        log, ledger_problem = None, str(error)
    blocks = blocks_of(state)
    return {
        "run_id": run_id,
        "active": active_run(root).run_id == run_id,
        "work_id": state.get("work_id"),
        "status": state.get("status"),
        "phase": current_phase(state),
        "sessions": len(session_history(blocks)),
        "open_session": current_session(blocks),
        "events": log.events if log else 0,
        "last_event_at": log.last_at if log else None,
        "problem": problem,
        "ledger_problem": ledger_problem,
    }


def _table(rows: list[dict[str, Any]], *, is_filtered: bool) -> Iterator[str]:
    if not rows and is_filtered:
        yield "no run matches"
        return
    if not rows:
        yield "no runs yet: start one with `faber-ledger run start --work-id ID`"
        return
    yield from table([COLUMNS, *[_cells(row) for row in rows]])
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
