"""A run's state.json as a document for the team's server, and from one: without secrets and without our two blocks.

The blocks are folded from the log wherever the document arrives; in their place stand empty ones, so that the order of
the keys stays.
"""

from __future__ import annotations

import json
import os

from faber_ledger.files.json_text import JsonText, on_lines
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import StateMissing
from faber_ledger.projections.blocks import NAMES, empty
from faber_ledger.projections.fold import fold
from faber_ledger.recording.masked_state import mask_value
from faber_ledger.runs import state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.state_file import parse_state, read_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

OWN = {*NAMES, "worktree"}


def make_content(run: Run) -> str | None:
    """Return what a document says of a run's state, None if there is no state; raises as `read_state`."""
    try:
        return content_of(read_state(run))
    except StateMissing:
        return None


def content_of(state: JsonText) -> str:
    """Return what a document says of a state: nothing in our blocks, and no secrets."""
    blocks = empty()
    bare = JsonText(state.with_members({name: blocks[name] for name in NAMES if name in state.value}))
    masked = mask_value(bare.value)
    if list(masked) != list(bare.value):
        return on_lines(masked) + "\n"  # a name at the outermost level was masked
    changed = {name: value for name, value in masked.items() if value != bare.value[name]}
    return bare.with_members(changed) if changed else bare.text


def digest_of(content: str) -> str:
    """Return the SHA-256, in hex, of what a document says beside our blocks and the place of the work tree.

    `run resume` itself writes that place. Raises ValueError and RecursionError.
    """
    said = {name: value for name, value in JsonText(content).value.items() if name not in OWN}
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def is_later(run: Run, here: str, there: str) -> bool:
    """Return whether what a document says was updated later than what another one says; raises StateInvalid."""
    states = [parse_state(run, text.encode("utf-8", "backslashreplace")) for text in (here, there)]
    mine, other = [seconds_of(state.value.get("updated_at")) or 0.0 for state in states]
    return mine > other


def known_heads(log: Log, writer: str) -> tuple[frozenset[bytes], str | None]:
    """Return the last event that a clone recorded, and when that was; the log's heads and None if it never did."""
    own = log.connection.execute(
        "SELECT hash, at FROM event WHERE writer = ? ORDER BY seq DESC, id DESC LIMIT 1", (writer,)
    ).fetchone()
    return (frozenset([own[0]]), own[1]) if own else (frozenset([digest for _, digest in log.heads()]), None)


def take_content(run: Run, content: str, log: Log) -> str | None:
    """Write a missing state.json from a document and the blocks that a log says; None if it is not missing.

    Returns its `digest_of`. Raises StateInvalid for what is no state of this run, and as `RunLock` and `write_new`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    text = state.with_members(dict(fold(log.stream())))
    os.makedirs(run.directory, exist_ok=True)
    with lock_run(run):
        if os.path.lexists(run.state_path):
            return None
        state_write.write_new(run, text)
    return digest_of(content_of(parse_state(run, text.encode("utf-8", "backslashreplace"))))


def replace_content(run: Run, content: str, log: Log, digest: str, warn: Callable[[str], None]) -> str | None:
    """Replace a state.json that has this digest by a document and the blocks of a log; None if it has another.

    Returns its new digest. What is masked in the document keeps the text that it has here, where that is the same but
    for the masking. Raises as `take_content`, and
    `read_state`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    with lock_run(run):
        here = read_state(run)
        if digest_of(content_of(here)) != digest:
            return None
        kept: dict[str, Any] = {name: here.value[name] for name in ("worktree",) if name in here.value}
        for name, value in state.value.items():
            if name in here.value and name not in OWN:
                plain = _unmask(value, mask_value(here.value[name], name), here.value[name])
                if plain != value:
                    kept[name] = plain
        text = state.with_members({**kept, **fold(log.stream())})
        if not state_write.replace_text(run, here, text, warn=warn):
            return None
    return digest_of(content_of(parse_state(run, text.encode("utf-8", "backslashreplace"))))


def _unmask(value: Any, masked: Any, plain: Any) -> Any:
    """Return a value with the plain text of what is masked in it, where both are the same otherwise."""
    if masked == plain:
        return value
    if value == masked:
        return plain
    if isinstance(value, dict) and isinstance(masked, dict) and isinstance(plain, dict):
        return {
            name: _unmask(item, masked[name], plain[name]) if name in masked and name in plain else item
            for name, item in value.items()
        }
    if isinstance(value, list) and isinstance(masked, list) and isinstance(plain, list) and len(value) == len(plain):
        return [_unmask(*items) for items in zip(value, masked, plain, strict=True)]
    return value
