"""The same events in the `eventsourcing` library, with its SQLite recorder: what a run's log would be there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

from faber_ledger.projections.blocks import empty
from faber_ledger.projections.fold import Projector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = 1000


class Run(Aggregate):
    """A run: its events are folded with the ledger's own fold."""

    def __init__(self) -> None:
        self.projector = Projector(empty())

    class Happened(Aggregate.Event):
        """One event of the run, as the ledger's log gives it."""

        recorded: dict[str, Any]

        def apply(self, aggregate: Any) -> None:
            """Fold it."""
            aggregate.projector.apply(self.recorded)


class Runs(Application):
    """The application that keeps runs."""


def runs_in(path: Path | str) -> Runs:
    """Open, or make, the database at `path`."""
    return Runs(
        env={
            **os.environ,
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": str(path),
            "CREATE_TABLE": "y",
        }
    )


def filled(path: Path | str, events: Iterator[Any]) -> Any:
    """Save events as those of one run in a new database, and give the run's id."""
    runs, run = runs_in(path), Run()
    for number, recorded in enumerate(events, 1):
        run.trigger_event(Run.Happened, recorded=recorded)
        if number % PAGE == 0:
            runs.save(run)
    runs.save(run)
    runs.close()
    return run.id


def replayed(path: Path | str, run_id: Any) -> Any:
    """Fold a run as its repository does: the aggregate, event by event."""
    runs = runs_in(path)
    run: Any = runs.repository.get(run_id)
    runs.close()
    return run.projector.blocks


def notified(path: Path | str) -> Any:
    """Fold a run from the notification log, page by page, as a projection does there."""
    runs, projector, start = runs_in(path), Projector(empty()), 1
    while page := runs.recorder.select_notifications(start, PAGE):
        for notification in page:
            event: Any = runs.mapper.to_domain_event(notification)
            if isinstance(event, Run.Happened):
                projector.apply(event.recorded)
        start = page[-1].id + 1
    runs.close()
    return projector.blocks
