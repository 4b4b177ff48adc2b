"""`make faults`: break every call of every story in every way, and write what came of it into docs/RELIABILITY.md."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from faults.calls import ERRORS, KILL, Call
from faults.page import put
from faults.stories import STORIES, Outcome, Story, calls_in, outcome_of, template

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = {"in the log": "log", "in the spool": "spool", "absent": "absent", "refused, and the hook says so": "told"}
FAULTS = (KILL, *ERRORS)


def matrix(story: Story) -> Iterator[str]:
    """Give the page's lines about a story; raises SystemExit where a promise was broken."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        calls = calls_in(story, Path(folder) / "calls")
        found = _broken(story, calls, Path(folder))
    problems = [f"{story.name}: {key}: {outcome.problems}" for key, outcome in found if outcome.problems]
    if problems:
        sys.exit("\n".join(problems))
    yield from ("", f"### {story.told[0].upper()}{story.told[1:]}", "")
    yield f"| call | times | {' | '.join(FAULTS)} |"
    yield "|---" * (2 + len(FAULTS)) + "|"
    for name in dict.fromkeys(map(str, calls)):
        columns = [
            _cell([outcome for (call, fault), outcome in found if (str(call), fault) == (name, one)]) for one in FAULTS
        ]
        yield f"| `{name}` | {sum(str(call) == name for call in calls)} | {' | '.join(columns)} |"
    yield from ("", f"{len(found):,} faults, promises broken: 0.")


def _broken(story: Story, calls: list[Call], folder: Path) -> list[tuple[tuple[Call, str], Outcome]]:
    """Kill at every call; let fail the first of those that do the same to the same file."""
    made = template(story, folder / "made")
    first = {str(call): call for call in reversed(calls)}.values()
    cells = [(call, fault) for call in calls for fault in FAULTS if fault == KILL or call in first]
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        work = [pool.submit(outcome_of, story, made, *cell, folder / str(n)) for n, cell in enumerate(cells)]
        return [(cell, done.result()) for cell, done in zip(cells, work, strict=True)]


def _cell(outcomes: list[Outcome]) -> str:
    return " or ".join(dict.fromkeys(f"{SHORT[outcome.delivery]}, {outcome.state}" for outcome in outcomes))


if __name__ == "__main__":
    for one in STORIES.values():
        put(f"the matrix: {one.told}", list(matrix(one)))
