"""The shapes of a timeline.

A moment is `(seconds, turn)`: seconds since 1970 by the recording machine's clock, and the number of milestones up to
it, which orders what happened within one second.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias, TypedDict

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.history import SessionSummary

    Moment: TypeAlias = tuple[float, int]

    class Bar(TypedDict):
        """A session in time; `heard` is its last own event's moment, `row` and `end_row` are numbers of events."""

        session: SessionSummary
        machine: str
        start: Moment
        heard: Moment
        end: Moment
        is_open: bool
        row: int | None
        end_row: int | None

    class Span(TypedDict):
        """A stay of an artifact in context."""

        start: Moment
        end: Moment
        source: str
        size_bytes: int | None
        row: int

    class Failure(TypedDict):
        """A load that failed."""

        at: Moment
        error: str
        row: int

    class Lane(TypedDict):
        """An artifact: when it was in context, and when it could not be loaded."""

        artifact_id: str
        spans: list[Span]
        failures: list[Failure]

    class Stretch(TypedDict):
        """The phases between two snapshots of where the run stood; `row` is the first snapshot's event."""

        phases: list[str]
        start: Moment
        end: Moment
        row: int

    class Compaction(TypedDict):
        """A compaction: it emptied the context."""

        at: Moment
        where: str
        row: int

    class Row(TypedDict):
        """An event of the table, with its number in the log."""

        number: int
        recorded: Recorded

    class Timeline(TypedDict):
        """A run up to `last`, a moment after its last event; `events` counts all events, `rows` lists some or all."""

        run_id: str
        workflow_id: str
        work_id: str | None
        first: Moment | None
        last: Moment | None
        bars: list[Bar]
        phases: list[Stretch]
        lanes: list[Lane]
        compactions: list[Compaction]
        pauses: list[tuple[float, float]]
        events: int
        rows: list[Row]
