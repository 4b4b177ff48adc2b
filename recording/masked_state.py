"""Mask the secrets in a run's state, which goes to the team's server; in a merge a masked text is no other text."""

from __future__ import annotations

from faber_ledger.files.json_text import JsonText
from faber_ledger.projections.blocks import NAMES
from faber_ledger.recording.secrets.mask import mask_text, mask_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Members whose values name something: only a token makes such a value a secret.
NAMING = frozenset(
    [
        *("id", "run_id", "workflow_id", "work_id", "session_id", "artifact_id", "agent_id", "event_id"),
        *("type", "kind", "code", "severity", "status", "mode", "trigger", "step", "phase", "phases_completed"),
        *("branch", "cwd", "source", "hostname", "platform", "git_commit", "sha256", "loaded_at"),
    ]
)
SIGN = b"[masked"


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


def mask_alike(ours: bytes, theirs: bytes) -> tuple[bytes, bytes]:
    """Return both states with each text masked that is masked in the other one and the same otherwise.

    Raises ValueError for what is no JSON object.
    """
    if SIGN not in ours and SIGN not in theirs:
        return ours, theirs
    mine, other = JsonText(ours.decode()), JsonText(theirs.decode())
    try:
        return _mask_as(mine, other).encode(), _mask_as(other, mine).encode()
    except RecursionError:
        return ours, theirs


def _mask_as(side: JsonText, other: JsonText) -> str:
    changed = {}
    for name, value in side.value.items():
        if name in other.value and name not in NAMES and value != other.value[name]:
            alike = _take_masked(value, mask_value(value, name), other.value[name])
            if alike != value:
                changed[name] = alike
    return side.with_members(changed) if changed else side.text


def _take_masked(value: Any, masked: Any, other: Any) -> Any:
    """Return a value with those parts masked that are so in `other`; `masked` is the value with all masked."""
    if masked in (value, other):
        return masked
    if isinstance(value, dict) and isinstance(masked, dict) and isinstance(other, dict):
        return {
            name: _take_masked(item, masked[name], other[name]) if name in masked and name in other else item
            for name, item in value.items()
        }
    if isinstance(value, list) and isinstance(masked, list) and isinstance(other, list) and len(value) == len(other):
        return [_take_masked(*items) for items in zip(value, masked, other, strict=True)]
    return value
