"""`faber-ledger merge-driver` and `textconv`: git calls them to merge a run's files, and to show a ledger as text.

`cli/entry.py` answers git's own calls of `textconv`, without click; whatever else is called comes here.
"""

import os
import sqlite3

import click

from faber_ledger.cli.ui.event_words import print_ledger
from faber_ledger.cli.ui.output import say
from faber_ledger.files.change import read_file
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.recording.merged_blocks import fold_merged
from faber_ledger.runs.run import LEDGER, STATE, kind_of
from faber_ledger.runs.state_merge import OURS, THEIRS, merge_ledgers, merge_states, overwrite


@click.command("merge-driver")
@click.argument("base", metavar="%O")
@click.argument("ours", metavar="%A")
@click.argument("theirs", metavar="%B")
@click.argument("path", metavar="%P")
def merge_driver(base: str, ours: str, theirs: str, path: str) -> int:
    """Merge two versions of the file at path %P into %A: git calls it, as `faber-ledger init` sets it up.

    \b
    A ledger becomes the union of both; a state.json is merged key by key, as `resolve` does.
    Example: git config --local merge.faber-ledger.driver 'faber-ledger merge-driver %O %A %B -- %P'
    Exit codes: 0 merged; 1 a ledger of a newer format or of another run: a conflict is left, with
    our version in %A; 2 wrong usage.
    """
    kind, _ = kind_of(os.path.basename(path)) or ("", "")
    try:
        if kind == LEDGER:
            lines = _merge_ledgers(ours, theirs)
        elif kind == STATE:
            lines = _merge_states(base, ours, theirs, path)
        else:
            raise LedgerError("faber-ledger does not merge this file")
    except (LedgerError, OSError, sqlite3.Error) as error:
        first, *more = (*error.lines, error.hint) if isinstance(error, LedgerError) else (str(error),)
        for line in (f"{first}; our version and the conflict stay", *filter(None, more)):
            say(f"faber-ledger: {path}: {line}")
        return 1
    for line in lines:
        say(f"faber-ledger: {path}: {line}")
    return 0


def _merge_ledgers(ours: str, theirs: str) -> list[str]:
    try:
        return merge_ledgers({OURS: ours, THEIRS: theirs}, ours)[1]
    except IntegrityError as error:
        return [f"{error.message}; {OURS} is used"]


def _merge_states(base: str, ours: str, theirs: str, path: str) -> list[str]:
    before, mine, other = (read_file(side) or b"" for side in (base, ours, theirs))
    merged = merge_states(before, mine, other, fold_merged(os.getcwd(), path, mine, other))
    overwrite(ours, merged.content)
    return merged.lines()


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())
def textconv(file: str) -> None:
    """Print the events of the ledger FILE in words, one a line: git calls it to show a ledger's changes.

    \b
    Example: faber-ledger textconv ledger.db
    Exit codes: always 0; if FILE is not a ledger, the reason is printed, and `git diff` continues.
    """
    print_ledger(file)
