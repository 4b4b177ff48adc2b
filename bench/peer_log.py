"""The same events in the `eventsourcing` library with its SQLite recorder, in the shape that costs it least."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

from faber_ledger.projections.fold import Projector, empty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = 1000


class Run(Aggregate):
    """A run whose events are folded with our own fold."""

    def __init__(self) -> None:
        self.projector = Projector(empty())

    class Happened(Aggregate.Event):
        """One event of the run, as our log returns it."""

        recorded: dict[str, Any]

        def apply(self, aggregate: Any) -> None:
            """Fold the event."""
            aggregate.projector.apply(self.recorded)


class Runs(Application):
    """The application that keeps runs."""


def open_runs(path: Path | str) -> Runs:
    """Open the database at `path`; make it if it is missing."""
    return Runs(
        env={
            **os.environ,
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": str(path),
            "CREATE_TABLE": "y",
        }
    )


def save_events(path: Path | str, events: Iterator[Any]) -> Any:
    """Save events as one run in a new database; return the run's id."""
    runs, run = open_runs(path), Run()
    for number, recorded in enumerate(events, 1):
        run.trigger_event(Run.Happened, recorded=recorded)
        if number % PAGE == 0:
            runs.save(run)
    runs.save(run)
    runs.close()
    return run.id


def fold_aggregate(path: Path | str, run_id: Any) -> Any:
    """Fold a run as the library's repository does: the aggregate, event by event."""
    runs = open_runs(path)
    run: Any = runs.repository.get(run_id)
    runs.close()
    return run.projector.blocks


def fold_notifications(path: Path | str) -> Any:
    """Fold a run as the library's projections do: from the notification log, page by page."""
    runs, projector, start = open_runs(path), Projector(empty()), 1
    while page := runs.recorder.select_notifications(start, PAGE):
        for notification in page:
            event: Any = runs.mapper.to_domain_event(notification)
            if isinstance(event, Run.Happened):
                projector.apply(event.recorded)
        start = page[-1].id + 1
    runs.close()
    return projector.blocks
