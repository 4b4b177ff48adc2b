"""`faber-ledger run list`: the runs of a project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from faber_ledger.cli.reports.run_list import list_runs
from faber_ledger.cli.ui.git_words import hint_if_left_out
from faber_ledger.cli.ui.output import json_option, show
from faber_ledger.cli.ui.table import plural, table
from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.runs import progress
from faber_ledger.runs.active import active_run
from faber_ledger.runs.projecting import find_restorable
from faber_ledger.runs.run import find_root

COLUMNS = ("run", "status", "phase", "sessions", "open", "events", "last event")


@click.command("list", short_help="List the runs of this project.")
@click.option("--status", type=click.Choice(progress.STATUSES), help="Only runs with this status.")
@click.option("--work-id", help="Only runs of this work item.", metavar="ID")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N runs.")
@json_option
def run_list(status: str | None, work_id: str | None, limit: int | None, as_json: bool) -> None:
    """List the runs that this clone has, those with the newest event first; the active one is marked with `*`.

    `~` marks a run whose files this work tree does not have, as one of another branch or work tree.

    \b
    Example: faber-ledger run list --status in_progress --limit 10
    Exit codes: 0 done; 2 wrong usage.
    """
    root = find_root(os.getcwd())
    rows = [row for row in list_runs(root) if status is None or row["status"] == status]
    rows = [row for row in rows if work_id is None or row["work_id"] == work_id]
    left_out = len(rows[limit:]) if limit is not None else 0
    rows = rows[:limit]
    is_filtered = bool(status or work_id)
    left_out_by_git = None if rows or is_filtered else hint_if_left_out(root)
    lines = [left_out_by_git] if left_out_by_git else [*_table(rows, is_filtered=is_filtered)]
    if left_out:
        lines.append(f"{plural(left_out, 'older run')} not shown")
    lines += _lines_about_kept(rows)
    removed = None if as_json else find_restorable(root, active_run(root).run_id)
    if removed is not None:
        name = removed.run_id
        lines.append(f"{name}: its files are not in this work tree; `faber-ledger run resume {name}` restores them")
    show(rows, lines, as_json=as_json)


def _table(rows: list[dict[str, Any]], *, is_filtered: bool) -> Iterator[str]:
    if not rows and is_filtered:
        yield "no run matches"
        return
    if not rows:
        yield f"no runs yet: {START_ONE}"
        return
    yield from table([COLUMNS, *[_cells(row) for row in rows]])
    for row in rows:
        for problem in filter(None, [row["problem"], row["ledger_problem"]]):
            yield f"{row['run_id']}: {problem}"


def _lines_about_kept(rows: list[dict[str, Any]]) -> Iterator[str]:
    if any([not row["in_work_tree"] and not row["active"] for row in rows]):
        yield (
            "~ is a run whose files are not in this work tree: shown as this clone keeps it below the git directory;"
            " `faber-ledger run resume RUN` brings its files here"
        )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{'*' if row['active'] else ' ' if row['in_work_tree'] else '~'} {row['run_id']}",
        "unreadable" if row["problem"] else str(row["status"] or "unknown"),
        row["phase"] or "-",
        str(row["sessions"]),
        "yes" if row["open_session"] else "no",
        "unreadable" if row["ledger_problem"] else str(row["events"]),
        row["last_event_at"] or "-",
    )
