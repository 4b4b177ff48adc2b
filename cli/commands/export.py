"""`faber-ledger export`: a run's events in a format that other tools read."""

from __future__ import annotations

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import escape_json, say, warn
from faber_ledger.cli.ui.output_file import output_file
from faber_ledger.cli.ui.progress import progress
from faber_ledger.cli.ui.server import find_runs, server_copy_options
from faber_ledger.cli.ui.which_run import run_with_ledger, runs_to_report
from faber_ledger.cli.ui.words import events_shown, plural
from faber_ledger.ledger.checked import verified_batches
from faber_ledger.ledger.foreign import check_types
from faber_ledger.runs.log import read_log


@click.command(short_help="Write a run's events as JSON lines, CloudEvents or a database.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completion.runs)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completion.files,
    help="Write to FILE, completely or not at all; `-`, the default, is standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "cloudevents"]),
    help="JSON lines with everything, which `import` reads (the default), or CloudEvents 1.0.",
)
@click.option(
    "--sqlite",
    metavar="FILE",
    shell_complete=completion.files,
    help="Write tables for sqlite3 and Datasette, and FILE's metadata beside it.",
)
@click.option("--all", "every", is_flag=True, help="With --sqlite: every run of the project that has a ledger.")
@server_copy_options
def export(
    run: str | None,
    output: str | None,
    form: str | None,
    sqlite: str | None,
    every: bool,
    url: str | None,
    project: str | None,
) -> None:
    """Write the events of RUN (default: the active run) for other tools, or for `faber-ledger import`.

    \b
    Example: faber-ledger export -o events.jsonl
    Exit codes: 0 done; 1 a file cannot be written; 2 wrong usage;
    10 no such run or ledger; 12 newer format; 20 the ledger is damaged.
    """
    if sqlite is not None:
        if output is not None or form is not None:
            raise click.UsageError("give --sqlite FILE, or -o and --format")
        if sqlite == "-":
            raise click.UsageError("a database cannot go to standard output: name a file")
        from faber_ledger.cli.reports.sqlite import metadata_path, write_database  # here: `--help` loads every command

        root, (run,), _ = find_runs(url, project, [run], every=every)
        events, runs = write_database(runs_to_report(run, every=every, root=root), sqlite, warn)
        counts = f"{events_shown(events)} of {plural(runs, 'run')}"
        say(f"{sqlite}: {counts}; {metadata_path(sqlite)} describes its tables")
        return
    if every:
        raise click.UsageError("--all needs --sqlite: a file of events is of one run")
    from faber_ledger.ledger.exchange import cloud_event_line, line_of

    root, (run,), _ = find_runs(url, project, [run])
    chosen, count = run_with_ledger(run, root=root), 0
    with output_file(output) as file, read_log(chosen) as log, progress(chosen, "exporting") as advance:
        check_types(log)
        for rows in verified_batches(log):
            for row in rows:
                line = line_of(row) if form != "cloudevents" else cloud_event_line(row, chosen.run_id)
                file.write(escape_json(line.decode()).encode())  # it may be printed, and means the same
            count += len(rows)
            advance(len(rows))
    if not count:
        say(f"no events of {chosen.run_id}")
    elif output is not None and output != "-":
        say(f"{output}: {events_shown(count)} of {chosen.run_id}")
