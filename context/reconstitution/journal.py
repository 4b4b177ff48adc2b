"""What a reconstitution runs into, by severity, and the words for it (RECON, Error Handling)."""

from __future__ import annotations

from faber_ledger.files.text import one_line
from faber_ledger.ledger.errors import Aborted, ContextLost, LedgerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from faber_ledger.ledger.events import Finding


MOST = 100
MOST_OF_KIND = 10


class Journal:
    """What the steps of a reconstitution tell: lines for the log, and findings that are recorded at its end."""

    def __init__(
        self,
        log: Callable[[str], None],
        warn: Callable[[str], None],
        choose: Callable[[str, str, list[str]], int],
    ) -> None:
        """Take where lines and warnings go, and who chooses after an ERROR.

        `choose` takes the error's code, its text and the options, and gives the number of one; it raises ChoiceNeeded
        where nobody can be asked.
        """
        self._log = log
        self._warn = warn
        self._choose = choose
        self.findings: list[Finding] = []
        self._warned: dict[str, tuple[str, int]] = {}  # what was warned of, by code, and how often

    def log(self, line: str) -> None:
        """Tell a line."""
        self._log(line)

    def info(self, code: str, line: str) -> None:
        """Tell a line that is worth recording (RECON: INFO)."""
        self._log(line)
        self._note("INFO", code, line.removeprefix("ℹ").strip())

    def warn(self, code: str, what: str, facts: dict[str, str], note: str) -> None:
        """Warn and go on (RECON: WARNING); of one kind the first ten are told, and `finish` counts the others."""
        count = self._warned.get(code, ("", 0))[1] + 1
        self._warned[code] = (what, count)
        if count > MOST_OF_KIND:
            return
        lines = [f"⚠️ WARNING: {what}", *_told(facts), f"Note: {note}"]
        self._warn("\n".join(lines))
        self._note("WARNING", code, _summary(what, facts))

    def ask(self, code: str, what: str, facts: dict[str, str], options: list[str]) -> int:
        """Ask how to proceed (RECON: ERROR) and give the option's number; the last one aborts. Raises Aborted."""
        lines = [f"⚠️ ERROR: {what}", *_told(facts), "", "How would you like to proceed?"]
        lines += [f"{number}. {option}" for number, option in enumerate(options, 1)]
        try:
            chosen = self._choose(code, "\n".join(lines), options)
        except LedgerError:
            self._note("ERROR", code, f"{_summary(what, facts)} (stopped here)")
            raise
        if chosen == len(options):
            self._note("ERROR", code, f"{_summary(what, facts)} (aborted)")
            raise Aborted(f"{what}: the workflow was aborted", block="Workflow aborted.")
        self._note("ERROR", code, f"{_summary(what, facts)} ({options[chosen - 1]})")
        return chosen

    def finish(self) -> None:
        """Count the warnings that were too many of their kind to be told."""
        for code, (what, count) in self._warned.items():
            if count > MOST_OF_KIND:
                more = f"{what}: … and {count - MOST_OF_KIND} more"
                self._warn(f"⚠️ WARNING: {more}")
                self._note("WARNING", code, more)
        self._warned = {}

    def _note(self, severity: Literal["ERROR", "WARNING", "INFO"], code: str, told: str) -> None:
        if len(self.findings) < MOST:
            self.findings.append({"severity": severity, "code": code, "told": one_line(told)})


def context_lost(error: str, action: str, *, first: str = "") -> ContextLost:
    """Word a CRITICAL error: what is wrong and what to do; `first` is a line that RECON's steps want before it."""
    lines = [first, "❌ CRITICAL: Cannot reconstitute context", f"Error: {error}", f"Action: {action}"]
    return ContextLost(error, hint=action, block="\n".join([line for line in lines if line]))


def text_or_na(value: object) -> str:
    """Return a value from a file of the repository as one bounded line; "N/A" for an empty one."""
    return one_line("" if value is None else value) or "N/A"


def _told(facts: dict[str, str]) -> list[str]:
    return [f"{name}: {text_or_na(value)}" for name, value in facts.items()]


def _summary(what: str, facts: dict[str, str]) -> str:
    return "; ".join([what, *_told(facts)])
