"""A run's state.json as it stands on the team's server: without secrets, without our two blocks.

The blocks are folded from the log wherever the state arrives, and the place of a work tree is this machine's.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any

from faber_ledger.files.json_text import on_lines
from faber_ledger.ledger.encoding import dumps, loads
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import NAMES, fold
from faber_ledger.recording.secrets.mask import mask_text, mask_tokens
from faber_ledger.runs import state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.log import open_run_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import parse_state, read_state

OWN = {*NAMES, "worktree"}
LONGEST_STATE = 4_000_000  # characters


def content_of(state: dict[str, Any]) -> str:
    """Return the text of a state that leaves this machine; raises LedgerError if it is too long or too deep."""
    try:
        return _masked_text(dumps({name: value for name, value in state.items() if name not in OWN}))
    except RecursionError:
        raise LedgerError("it is nested too deeply") from None


@lru_cache(maxsize=4)  # an exchange asks for the same text again and again, and masking a long one takes seconds
def _masked_text(state: str) -> str:
    if len(state) > LONGEST_STATE:
        raise LedgerError("it has more than 4 million characters without our two blocks")
    return on_lines(mask_value(loads(state))).encode("utf-8", "backslashreplace").decode() + "\n"


def metadata_content(content: bytes) -> bytes | None:
    """Return the content that is sent of a `metadata.json`, without secrets; None if it is not a JSON object."""
    try:
        found = loads(content.decode())
        text = on_lines(mask_value(found)) + "\n"
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-8", "backslashreplace") if isinstance(found, dict) else None


def metadata_to_write(content: bytes, ours: bytes) -> bytes:
    """Return a `metadata.json` from elsewhere with the secrets that ours has where it is masked."""
    if MARK.encode() not in content or metadata_content(ours) is None:
        return content
    found = restore_secrets(loads(content.decode()), loads(ours.decode()))
    return f"{on_lines(found)}\n".encode("utf-8", "backslashreplace")


def write_missing_state(run: Run, content: str, warn: Callable[[str], None]) -> bool:
    """Write a missing state.json from the server's text and the blocks of the log; return False if there is one.

    Raises StateInvalid for a text that is not a state of this run, and as `lock_run`, `open_run_log` and `write_new`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    os.makedirs(run.directory, exist_ok=True)
    with lock_run(run), open_run_log(run, warn) as opened:
        if os.path.lexists(run.state_path):
            return False
        blocks = fold(opened.log.stream())
        state_write.write_new(run, state.with_members(dict(blocks)))
        state_write.note_shown(opened, state_write.texts_of(blocks))
    return True


def replace_state(run: Run, content: str, before: str, log: Log, warn: Callable[[str], None]) -> bool:
    """Replace a state.json by another clone's text and the blocks that a log says; return whether it was replaced.

    It was not if its `content_of` is no longer `before`. Where it names this machine's work tree, it still does.
    Raises StateInvalid for a text that is not a state of this run, and as `lock_run` and `replace_document`.
    """
    state = parse_state(run, content.encode("utf-8", "backslashreplace"))
    with lock_run(run):
        document = read_state(run)
        if content_of(document.value) != before:
            return False
        if MARK in content:
            kept = on_lines(restore_secrets(state.value, document.value)).encode("utf-8", "backslashreplace")
            state = parse_state(run, kept)
        own = {name: value for name, value in document.value.items() if name in OWN and name not in NAMES}
        text = state.with_members({**own, **fold(log.stream())})
        return state_write.replace_document(run, document, text, warn)


MARK = "[masked"  # in a text from which a secret was taken


def restore_secrets(theirs: Any, ours: Any) -> Any:
    """Return another clone's value, with our own text wherever it has the masked form of it.

    Texts with one masked form are matched in order, if both values have as many of them.
    """
    own: dict[tuple[str, str], list[str]] = {}
    for name, text in _named_texts(ours):
        if (masked := mask_value(text, name)) != text:
            own.setdefault((name, masked), []).append(text)
    count = Counter(key for key in _named_texts(theirs) if key in own)
    left = {key: iter(texts) for key, texts in own.items() if len(texts) == count[key]}
    left |= {key: repeat(texts[0]) for key, texts in own.items() if len({*texts}) == 1}

    def put(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: put(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [put(item, name) for item in value]
        return next(left[name, value], value) if isinstance(value, str) and (name, value) in left else value

    return put(theirs)


def _named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in a decoded JSON value, with what it is called."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _named_texts(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _named_texts(item, name)
    elif isinstance(value, str):
        yield name, value


# Members whose values name something: only a token makes such a value a secret.
NAMING = frozenset(
    [
        *("id", "run_id", "workflow_id", "work_id", "session_id", "artifact_id", "agent_id", "event_id"),
        *("type", "kind", "code", "severity", "status", "mode", "trigger", "step", "phase", "phases_completed"),
        *("branch", "cwd", "source", "hostname", "platform", "git_commit", "sha256", "loaded_at"),
    ]
)


def mask_value(value: Any, name: str = "") -> Any:
    """Return a decoded JSON value without the secrets in its texts; `name` is what it is called."""
    if isinstance(value, dict):
        return {mask_text(key): mask_value(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_value(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if name in NAMING:
        return mask_tokens(value)
    led = f"{name}: " if name else ""  # what a value is called may make it a secret
    return mask_text(led + value).removeprefix(led)
