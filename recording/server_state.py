"""A run's state.json as it stands on the team's server: without secrets, without our two blocks.

The blocks are folded from the log wherever the state arrives, and the place of a work tree is this machine's.
"""

from __future__ import annotations

import os

from faber_ledger.files.json_text import on_lines
from faber_ledger.projections.fold import NAMES, fold
from faber_ledger.recording.masked_state import mask_value
from faber_ledger.runs import state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.state_file import parse_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

OWN = {*NAMES, "worktree"}


def content_of(state: dict[str, Any]) -> str:
    """Return the text that the server gets of a state; raises RecursionError."""
    others = {name: value for name, value in state.items() if name not in OWN}
    return on_lines(mask_value(others)).encode("utf-8", "backslashreplace").decode() + "\n"


def write_missing_state(run: Run, content: str, log: Log) -> bool:
    """Write a missing state.json from the server's text and the blocks that a log says; return False if there is one.

    Raises StateInvalid for what is no state of this run, and as `lock_run` and `write_new`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    text = state.with_members(dict(fold(log.stream())))
    os.makedirs(run.directory, exist_ok=True)
    with lock_run(run):
        if os.path.lexists(run.state_path):
            return False
        state_write.write_new(run, text)
    return True
