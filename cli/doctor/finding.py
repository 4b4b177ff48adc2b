"""What a check finds, and how bad it is."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Level = Literal["ok", "note", "warning", "error"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error")
MOST = 10


class Finding(NamedTuple):
    """One thing that a check found: somebody has to do something about it, or to decide that nothing is to be done."""

    level: Level
    what: str
    hint: str = ""


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the first findings and a count of the others: hundreds of runs may have the same fault."""
    every = list(findings)
    yield from every[:MOST]
    if left := every[MOST:]:
        what = f"… and {len(left)} more like these"
        yield Finding(worst(left), what, "fix those above, then run `faber-ledger doctor` again")


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level among findings; `ok` for none."""
    return max([finding.level for finding in findings], key=LEVELS.index, default="ok")
