"""A progress bar on standard error while a long log is read, only on a terminal."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.runs.run import Run


LONG = 20_000_000  # bytes; reading a larger ledger takes over a second


@contextmanager
def progress(run: Run, label: str, *, is_printing: bool = False) -> Iterator[Callable[[int], object]]:
    """Show a progress bar while a run's log is read; yield a function that takes the number of events just read.

    With `is_printing`, each event is printed as it is read: on a terminal there is no place for a bar then.
    """
    count = 0
    if sys.stderr.isatty() and not (is_printing and sys.stdout.isatty()) and os.path.getsize(run.ledger_path) > LONG:
        with suppress(LedgerError, sqlite3.DatabaseError):
            count = summarize(run.ledger_path).events
    if not count:
        yield lambda done: None
        return
    with click.progressbar(length=count, label=f"{label} {run.run_id}", file=sys.stderr, update_min_steps=1000) as bar:
        yield bar.update


def track_progress(events: Iterable[Recorded], advance: Callable[[int], object]) -> Iterator[Recorded]:
    """Yield the events, and call `advance` after each."""
    for recorded in events:
        yield recorded
        advance(1)
