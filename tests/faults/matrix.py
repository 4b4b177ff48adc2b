"""`make faults`: break every call of every story in every way, and write their outcomes into RELIABILITY.md."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from faults import commands, stories
from faults.calls import ERRORS, KILL, Call
from faults.commands import COMMANDS, Command
from faults.page import write_lines
from faults.stories import STORIES, Outcome, Story

if TYPE_CHECKING:
    from types import ModuleType

SHORT = {"absent": "absent", "in the inbox": "inbox", "in the log": "log", "done": "done"}
SHORT |= {"refused, and it says so": "reported"}
HEAD = (
    "",
    "| what is broken | files | faults | delivery after a kill | after an error | promises broken |",
    "|---|---|---|---|---|---|",
)
FAULTS = (KILL, *ERRORS)


def row(stage: ModuleType, story: Story | Command) -> str:
    """Return the page's row for a story of `stories` or `commands`; raises SystemExit if a promise was broken."""
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        calls = stage.calls_in(story, Path(folder) / "calls")
        found = _break_all(stage, story, calls, Path(folder))
    problems = [f"{story.name}: {key}: {outcome.problems}" for key, outcome in found if outcome.problems]
    if problems:
        sys.exit("\n".join(problems))
    files = {call.file for call in calls}
    killed = _cell({outcome.delivery for (_, fault), outcome in found if fault == KILL})
    refused = _cell({outcome.delivery for (_, fault), outcome in found if fault != KILL})
    return f"| {story.title} | {len(files)} | {len(found):,} | {killed} | {refused} | 0 |"


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


def _cell(deliveries: set[str]) -> str:
    return ", ".join([short for long, short in SHORT.items() if long in deliveries])


if __name__ == "__main__":
    of_hooks: list[tuple[ModuleType, Story | Command]] = [(stories, one) for one in STORIES.values()]
    every = of_hooks + [(commands, one) for one in COMMANDS.values()]
    rows = [row(stage, one) for stage, one in every if one.name in (sys.argv[1:] or [one.name])]
    if len(rows) == len(every):
        write_lines("the matrix", [*HEAD, *rows])
    else:
        sys.stdout.write("\n".join([*rows, ""]))
