"""`make faults`: break every call of every story in every way, and write the outcomes into RELIABILITY.md."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from faults import commands, stories
from faults.calls import ERRORS, KILL, Call
from faults.commands import COMMANDS, Command
from faults.page import write_lines
from faults.stories import STORIES, Outcome, Story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

SHORT = {"in the log": "log", "in the inbox": "inbox", "absent": "absent", "done": "done"}
SHORT |= {"refused, and it says so": "reported"}
FAULTS = (KILL, *ERRORS)


def matrix(stage: ModuleType, story: Story | Command) -> Iterator[str]:
    """Return the page's lines about a story of `stories` or `commands`; raises SystemExit if a promise was broken."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        calls = stage.calls_in(story, Path(folder) / "calls")
        found = _break_all(stage, story, calls, Path(folder))
    problems = [f"{story.name}: {key}: {outcome.problems}" for key, outcome in found if outcome.problems]
    if problems:
        sys.exit("\n".join(problems))
    yield from ("", f"### {story.title[0].upper()}{story.title[1:]}", "")
    yield "| file | calls | killed | refused |"
    yield "|---|---|---|---|"
    for file in dict.fromkeys(call.file for call in calls):
        counts = Counter(call.name for call in calls if call.file == file)
        names = [f"{name} × {count}" if count > 1 else name for name, count in counts.items()]
        killed = [outcome for (call, fault), outcome in found if call.file == file and fault == KILL]
        refused = [outcome for (call, fault), outcome in found if call.file == file and fault != KILL]
        yield f"| `{file}` | {', '.join(names)} | {_cell(killed)} | {_cell(refused)} |"
    yield from ("", f"{len(found):,} faults, promises broken: 0.")


def _break_all(
    stage: ModuleType, story: Story | Command, calls: list[Call], folder: Path
) -> list[tuple[tuple[Call, str], Outcome]]:
    """Kill at every call; make the first call of each name on each file fail."""
    made = stage.template(story, folder / "made")
    first = {str(call): call for call in reversed(calls)}.values()
    cells = [(call, fault) for call in calls for fault in FAULTS if fault == KILL or call in first]
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        work = [
            pool.submit(stage.outcome_of, story, made, call, fault, folder / str(n))
            for n, (call, fault) in enumerate(cells)
        ]
        return [(cell, done.result()) for cell, done in zip(cells, work, strict=True)]


def _cell(outcomes: list[Outcome]) -> str:
    return " or ".join(dict.fromkeys(f"{SHORT[outcome.delivery]}, {outcome.state}" for outcome in outcomes))


if __name__ == "__main__":
    of_hooks: list[tuple[ModuleType, Story | Command]] = [(stories, one) for one in STORIES.values()]
    for stage, one in of_hooks + [(commands, one) for one in COMMANDS.values()]:
        if one.name in (sys.argv[1:] or [one.name]):
            write_lines(f"the matrix: {one.title}", list(matrix(stage, one)))
