"""`faber-ledger textconv`: a ledger as lines of text, for `git diff` and `git log -p`."""

from __future__ import annotations

import sqlite3

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import tell
from faber_ledger.cli.ui.words import line_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import open_untrusted

MOST = 50_000


@click.command(short_help="Show a ledger file as text; git calls it.")
@click.argument("file", metavar="FILE", shell_complete=completion.files)
def textconv(file: str) -> None:
    """Print the events of the ledger FILE in words, one a line: git calls it to show a ledger's changes.

    \b
    Example: faber-ledger textconv ledger.db
    Exit codes: always 0; if FILE is not a ledger, the reason is printed, and `git diff` continues.
    """
    try:
        with open_untrusted(file) as log:
            for count, recorded in enumerate(log.stream()):
                if count == MOST:
                    tell(f"(the first {MOST} events; `faber-ledger log` shows all)")
                    return
                tell(line_of(recorded))
    except (LedgerError, OSError, sqlite3.Error) as error:
        tell(f"(not shown: {' '.join(str(error).replace(file, 'the file').split())})")
