"""A bar on standard error while a long log is read, on a terminal only."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.runs.run import Run


LONG = 20_000_000  # bytes of a ledger from which on reading all of it takes over a second


@contextmanager
def progress(run: Run, label: str, *, is_told: bool = False) -> Iterator[Callable[[int], object]]:
    """Show a bar while a run's log is read; gives what takes the number of events read since it was last called.

    With `is_told` each event is printed as it is read: where that goes to a terminal, there is no place for a bar.
    """
    count = 0
    if sys.stderr.isatty() and not (is_told and sys.stdout.isatty()) and os.path.getsize(run.ledger_path) > LONG:
        from faber_ledger.ledger.queries import summarize

        with suppress(LedgerError, sqlite3.DatabaseError):
            count = summarize(run.ledger_path).events
    if not count:
        yield lambda done: None
        return
    with click.progressbar(length=count, label=f"{label} {run.run_id}", file=sys.stderr, update_min_steps=1000) as bar:
        yield bar.update


def counted(events: Iterable[Recorded], advance: Callable[[int], object]) -> Iterator[Recorded]:
    """Give events, and tell of each."""
    for recorded in events:
        yield recorded
        advance(1)
