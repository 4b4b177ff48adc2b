"""`faber-ledger export` and `import`: a run's events in a format that other tools read, and back."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing

import click

from faber_ledger.cli.ui.output import escape_json, json_option, say, show, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.which_run import choose_run, run_argument, run_with_ledger
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.errors import LedgerError, UnionConflict
from faber_ledger.ledger.gate import lines_left_out
from faber_ledger.ledger.importing import Staged, line_of, raise_problems
from faber_ledger.ledger.union import OTHER_CONTENT, OTHER_RUN, runs_in
from faber_ledger.ledger.verify import verified_rows
from faber_ledger.recording.insertion import OTHER_START, insert_passing, write_blocks
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run, find_root


@click.command()
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
        for row in verified_rows(log):
            file.write(escape_json(line_of(row).decode()).encode())  # it may be printed, and means the same
            count += 1
            advance(1)
    if not count:
        say(f"no events of {chosen.run_id}")
    elif output is not None and output != "-":
        say(f"{output}: {events_shown(count)} of {chosen.run_id}")


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--run-id", metavar="RUN", help="The run to import into, for events whose first one is not in FILE.")
@click.option("--dry-run", is_flag=True, help="Check everything, and change nothing.")
@json_option
def import_events(file: str, run_id: str | None, dry_run: bool, as_json: bool) -> int:
    """Import the events in FILE (`-` for standard input), which `faber-ledger export` wrote, into their run.

    All lines are read before anything is written. An event that was changed, that no ledger writes, that the run's log
    has with other content, or whose parent is missing, is left out, and named on standard error.

    \b
    Example: faber-ledger import events.jsonl --dry-run
    Exit codes: 0 done, nothing is new, or events are left out;
    1 a file cannot be read or written; 2 wrong usage; 10 no such run; 11 locked; 12 newer format;
    20 a line of FILE is not an event, or the ledger is damaged;
    22 an event has different content in the run's log, or is of another run.
    """
    with ExitStack() as stack:
        opened = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        staged = stack.enter_context(closing(Staged(opened)))
        raise_problems(staged.problems, file)
        if not staged.lines:
            raise LedgerError(f"{file} has no events", hint="name a file that `faber-ledger export` wrote")
        run = _target(runs_in(staged.log), run_id)
        found = insert_passing(run, staged.log, (), warn, dry_run=dry_run)
        count = staged.lines
    code = 0
    if not dry_run and (found.added or found.restored):
        note_use(run.root, run.run_id, is_taken_up=True)
        code = write_blocks(run, warn=warn, defaults={})
    imported, refused = "would be imported" if dry_run else "imported", len(found.refused)
    known = max(count - refused - found.added, 0)
    line = f"{run.run_id}: {events_shown(found.added)} {imported}, {known} of {count} known already"
    line += f", {refused} left out" if refused else ""
    line += "; payloads that the log had lost are restored" if found.restored else ""
    for left_out in lines_left_out(found.refused, found.dropped):
        warn(left_out)
    data = {"run_id": run.run_id, "new": found.added, "read": count, "left_out": refused, "dry_run": dry_run}
    show(data, [line], as_json=as_json)
    is_of_another = {OTHER_CONTENT, OTHER_RUN, OTHER_START} & {one.why for one in found.refused}
    return UnionConflict.exit_code if is_of_another else code


def _target(named: set[str], run_id: str | None) -> Run:
    """Return the run to import into: the one that the option names, or the events do, or the active one."""
    root = find_root(os.getcwd())
    if run_id is None and len(named) == 1:
        (run_id,) = named
    return find_run(root, run_id) if run_id is not None else choose_run(root, None)
