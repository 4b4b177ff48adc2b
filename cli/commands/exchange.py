"""`faber-ledger export` and `import`: a run's events in a format that other tools read, and back."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import click

from faber_ledger.cli.ui.output import escape_json, json_option, say, show, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.which_run import choose_run, run_argument, run_with_ledger
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.checked import verified_batches
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import check_types
from faber_ledger.ledger.importing import Staged, line_of, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.recording.insertion import open_to_insert, write_blocks
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run, find_root

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.log import Head


@click.command(short_help="Write a run's events as JSON lines.")
@run_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Write to FILE, completely or not at all; `-`, the default, is standard output.",
)
def export(run: str | None, output: str | None) -> None:
    """Write the events of RUN (default: the active run) for other tools, or for `faber-ledger import`.

    \b
    Example: faber-ledger export -o events.jsonl
    Exit codes: 0 done; 1 a file cannot be written; 2 wrong usage;
    10 no such run or ledger; 12 newer format; 20 the ledger is damaged.
    """
    chosen, count = run_with_ledger(run), 0
    with output_file(output) as file, read_log(chosen) as log, progress(chosen, "exporting") as advance:
        check_types(log)
        for rows in verified_batches(log):
            for row in rows:
                file.write(escape_json(line_of(row).decode()).encode())  # it may be printed, and means the same
            count += len(rows)
            advance(len(rows))
    if not count:
        say(f"no events of {chosen.run_id}")
    elif output is not None and output != "-":
        say(f"{output}: {events_shown(count)} of {chosen.run_id}")


@click.command("import", short_help="Import events that `export` wrote.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--run-id", metavar="RUN", help="The run to import into; it is created if it does not exist.")
@click.option("--dry-run", is_flag=True, help="Check everything, and change nothing.")
@json_option
def import_events(file: str, run_id: str | None, dry_run: bool, as_json: bool) -> int:
    """Import the events in FILE (`-` for standard input), which `faber-ledger export` wrote, into their run.

    All of FILE is checked before anything is written. An event that was changed, that no ledger writes, or whose parent
    is missing, is left out, and named on standard error.

    \b
    Example: faber-ledger import events.jsonl --dry-run
    Exit codes: 0 done, nothing is new, or events are left out;
    1 a file cannot be read or written; 2 wrong usage; 10 no such run; 11 locked; 12 newer format;
    20 a line of FILE is not an event, or the ledger is damaged;
    22 an event has different content in the run's log, or FILE is of another run.
    """
    with ExitStack() as stack:
        opened = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        staged = stack.enter_context(closing(Staged(opened)))
        raise_problems(staged.problems, file)
        if not staged.lines:
            raise LedgerError(f"{file} has no events", hint="name a file that `faber-ledger export` wrote")
        run = _target(staged, run_id)
        new = lacks_ledger(run)
        log = None if new else stack.enter_context(read_log(run, warn))
        _check_against(staged, log, run, file)
        count = staged.count_missing_in(log)
        heads = None if log is None else log.heads()
        payloads = [] if log is None else staged.payloads_for(log)
        if log is not None:
            log.close()
        code = 0
        if not dry_run and (count or payloads):
            note_use(run.root, run.run_id, is_taken_up=True)
            count = _insert(staged, run, heads or [], payloads, file)
            code = write_blocks(run, warn=warn, defaults={})
    imported = "would be imported" if dry_run else "imported"
    known = staged.lines - staged.refused - count
    line = f"{run.run_id}: {events_shown(count)} {imported}, {known} of {staged.lines} known already"
    if staged.refused:
        line += f", {staged.refused} left out"
    if payloads:
        line += "; payloads that the log had lost " + ("would be restored" if dry_run else "are restored")
    data = {"run_id": run.run_id, "new": count, "read": staged.lines, "left_out": staged.refused, "dry_run": dry_run}
    for one in staged.left_out:
        warn(f"line {one.line}: {one.what}")
    show(data, [line], as_json=as_json)
    return code


def _insert(staged: Staged, run: Run, heads: list[Head], payloads: list[Row], file: str) -> int:
    """Insert the events that a log lacks, and return how many; `heads` are those of the log that was checked."""
    with open_to_insert(run, warn) as opened:
        if opened.log.heads() != heads:  # another writer was faster
            _check_against(staged, opened.log, run, file)
        count = staged.count_missing_in(opened.log)
        opened.insert_rows(staged.missing_in(opened.log), payloads)
        opened.commit()
    return count


def _target(staged: Staged, run_id: str | None) -> Run:
    """Return the run to import into: the one named, or the one that the events belong to, or the active one."""
    root = find_root(os.getcwd())
    if run_id is None and len(staged.runs) == 1:
        run_id = next(iter(staged.runs))
    return find_run(root, run_id) if run_id is not None else choose_run(root, None)


def _check_against(staged: Staged, log: Log | None, run: Run, file: str) -> None:
    raise_problems(staged.check_at_gate(log), file)
    staged.check_fits(log, run.run_id, file)
