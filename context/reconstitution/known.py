"""What the ledger knows of a run beside FABER's own files: sessions, notes, and what compactions came to."""

from __future__ import annotations

import os
from itertools import islice

from faber_ledger.context.notes import describe_break, notes_of, summaries_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.summary import count_events
from faber_ledger.projections.fold import fold
from faber_ledger.projections.history import summarize_sessions
from faber_ledger.runs.log import read_log
from faber_ledger.runs.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.notes import Note
    from faber_ledger.projections.history import SessionSummary
    from faber_ledger.runs.run import Run

    class Compacted(TypedDict):
        """The summary that a compaction came to; `at` is ISO 8601 in UTC, `event_id` can be given to `show`."""

        event_id: str
        at: str
        text: str
        phase: str | None
        step: str | None

    class Known(TypedDict):
        """What a ledger has: how many events, all sessions, oldest first, the newest notes and summaries, newest first.

        `others` is how many older notes are left out, `before` has sentences about the session
        before and about other clones.
        """

        events: int
        sessions: list[SessionSummary]
        notes: list[Note]
        others: int
        summaries: list[Compacted]
        before: list[str]


NEWEST_SUMMARIES = 5


def read_known(run: Run, elsewhere: Elsewhere | None, client: str | None, warn: Callable[[str], None]) -> Known:
    """Return what a run's ledger knows; next to nothing if there is none, or it cannot be read.

    `elsewhere` has asked git about other clones for this client. `warn` is called with what was set aside.
    """
    try:
        with read_log(run, warn) as log:
            notes, others = notes_of(log)
            broken = describe_break(log, client)
            keeper = None if Settings(run, os.environ).summaries else run
            return {
                "events": count_events(log),
                "sessions": list(summarize_sessions(fold(log.stream()))),
                "notes": notes,
                "others": others,
                "summaries": [
                    {
                        "event_id": recorded["id"],
                        "at": recorded["at"],
                        "text": summary["text"],
                        "phase": summary["phase"],
                        "step": summary["step"],
                    }
                    for recorded, summary in islice(summaries_of(log, keeper), NEWEST_SUMMARIES)
                ],
                "before": [*([broken] if broken else []), *(elsewhere.describe(log, client) if elsewhere else [])],
            }
    except (LedgerError, sqlite3.DatabaseError, OSError):
        there = elsewhere.describe(None, client) if elsewhere else []
        return {"events": 0, "sessions": [], "notes": [], "others": 0, "summaries": [], "before": there}
