"""A ledger as lines of text, as git shows it: the standard library's cheap part, loaded without click."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.files.text import escape
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.foreign import open_untrusted

MOST = 50_000


def print_ledger(path: str) -> None:
    """Print a ledger on standard output, for git; raises OSError if that cannot be written."""
    if sys.stdout is None:
        return  # it is closed, and no one is listening
    for line in ledger_lines(path):
        sys.stdout.write(f"{escape(line)}\n")
    sys.stdout.flush()


def ledger_lines(path: str) -> Iterator[str]:
    """Return the events of a ledger as lines; the last line says why, if it is not shown or not all of it."""
    try:
        with open_untrusted(path) as log:
            for count, recorded in enumerate(log.stream()):
                if count == MOST:
                    yield f"(the first {MOST} events; `faber-ledger log` shows all)"
                    return
                yield line_of(recorded)
    except (LedgerError, OSError, sqlite3.Error) as error:
        yield f"(not shown: {' '.join(str(error).replace(path, 'the file').split())})"
