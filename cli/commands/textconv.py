"""`faber-ledger textconv`: a ledger as lines of text, for `git diff` and `git log -p`.

`cli/entry.py` answers git's own calls, without click; whatever else is called comes here.
"""

from __future__ import annotations

import click

from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.event_words import print_ledger


@click.command(short_help="Show a ledger file as text; git calls it.")
@click.argument("file", metavar="FILE", shell_complete=completion.files)
def textconv(file: str) -> None:
    """Print the events of the ledger FILE in words, one a line: git calls it to show a ledger's changes.

    \b
    Example: faber-ledger textconv ledger.db
    Exit codes: always 0; if FILE is not a ledger, the reason is printed, and `git diff` continues.
    """
    print_ledger(file)
