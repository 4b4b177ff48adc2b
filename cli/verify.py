"""`verify`: everything that is wrong with a run's log, and whether `state.json` shows what it says."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click

from faber_ledger.cli.ledgers import runs_with_ledgers
from faber_ledger.cli.output import json_option, show, warn
from faber_ledger.context.project import Run
from faber_ledger.context.state import read_state
from faber_ledger.ledger.errors import IntegrityError, LedgerError, ProjectionDiffers, StateInvalid, StateMissing
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.verify import Finding, findings
from faber_ledger.projections.blocks import NAMES
from faber_ledger.projections.fold import fold

LONG = 20_000_000  # bytes of a ledger from which on verifying takes over a second


@click.command(short_help="Check a whole log, and state.json against it.")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--all", "every", is_flag=True, help="Verify every run of the project that has a ledger.")
@json_option
def verify(run: str | None, every: bool, as_json: bool) -> int:
    """Check RUN's whole log (default: the active run), and whether state.json shows what it says.

    \b
    Example: faber-ledger verify --all
    Exit codes: 0 sound; 2 wrong usage; 10 no such run or ledger; 12 newer format;
    20 something is wrong with a log; 21 the logs are sound and state.json differs.
    """
    runs = runs_with_ledgers(run, every=every)
    if not runs:
        warn("no run of this project has a ledger")
    found = {one.run_id: list(_findings(one)) for one in runs}
    show(
        {"runs": [{"run_id": run_id, "findings": [_data(item) for item in items]} for run_id, items in found.items()]},
        [line for run_id, items in found.items() for line in _lines(run_id, items)],
        as_json=as_json,
    )
    wrong = [item for items in found.values() for item in items if not item.is_note]
    if not wrong:
        return 0
    only_projection = all(item.kind == ProjectionDiffers.code for item in wrong)
    return ProjectionDiffers.exit_code if only_projection else IntegrityError.exit_code


def _findings(run: Run) -> Iterator[Finding]:
    from faber_ledger.schemas.events import check_event  # at its use: `--help` loads every command

    with _progress(run) as advance:
        yield from findings(run.ledger_path, check_event=check_event, advance=advance)
    with suppress(IntegrityError, sqlite3.DatabaseError):  # a log that cannot be read has been reported above
        yield from _projection_findings(run)


def _projection_findings(run: Run) -> Iterator[Finding]:
    hint = f"run `faber-ledger project {run.run_id}` to write the two blocks from the log"
    with Log.read(run.ledger_path) as log:
        blocks = fold(log.stream())
    try:
        state = read_state(run).value
    except (StateMissing, StateInvalid) as error:
        yield Finding(ProjectionDiffers.code, None, f"state.json cannot be compared: {error.message}", error.hint)
        return
    for name in NAMES:
        if state.get(name) != blocks.get(name):
            yield Finding(
                ProjectionDiffers.code, None, f"the block `{name}` in state.json is not what the log says", hint
            )


@contextmanager
def _progress(run: Run) -> Iterator[Callable[[int], object]]:
    """Show a bar on standard error while a long log is read, on a terminal only."""
    count = 0
    if sys.stderr.isatty() and os.path.getsize(run.ledger_path) > LONG:
        from faber_ledger.ledger.queries import summary

        with suppress(LedgerError, sqlite3.DatabaseError):
            count = summary(run.ledger_path).events
    if not count:
        yield lambda done: None
        return
    with click.progressbar(
        length=count, label=f"verifying {run.run_id}", file=sys.stderr, update_min_steps=1000
    ) as bar:
        yield bar.update


def _data(finding: Finding) -> dict[str, object]:
    return {**finding._asdict(), "is_note": finding.is_note}


def _lines(run_id: str, items: list[Finding]) -> Iterator[str]:
    if not any(not item.is_note for item in items):
        yield f"{run_id}: sound"
    for item in items:
        kind = "note" if item.is_note else item.kind
        about = f"event {item.event}: " if item.event else ""
        yield f"{run_id}: {kind}: {about}{item.what}"
        yield f"  hint: {item.hint}"
