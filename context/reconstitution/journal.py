"""The findings of a reconstitution, by severity, and how they are worded (RECON, Error Handling)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from faber_ledger.files.text import escape, one_line
from faber_ledger.ledger.command_errors import Aborted, ContextLost

if TYPE_CHECKING:
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Finding

MAX_FINDINGS = 100
MAX_OF_ONE_KIND = 10  # warnings
LONGEST_LIST = 1_000  # units of all values of a list


class Journal:
    """Takes what the steps of a reconstitution report: lines for the log, and findings that are recorded at its end."""

    def __init__(self, log: Callable[[str], None], warn: Warn, choose: Callable[[str, str, list[str]], int]) -> None:
        """Make a journal with callbacks for lines, for warnings, and for the choice after an ERROR.

        `choose` takes the error's code, its text and the options, and returns an option's number; it raises
        ChoiceNeeded if no person can be asked.
        """
        self._log = log
        self._warn = warn
        self._choose = choose
        self.findings: list[Finding] = []
        self._warned = Counter[str]()  # by code

    def log(self, line: str) -> None:
        """Log a line, if it says something."""
        if says_something(line):
            self._log(line)

    def info(self, code: str, line: str) -> None:
        """Log a line, and record it as a finding (RECON: INFO)."""
        self._log(line)
        self._record("INFO", code, line.removeprefix("ℹ").strip())

    def warn(self, code: str, what: str, facts: dict[str, str], note: str) -> None:
        """Warn and go on (RECON: WARNING); after ten warnings of one code, say once that there are more."""
        self._warned[code] += 1
        if self._warned[code] <= MAX_OF_ONE_KIND:
            self._warn("\n".join([f"⚠️ WARNING: {what}", *_fact_lines(facts), f"Note: {note}"]))
            self._record("WARNING", code, _summary(what, facts))
        elif self._warned[code] == MAX_OF_ONE_KIND + 1:
            self._warn(f"⚠️ WARNING: {what}: … and more")
            self._record("WARNING", code, f"{what}: … and more")

    def ask(self, code: str, what: str, facts: dict[str, str], options: list[str]) -> int:
        """Ask how to proceed (RECON: ERROR) and return the option's number; raises Aborted for the last option."""
        lines = [f"⚠️ ERROR: {what}", *_fact_lines(facts), "", "How would you like to proceed?"]
        lines += [f"{number}. {option}" for number, option in enumerate(options, 1)]
        try:
            chosen = self._choose(code, "\n".join(lines), options)
        except BaseException:  # an interrupt too
            self._record("ERROR", code, f"{_summary(what, facts)} (stopped here)")
            raise
        if chosen == len(options):
            self._record("ERROR", code, f"{_summary(what, facts)} (aborted)")
            raise Aborted(f"{what}: the workflow was aborted", block="Workflow aborted.")
        self._record("ERROR", code, f"{_summary(what, facts)} ({options[chosen - 1]})")
        return chosen

    def _record(self, severity: Literal["ERROR", "WARNING", "INFO"], code: str, text: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append({"severity": severity, "code": code, "told": one_line(text)})


def context_lost(error: str, action: str, *, first: str = "") -> ContextLost:
    """Return a CRITICAL error: what is wrong and what to do; `first` is a line that RECON's steps want before it."""
    lines = [first, "❌ CRITICAL: Cannot reconstitute context", f"Error: {error}", f"Action: {action}"]
    return ContextLost(error, hint=action, block="\n".join([escape(line) for line in lines if line]))


def text_or_na(value: object) -> str:
    """Return a value from a file of the repository as one bounded line; "N/A" for an empty one."""
    return one_line("" if value is None else value) or "N/A"


def says_something(line: str) -> bool:
    """Return whether a line of a report is more than a label whose value is not known."""
    return line.partition(":")[2].strip() != "N/A"


def list_in_line(values: Iterable[object]) -> str:
    """Return values from a file of the repository as one bounded line, with commas between them."""
    return one_line(", ".join([text_or_na(value) for value in values]), LONGEST_LIST)


def _fact_lines(facts: dict[str, str]) -> list[str]:
    return [f"{name}: {text_or_na(value)}" for name, value in facts.items()]


def _summary(what: str, facts: dict[str, str]) -> str:
    return "; ".join([what, *_fact_lines(facts)])
