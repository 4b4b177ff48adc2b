"""`faber-ledger union`: unite several ledgers of one run."""

from __future__ import annotations

import os
from contextlib import ExitStack

import click

from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import check_file
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.union import hash_in, write_union


@click.command(short_help="Unite ledgers into one file with all their events.")
@click.argument("ledgers", nargs=-1, required=True, metavar="A B ...", type=click.Path())
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="OUT",
    type=click.Path(),
    help="The file to write; it may be one of the ledgers.",
)
@json_option
def union(ledgers: tuple[str, ...], out: str, as_json: bool) -> None:
    """Unite the ledgers A, B and so on into one with all their events, in the same order as in every clone.

    An event that no ledger can have written is left out, and named on standard error.

    \b
    Example: faber-ledger union mine/ledger.db theirs/ledger.db -o ledger.db
    Exit codes: 0 done; 1 a file cannot be read or written; 2 wrong usage;
    12 newer format; 20 one is damaged, or OUT is not a ledger; 22 one event id has two contents,
    or the ledgers share no first event: they are of two runs.
    """
    if out == "-":
        raise click.UsageError("a ledger cannot go to standard output: name a file")
    check_file(out)  # another kind of file is not overwritten
    for path in (*ledgers, out):
        _check_at_rest(path)
    _check_keeps_all(ledgers, out)
    before = os.umask(0o077)  # nobody else reads a new file, nor one that is being written
    try:
        united = write_union(ledgers, out)
    finally:
        os.umask(before)
    for line in united.lines_left_out():
        warn(line)
    show(
        {"out": out, "united": list(ledgers), "events": united.count},
        [f"{out}: {events_shown(united.count)}, united from {len(ledgers)} ledgers"],
        as_json=as_json,
    )


def _check_keeps_all(ledgers: tuple[str, ...], out: str) -> None:
    """Raise LedgerError if the file to write has events that none of the ledgers has."""
    if not check_file(out) or any([os.path.exists(path) and os.path.samefile(path, out) for path in ledgers]):
        return
    with ExitStack() as opened_logs:
        there = opened_logs.enter_context(open_untrusted(out))
        logs = [opened_logs.enter_context(open_untrusted(path)) for path in ledgers]
        names = there.connection.execute("SELECT id FROM event")
        lost = sum([all([hash_in(log, name) is None for log in logs]) for (name,) in names])
    if lost:
        raise LedgerError(
            f"{out} exists and has {events_shown(lost)} that none of these ledgers has",
            hint=f"name {out} among the ledgers too, or another file after -o",
        )


def _check_at_rest(path: str) -> None:
    if os.path.exists(path + JOURNAL_ENDING):
        raise LedgerError(
            f"there is a journal beside {path}: a writer is using it, or was killed",
            hint="run `faber-ledger project RUN` in its project, which rolls the journal back, then run this again",
        )
