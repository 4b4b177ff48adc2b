"""A run's state.json as a document for the team's server, and from one: without secrets and without our two blocks.

The blocks are folded from the log wherever the document arrives; in their place stand empty ones, so that the order of
the keys stays.
"""

from __future__ import annotations

import os

from faber_ledger.files.json_text import JsonText, on_lines
from faber_ledger.ledger.errors import StateMissing
from faber_ledger.ledger.lock import RunLock
from faber_ledger.projections.blocks import NAMES, empty
from faber_ledger.projections.fold import fold
from faber_ledger.recording.masked_json import mask_value
from faber_ledger.runs import state_write
from faber_ledger.runs.state_file import parse_state, read_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run


def make_content(run: Run) -> str | None:
    """Return what a document says of a run's state, None if there is no state; raises as `read_state`."""
    try:
        state = read_state(run)
    except StateMissing:
        return None
    blocks = empty()
    bare = JsonText(state.with_members({name: blocks[name] for name in NAMES if name in state.value}))
    masked = mask_value(bare.value)
    if list(masked) != list(bare.value):
        return on_lines(masked) + "\n"  # a name at the outermost level was masked
    changed = {name: value for name, value in masked.items() if value != bare.value[name]}
    return bare.with_members(changed) if changed else bare.text


def known_heads(log: Log, writer: str) -> tuple[frozenset[bytes], str | None]:
    """Return the heads of the log that a clone knew when it last recorded, and when that was; None: it never did.

    Its state is as old as that: events that were fetched since have not changed it. Else the heads are the log's.
    """
    own = log.connection.execute(
        "SELECT hash, at FROM event WHERE writer = ? ORDER BY seq DESC, id DESC LIMIT 1", (writer,)
    ).fetchone()
    return (frozenset([own[0]]), own[1]) if own else (frozenset([digest for _, digest in log.heads()]), None)


def take_content(run: Run, content: str, log: Log) -> bool:
    """Write a missing state.json from a document and the blocks that a log says; return whether it was missing.

    Raises StateInvalid for what is no state of this run, and as `RunLock` and `write_new`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    text = state.with_members(dict(fold(log.stream())))
    os.makedirs(run.directory, exist_ok=True)
    with RunLock(run.lock_path):
        if os.path.lexists(run.state_path):
            return False
        state_write.write_new(run, text)
    return True
