"""One hook in this process, its work told apart. Argument: the hook; its delivery is the standard input.

Prints its processor time in seconds: {"ledger": ..., "blocks": ..., "state": ..., "rest": ...}. "ledger" is to open the
log and its mirror, to ask them, to append and to commit; "state" to read and to write state.json; "blocks" to fold onto
the two blocks and to hash them; "rest" all else, the imports excepted: to decide, the artifacts, of which state.json is
one, and the packet.
"""

from __future__ import annotations

import json
import os
import sys
import time

from faber_ledger.context import notes, packet, reload  # noqa: F401 -- before the clock
from faber_ledger.hooks.main import run_hook
from faber_ledger.ledger import log
from faber_ledger.projections import blocks
from faber_ledger.recording import recording
from faber_ledger.runs import mirror, state_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def is_work(held: type, name: str) -> bool:
    """Tell whether a name of a class is a method that does something."""
    return callable(vars(held)[name]) and (name == "__init__" or not name.startswith("__"))


LOGS = (log.Log, mirror.RunLog)
PARTS = {
    "ledger": (
        *[(held, name) for held in LOGS for name in vars(held) if is_work(held, name)],
        (recording, "open_log"),
    ),
    "state": ((state_file, "read_state"), (state_file, "read_known"), (state_file, "write_blocks")),
    "blocks": (
        (blocks, "digest"),
        (state_file, "digest_of"),
        (state_file, "texts_of"),
        (blocks, "blocks_of"),
        (recording, "fold"),
    ),
}
spent = dict.fromkeys(PARTS, 0.0)
running: list[str] = []


def timed(part: str, done: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that what it takes is counted."""

    def counted(*arguments: Any, **named: Any) -> Any:
        if running:
            return done(*arguments, **named)
        start = time.process_time()
        running.append(part)
        try:
            return done(*arguments, **named)
        finally:
            running.pop()
            spent[part] += time.process_time() - start

    return counted


def main() -> None:
    """Run the hook and print what its parts took."""
    for part, functions in PARTS.items():
        for module, name in functions:
            setattr(module, name, timed(part, getattr(module, name)))
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    start = time.process_time()
    run_hook(sys.argv[1])
    whole = time.process_time() - start
    os.write(answers, json.dumps({"rest": whole - sum(spent.values()), **spent}).encode())


if __name__ == "__main__":
    main()
