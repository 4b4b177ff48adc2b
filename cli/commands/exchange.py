"""`faber-ledger export` and `import`: a run's events in a format that other tools read, and back."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, closing, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.ui.output import escape_json, json_option, json_text, say, show, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.which_run import choose_run, run_argument, run_with_ledger
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.ledger.command_errors import ServerUnavailable
from faber_ledger.ledger.errors import LedgerError, UnionConflict
from faber_ledger.ledger.gate import lines_left_out
from faber_ledger.ledger.importing import Staged, line_of, raise_problems
from faber_ledger.ledger.union import OTHER_CONTENT, OTHER_RUN, runs_in
from faber_ledger.ledger.verify import verified_rows
from faber_ledger.postgres.address import missing_extra
from faber_ledger.recording.insertion import OTHER_START, insert_passing, write_blocks
from faber_ledger.runs.clone import note_use
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.seen import shape_of
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from types import ModuleType

    from faber_ledger.cli.reports.trace import Trace

LOOK_SECONDS = 0.4  # between two looks at the files


@click.command()
@run_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Write to FILE, completely or not at all; `-`, the default, is standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "otlp"]),
    default="jsonl",
    help="`jsonl`, the default, or one OpenTelemetry trace as OTLP/JSON.",
)
@click.option("--otlp", "endpoint", metavar="ENDPOINT", help="Send the trace to ENDPOINT, as http://HOST:4318.")
@click.option("--follow", is_flag=True, help="With --otlp: go on, and send each span when it has ended.")
@click.option("--texts", is_flag=True, help="With OpenTelemetry: also what notes, summaries and reasons say.")
def export(run: str | None, output: str | None, form: str, endpoint: str | None, follow: bool, texts: bool) -> None:
    """Write the events of RUN (default: the active run) for other tools, or for `faber-ledger import`.

    With --otlp send the spans that have ended to a receiver of OpenTelemetry traces, the run's own span last.

    \b
    Example: faber-ledger export -o events.jsonl
    Exit codes: 0 done, also after Ctrl-C with --follow; 1 a file cannot be written, or the extra is not installed;
    2 wrong usage; 10 no such run or ledger; 12 newer format; 13 the endpoint is not available; 14 it refuses;
    20 the ledger is damaged.
    """
    if follow and endpoint is None:
        raise click.UsageError("--follow needs --otlp ENDPOINT")
    if texts and endpoint is None and form != "otlp":
        raise click.UsageError("--texts needs --otlp ENDPOINT or --format otlp")
    if endpoint is not None and output is not None:
        raise click.UsageError("give --otlp or --output, not both")
    chosen = run_with_ledger(run)
    if endpoint is not None:
        _send(chosen, endpoint, follow=follow, with_texts=texts)
    elif form == "otlp":
        _write_trace(chosen, output, with_texts=texts)
    else:
        _write_lines(chosen, output)


def _write_lines(run: Run, output: str | None) -> None:
    count = 0
    with output_file(output) as file, read_log(run) as log, progress(run, "exporting") as advance:
        for row in verified_rows(log):
            file.write(escape_json(line_of(row).decode()).encode())  # it may be printed, and means the same
            count += 1
            advance(1)
    if not count:
        say(f"no events of {run.run_id}")
    elif output is not None and output != "-":
        say(f"{output}: {events_shown(count)} of {run.run_id}")


def _write_trace(run: Run, output: str | None, *, with_texts: bool) -> None:
    otlp = _load_otlp()
    trace = _read_trace(run, with_texts=with_texts)
    with output_file(output) as file:
        text = json_text(otlp.to_json(trace, otlp.repository_of(run.root)), indent=None)
        file.write(f"{text}\n".encode())
    if output is not None and output != "-":
        say(f"{output}: {plural(len(trace.spans), 'span')} of {run.run_id}")


def _send(run: Run, endpoint: str, *, follow: bool, with_texts: bool) -> None:
    """Send the spans that have ended; with `follow` go on until the run's own was sent, or Ctrl-C."""
    otlp = _load_otlp()
    sender = otlp.Sender(endpoint, otlp.repository_of(run.root))
    sent: set[str] = set()
    left, said = 0, ""
    with suppress(KeyboardInterrupt) if follow else nullcontext():
        while True:
            version = _version_of(run)
            trace = _read_trace(run, with_texts=with_texts)
            left = sum([one.is_open for one in trace.spans])
            ended = [one for one in trace.spans if not one.is_open and one.span_id not in sent]
            try:
                sender.send(trace._replace(spans=ended))
            except ServerUnavailable as error:
                if not sent or not follow:
                    raise
                if error.message != said:
                    warn(f"{error.message}: trying again")
                said = error.message
                time.sleep(LOOK_SECONDS)
                continue
            sent.update([one.span_id for one in ended])
            if ended:
                say(f"{plural(len(ended), 'span')} of {run.run_id} sent")
            if not follow or not left:
                break
            while _version_of(run) == version:
                time.sleep(LOOK_SECONDS)
    if left:
        why = "open, or of a session that may go on until the run is over"
        say(f"{plural(left, 'span')} of {run.run_id} not sent: {why}")


def _read_trace(run: Run, *, with_texts: bool) -> Trace:
    from faber_ledger.cli.reports.trace import build_trace

    state: dict[str, Any] = {}
    with suppress(LedgerError):
        state = read_state(run).value
    with read_log(run) as log:
        return build_trace(run.run_id, log.stream(), state, with_texts=with_texts)


def _load_otlp() -> ModuleType:
    try:
        from faber_ledger.cli.reports import otlp
    except ImportError as error:
        raise missing_extra("an export for OpenTelemetry", "otel") from error
    return otlp


def _version_of(run: Run) -> object:
    return shape_of(run.log_path), shape_of(run.state_path)


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
