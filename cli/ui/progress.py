"""A progress bar on standard error while a long log, or many runs, are read, and who is waited for: on a terminal."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Timer
from typing import TypeVar

import click

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.queries import summarize
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

T = TypeVar("T")
SLOW_SECONDS = 2.0
LONG = 20_000_000  # bytes; reading a larger ledger takes over a second
MANY = 500  # events; to exchange more may take over a second, as over a slow line
EACH_RUN = 300_000  # bytes that are read in the time that a run takes, however small its ledger is


@contextmanager
def waiting_for(name: str) -> Iterator[None]:
    """Say on a terminal who is waited for, if that takes long."""
    timer = Timer(SLOW_SECONDS, click.echo, [f"waiting for {name}"], {"err": True})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def progress(
    run: Run, label: str, *, is_printing: bool = False, is_one_of_many: bool = False
) -> Iterator[Callable[[int], object]]:
    """Show a progress bar while a run's log is read; yield a function that takes the number of events just read.

    With `is_printing`, each event is printed as it is read: on a terminal there is no place for a bar then. Nor is
    there if the run is one of many (`is_one_of_many`), over which `progress_over` shows a bar.
    """
    count = 0
    has_place = sys.stderr.isatty() and not is_one_of_many and not (is_printing and sys.stdout.isatty())
    if has_place and _size_of_work(run) > LONG:
        with suppress(LedgerError, sqlite3.DatabaseError), read_log(run) as log:
            count = summarize(log).events
    if not count:
        yield _show_nothing
        return
    with click.progressbar(length=count, label=f"{label} {run.run_id}", file=sys.stderr, update_min_steps=1000) as bar:
        yield bar.update


@contextmanager
def progress_over(runs: Sequence[Run], label: str) -> Iterator[Callable[[int], object]]:
    """Show a progress bar while several runs are read; yield a function that takes the number of runs just read."""
    if len(runs) < 2 or not sys.stderr.isatty() or sum(map(_size_of_work, runs)) < LONG:
        yield _show_nothing
        return
    with click.progressbar(length=len(runs), label=f"{label} {len(runs)} runs", file=sys.stderr) as bar:
        yield bar.update


@contextmanager
def progress_bars() -> Iterator[Callable[[int, str], Callable[[int], object]]]:
    """Show bars while events are exchanged; yield a function that begins one for a number of events, with its label.

    That returns a function which takes the number of events just done; for few events no bar is shown.
    """
    with ExitStack() as stack:

        def begin(count: int, label: str) -> Callable[[int], object]:
            if count < MANY or not sys.stderr.isatty():
                return _show_nothing
            return stack.enter_context(click.progressbar(length=count, label=label, file=sys.stderr)).update

        yield begin


def _size_of_work(run: Run) -> int:
    """Return the bytes to read: the clone's log, or the published file where that has yet to be absorbed."""
    there = [path for path in (run.log_path, run.ledger_path) if os.path.isfile(path)]
    return EACH_RUN + max(map(os.path.getsize, there), default=0)


def _show_nothing(done: int) -> None:
    """Take what a bar's `update` takes, and show no bar."""


def track_progress(items: Iterable[T], advance: Callable[[int], object]) -> Iterator[T]:
    """Yield the items, and call `advance` after each."""
    for item in items:
        yield item
        advance(1)
