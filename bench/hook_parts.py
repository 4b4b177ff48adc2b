"""Run one hook in this process and time the parts of its work. Argument: the hook; standard input: its delivery.

Prints processor seconds: {"ledger": ..., "blocks": ..., "state": ..., "rest": ...}. "ledger" opens the log,
queries it, appends, commits and publishes; "state" reads and writes state.json; "blocks" folds and hashes the two
blocks; "rest" is everything else except imports: decisions, the packet, and the artifacts, of which state.json is one.
"""

from __future__ import annotations

import json
import os
import sys
import time

from faber_ledger.context import packet, position, reload  # noqa: F401 -- imported before the clock starts
from faber_ledger.hooks.main import run_hook
from faber_ledger.ledger.log import Log
from faber_ledger.recording import recording
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.log import RunLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def is_timed(held: type, name: str) -> bool:
    """Return whether a name of a class is a method whose time counts."""
    return callable(vars(held)[name]) and (name == "__init__" or not name.startswith("__"))


LOGS = (Log, RunLog)
PARTS = {
    "ledger": (
        *[(held, name) for held in LOGS for name in vars(held) if is_timed(held, name)],
        (recording, "open_run_log"),
        (recording, "publish"),
    ),
    "state": ((state_file, "read_state"), (state_write, "read_known"), (state_write, "write_blocks")),
    "blocks": (
        (state_write, "digest_of"),
        (state_write, "texts_of"),
        (state_write.KnownState, "shows"),
        (state_write.KnownState, "texts_after"),
        (recording, "blocks_of"),
        (recording, "fold"),
    ),
}
spent = dict.fromkeys(PARTS, 0.0)
running: list[str] = []


def time_calls(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its outermost calls count as time of a part."""

    def call(*arguments: Any, **named: Any) -> Any:
        if running:
            return function(*arguments, **named)
        start = time.process_time()
        running.append(part)
        try:
            return function(*arguments, **named)
        finally:
            running.pop()
            spent[part] += time.process_time() - start

    return call


def main() -> None:
    """Run the hook and print the time of its parts."""
    for part, functions in PARTS.items():
        for module, name in functions:
            setattr(module, name, time_calls(part, getattr(module, name)))
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    start = time.process_time()
    run_hook(sys.argv[1])
    total = time.process_time() - start
    os.write(answers, json.dumps({"rest": total - sum(spent.values()), **spent}).encode())


if __name__ == "__main__":
    main()
