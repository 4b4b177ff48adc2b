"""A progress bar on standard error while a long log, or many runs, are read, and who is waited for: on a terminal."""

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Timer
from typing import TypeVar

import click

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run

T = TypeVar("T")
SLOW_SECONDS = 2.0
LONG = 20_000  # events; reading a longer log takes over a second
MANY = 500  # events; to exchange more may take over a second, as over a slow line
MANY_RUNS = 60  # reading more takes over a second, however short their logs are


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
def progress_bar(count: int, label: str) -> Iterator[Callable[[int], object]]:
    """Show a progress bar up to a count, on a terminal; yield a function that takes how many are done now.

    No bar is shown for a count of 0.
    """
    if not count or not sys.stderr.isatty():
        yield lambda done: None
        return
    steps = max(1, count // 200)
    with click.progressbar(length=count, label=label, file=sys.stderr, update_min_steps=steps) as bar:
        yield bar.update


def progress(run: Run, label: str, *, has_place: bool = True) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar while a run's log is read, if it is long and there is a place for a bar."""
    count = 0
    if has_place and sys.stderr.isatty():
        with suppress(LedgerError, sqlite3.DatabaseError), read_log(run) as log:
            count = log.count_events()
    return progress_bar(count if count > LONG else 0, f"{label} {run.run_id}")


def progress_over(runs: Sequence[Run], label: str) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar while many runs are read."""
    return progress_bar(len(runs) if len(runs) > MANY_RUNS else 0, f"{label} {len(runs)} runs")


@contextmanager
def progress_bars() -> Iterator[Callable[[int, str], Callable[[int], object]]]:
    """Show bars while events are exchanged; yield a function that begins one for a number of events, with its label."""
    with ExitStack() as stack:
        yield lambda count, label: stack.enter_context(progress_bar(count if count > MANY else 0, label))


def track_progress(items: Iterable[T], advance: Callable[[int], object]) -> Iterator[T]:
    """Yield the items, and call `advance` after each."""
    for item in items:
        yield item
        advance(1)
