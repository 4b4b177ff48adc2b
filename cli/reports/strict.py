"""`replay --strict`: check every event against the strict model of its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faber_ledger.cli.reports.replay import EventFilter, PastEvents
from faber_ledger.cli.ui.event_words import line_of
from faber_ledger.cli.ui.progress import progress, track_progress
from faber_ledger.ledger.checked import read_verified
from faber_ledger.ledger.events import Recorded
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.schemas.events import problems_in


class Strict:
    """One reading of a log: counts events that fit their model, do not fit, have an unknown shape, or are redacted."""

    def __init__(self, run: Run, chosen: EventFilter) -> None:
        self.run = run
        self.chosen = chosen
        self.fitting = self.misfits = self.unknown = self.redacted = 0

    def lines(self) -> Iterator[str]:
        """Yield each event that does not fit its model, and then the counts."""
        for recorded, problems in self._check_events():
            yield line_of(recorded)
            for problem in problems:
                yield f"         {problem}"
        counts = f"{self.fitting} fit their model, {self.misfits} do not, {self.unknown} have a shape unknown here"
        yield counts + (f", {self.redacted} are redacted and cannot be checked" if self.redacted else "")
        if self.misfits:
            yield f"hint: run `faber-ledger verify {self.run.run_id}`: it says whether they were changed afterwards"

    def data(self) -> dict[str, Any]:
        """Return the same as data."""
        named = [{**recorded, "problems": problems} for recorded, problems in self._check_events()]
        return {"fitting": self.fitting, "unknown": self.unknown, "redacted": self.redacted, "misfits": named}

    def _check_events(self) -> Iterator[tuple[Recorded, list[str]]]:
        past = PastEvents(self.chosen.end)
        with read_log(self.run) as log, progress(self.run, "checking") as advance:
            for recorded in track_progress(read_verified(log), advance):
                if not past.has(recorded):
                    if past.is_over:
                        return
                elif self.chosen.has(recorded):
                    yield from self._check(recorded)

    def _check(self, recorded: Recorded) -> Iterator[tuple[Recorded, list[str]]]:
        problems = problems_in(recorded)
        if problems:
            self.misfits += 1
            yield recorded, problems
        elif problems is not None:
            self.fitting += 1
        elif "redacted" in recorded:
            self.redacted += 1
        else:
            self.unknown += 1
