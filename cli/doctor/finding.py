"""What a check finds: how bad it is, what was found, what to run, and how `--fix` fixes it, if it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.cli.ui.changes import diff_lines, display_path
from faber_ledger.files.change import FileChange, make_changes

Warn = Callable[[str], None]
Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error")
MOST = 10


class Fix(NamedTuple):
    """A change that fixes findings: its name (one change may fix several), what it does and how.

    `touches` are the files that are copied before; `diff` returns what a dry run shows.
    """

    name: str
    what: str
    touches: tuple[str, ...]
    make: Callable[[Warn], object]
    diff: Callable[[], Iterable[str]] = tuple


class Finding(NamedTuple):
    """One thing that a check found: somebody has to do something about it, or to decide that nothing is to be done."""

    level: Level
    what: str
    hint: str = ""
    fix: Fix | None = None


class Check(NamedTuple):
    """A check: its name, `theme.subject`, and the function that returns its findings, with their fixes."""

    name: str
    find: Callable[[Patient], Iterable[Finding]]


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings and a count of the others by level: hundreds of runs may have the same fault.

    A finding that `--fix` can fix is always returned.
    """
    left: dict[Level, int] = {}
    for number, finding in enumerate(findings):
        if number < MOST or finding.fix is not None:
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
    change = plan()
    return Fix(
        f"file {change.path}",
        f"{what} in {display_path(change.path, root)}",
        (change.path,),
        lambda _: make_changes([plan()]),
        lambda: diff_lines([plan()], root),
    )
