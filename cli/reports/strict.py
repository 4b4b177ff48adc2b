"""`replay --strict`: every event held against the strict model of its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faber_ledger.cli.reports.replay import Past
from faber_ledger.cli.ui.progress import counted, progress
from faber_ledger.cli.ui.words import line_of
from faber_ledger.ledger.checked import checked
from faber_ledger.ledger.log import Log
from faber_ledger.schemas.strict import problems_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.reports.replay import Wish
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.runs.run import Run


class Strict:
    """One reading of a log: how many events fit their models, do not, are of no known shape, or are redacted."""

    def __init__(self, run: Run, wish: Wish) -> None:
        self.run = run
        self.wish = wish
        self.fitting = self.misfits = self.unknown = self.redacted = 0

    def lines(self) -> Iterator[str]:
        """Name each event that does not fit, and count the others."""
        for recorded, problems in self._found():
            yield line_of(recorded)
            for problem in problems:
                yield f"         {problem}"
        told = f"{self.fitting} fit their model, {self.misfits} do not, {self.unknown} are of a shape not known here"
        yield told + (f", {self.redacted} have nothing left to check: redacted" if self.redacted else "")
        if self.misfits:
            yield f"hint: run `faber-ledger verify {self.run.run_id}`: it says whether they were changed afterwards"

    def data(self) -> dict[str, Any]:
        """Give the same as data."""
        named = [{**recorded, "problems": problems} for recorded, problems in self._found()]
        return {"fitting": self.fitting, "unknown": self.unknown, "redacted": self.redacted, "misfits": named}

    def _found(self) -> Iterator[tuple[Recorded, list[str]]]:
        past = Past(self.wish.end)
        with Log.read(self.run.ledger_path) as log, progress(self.run, "checking") as advance:
            for recorded in counted(checked(log), advance):
                if not past.has(recorded):
                    if past.is_over:
                        return
                elif self.wish.has(recorded):
                    yield from self._held(recorded)

    def _held(self, recorded: Recorded) -> Iterator[tuple[Recorded, list[str]]]:
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
