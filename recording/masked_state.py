"""Mask the secrets in a run's state, which goes to the team's server."""

from __future__ import annotations

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
