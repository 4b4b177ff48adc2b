"""Mask the secrets in a JSON document: a delivery that was moved aside, a run's state."""

from __future__ import annotations

import json

from faber_ledger.recording.masked_events import KEPT, NAMED
from faber_ledger.recording.masking import mask_text
from faber_ledger.recording.tokens import mask_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# What only a token makes a secret, so that a delivery that was moved aside can still be recorded.
IDS = frozenset(["id", "salt", "writer", "client", "hook_event_name", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID"])


def mask_json(text: str) -> str:
    """Return a JSON text without the secrets in its texts; raises ValueError and RecursionError."""
    found = json.loads(text)
    masked = mask_value(found)
    return text if masked == found else json.dumps(masked, ensure_ascii=False, separators=(",", ":"))


def mask_value(value: Any, name: str = "") -> Any:
    """Return a decoded JSON value without the secrets in its texts; `name` is what it is called."""
    if isinstance(value, dict):
        return {mask_text(key): mask_value(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_value(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if name == "delivery":
        try:
            return mask_json(value)
        except (ValueError, RecursionError):
            pass
    if name in NAMED or name in KEPT or name in IDS:
        return mask_tokens(value)
    led = f"{name}: " if name else ""  # what a value is called may make it a secret
    masked = mask_text(led + value)
    return masked.removeprefix(led)
