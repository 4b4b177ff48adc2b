"""The table of `docs/guides/TEAM.md`: what was done and found."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from faults.page import write_lines

if TYPE_CHECKING:
    from team.simulate import Outcome

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "TEAM.md"
# Each row: its words, and the counts that it adds up; a name that ends with * stands for all that begin so.
DONE = {
    "steps of all developers": ["steps"],
    "pull requests merged: merge / squash / rebase": ["merged by merge", "merged by squash", "merged by rebase"],
    "deliveries": ["deliveries"],
}
FOUND = {
    "**pull requests with one run each: conflicts at the merge**": ["site: merge in conflict: one run"],
    "**open ones that showed a conflict, of all that were looked at**": ["site: badge in conflict: one run", "badges"],
    "two branches of one run / in conflict on the site": [
        "two branches of one run",
        "two branches of one run: conflicts on the site",
    ],
    "- stopped merges of them in a clone / settled by one `faber-ledger resolve`": [
        "stopped: two branches*",
        "settled: two branches*",
    ],
    "backports of single fixes / stopped / settled by one `faber-ledger resolve`": [
        "backports",
        "stopped: backport",
        "settled: backport",
    ],
    "**deliveries not recorded**": ["difference: not recorded"],
    "**events recorded / lost / recorded twice / on the wrong run**": [
        "events",
        "events lost",
        "recorded twice",
        "difference: wrong run",
    ],
    "**packets / for the wrong run, or missing**": ["packets", "difference: wrong packet", "difference: no packet"],
    "**clones of this version that differed at the end**": ["difference: clones differ"],
    "**`verify --all` at the end: clones / not sound**": ["verified", "not sound"],
    "**hooks that failed / tracebacks**": ["difference: hook failed", "difference: traceback"],
}
OF_REFS = {
    "**ends of clients that were recorded / not at the remote before anybody called `sync`**": [
        "ends of clients",
        "difference: end not at the remote",
    ],
    "**events not at the remote before anybody called `sync`** (recorded since the last one was sent)": [
        "not sent yet"
    ],
    "**files of ours in pull requests**": ["files of ours in pull requests"],
    "**hooks that changed `git status`**": ["difference: status changed"],
    "deliveries on a run that had ended on another machine, which this clone had not fetched yet": ["ended elsewhere"],
}


def lines_of(outcomes: list[Outcome], weeks: float, carry: str = "tree") -> list[str]:
    """Return the page's lines."""
    total = summed([one.counts for one in outcomes])
    wanted = {**DONE, **FOUND} if carry == "tree" else {**DONE, **OF_REFS, **FOUND}
    rows = [f"| {name} | {cell(total, names)} |" for name, names in wanted.items()]
    seeds = ", ".join([str(one.seed) for one in outcomes])
    return ["", f"| {weeks:g} weeks each, seeds {seeds} | |", "|---|--:|", *rows]


def summed(counts: list[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def cell(counts: Counter[str], wanted: list[str]) -> str:
    return " / ".join(f"{sum_of(counts, name):,}" for name in wanted)


def sum_of(counts: Counter[str], name: str) -> int:
    """Return a count, or the sum of those that match."""
    return sum(count for found, count in counts.items() if fnmatchcase(found, name))


def write_page(outcomes: list[Outcome], weeks: float) -> None:
    """Write the table into the guide."""
    write_lines("the team", lines_of(outcomes, weeks), by="make team", page=PAGE)
