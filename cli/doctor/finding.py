"""What a check finds, and what `--fix` does about it: the changes that `init` makes, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from faber_ledger.cli.ui.changes import diff_lines, display_path
from faber_ledger.files.change import FileChange, make_changes
from faber_ledger.ledger.errors import LedgerError

Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error")
MOST = 10


class Fix(NamedTuple):
    """A change that fixes findings, and may fix several: what it does, how, and what a dry run shows of it."""

    what: str
    make: Callable[[], object]
    diff: Callable[[], Iterable[str]]


class Finding(NamedTuple):
    """One thing that a check found: somebody has to do something about it, or to decide that nothing is to be done."""

    level: Level
    what: str
    hint: str = ""
    fix: Fix | None = None


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings and a count of the others by level: hundreds of runs may have the same fault."""
    left: dict[Level, int] = {}
    for number, finding in enumerate(findings):
        if number < MOST:
            yield finding
        else:
            left[finding.level] = left.get(finding.level, 0) + 1
    for level, count in left.items():
        yield Finding(level, f"… and {count} more like these", "fix those above, then run `faber-ledger doctor` again")


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level among findings; `ok` for none."""
    return max([finding.level for finding in findings], key=LEVELS.index, default="ok")


def file_fix(root: str, plan: Callable[[], FileChange], what: str) -> Fix:
    """Return a fix that changes one file; `plan` is called again when it is made, as another may come first."""
    return Fix(
        f"{what} in {display_path(plan().path, root)}",
        lambda: make_changes([plan()]),
        lambda: diff_lines([plan()], root),
    )


class FixResult(NamedTuple):
    """A change that was made or failed: what it was, and why it failed."""

    what: str
    problem: str | None


def list_fixes(findings: Iterable[Finding]) -> list[Fix]:
    """Return the changes that fix what was found, each once, in the order of the findings."""
    return list({finding.fix.what: finding.fix for finding in findings if finding.fix is not None}.values())


def make_fix(fix: Fix) -> FixResult:
    """Make a change and return it with its result; one that fails does not stop the others."""
    try:
        fix.make()
    except (LedgerError, OSError) as error:
        return FixResult(fix.what, str(error))
    return FixResult(fix.what, None)
