"""One row per event type: its version, what readers rely on, what a redaction leaves, whether a hook may spool it.

An event's shape is in `events`, which no hook imports; its row is here, what it does to the blocks is in the fold. This
module imports no clock and no file, because a fold must not.
"""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded


REDACTED = "[redacted]"


class EventType:
    """What readers and writers need to know about one event type, besides its shape."""

    def __init__(
        self,
        redacted: dict[str, Any],
        *,
        version: int = 1,
        required: tuple[str, ...] = (),
        is_spoolable: bool = False,
    ) -> None:
        """Describe a type.

        `redacted` is shown in place of a payload that is gone: every field of the shape that is not optional, with a
        value of its type. `required` are the fields that a fold relies on, each of the type it has in `redacted`
        (`session_id` is text); without any, no fold reads the event. An event that `is_spoolable` may wait with a
        hook's delivery.
        """
        self.version = version
        self.redacted = redacted
        self.required = {name: str if name == "session_id" else type(redacted[name]) for name in required}
        self.is_spoolable = is_spoolable


EVENT_TYPES = {
    "run_started": EventType({"run_id": REDACTED, "workflow_id": REDACTED, "work_id": None}),
    "run_adopted": EventType({"run_id": REDACTED, "blocks": "{}"}, required=("blocks",)),
    "session_started": EventType(
        {
            "source": REDACTED,
            "environment": dict.fromkeys(("hostname", "platform", "cwd", "git_commit"), REDACTED),
            "phase": None,
            "step": None,
            "phases_completed": [],
            "empties_context": False,
            "pid": None,
        },
        required=("session_id", "source", "environment", "empties_context"),
    ),
    "session_ended": EventType(
        {
            "reason": "abandoned",
            "client_reason": None,
            "inferred": False,
            "phase": None,
            "step": None,
            "phases_completed": [],
        },
        required=("session_id", "reason", "inferred", "phases_completed"),
    ),
    "checkout_recorded": EventType({"is_end": False, "has_run": False, "branch": None, "uncommitted": None}),
    "artifact_loaded": EventType(
        {
            "artifact_id": REDACTED,
            "trigger": REDACTED,
            "source": REDACTED,
            "size_bytes": 0,
            "sha256": REDACTED,
            "given": "inline",
        },
        required=("session_id", "artifact_id", "trigger", "source", "size_bytes"),
        is_spoolable=True,
    ),
    "artifact_failed": EventType(
        {"artifact_id": REDACTED, "trigger": REDACTED, "source": REDACTED, "required": False, "error": REDACTED},
        is_spoolable=True,
    ),
    "artifact_skipped": EventType({"artifact_id": REDACTED, "trigger": REDACTED, "loaded_at": REDACTED}),
    "context_reloaded": EventType(
        {"trigger": REDACTED, "loaded": 0, "failed": 0, "skipped": 0}, required=("session_id",), is_spoolable=True
    ),
    "compaction_completed": EventType({"trigger": None, "agent_id": None, "phase": None, "step": None}),
    "delivery_ignored": EventType(
        {"reason": "repeated", "delivery": {"hook": REDACTED, "digest": REDACTED, "pid": None}}
    ),
    "note_recorded": EventType(
        {"kind": "note", "text": REDACTED, "phase": None, "step": None}, required=("kind", "text")
    ),
    "context_reconstituted": EventType({"status": REDACTED, "phase": None, "step": None, "mode": None, "findings": []}),
    "event_redacted": EventType({}),  # a redaction is never redacted itself
}
FOLDABLE = {
    kind: (known.version, itemgetter("type", *known.required), [str, *known.required.values()])
    for kind, known in EVENT_TYPES.items()
    if known.required
}


def is_known(kind: str, version: int) -> bool:
    """Return whether this program writes events of this type and version, and can check their shape."""
    return kind in EVENT_TYPES and EVENT_TYPES[kind].version == version


def redacted_form(kind: str) -> dict[str, Any]:
    """Return what is shown in place of a payload of this type that is gone; empty for an unknown type."""
    return EVENT_TYPES[kind].redacted if kind in EVENT_TYPES else {}


def is_foldable(recorded: Recorded) -> bool:
    """Return whether a fold may rely on an event: its type and version are known, and the fields it needs are there."""
    event = recorded["event"]
    kind = event["type"]
    if kind not in FOLDABLE or type(recorded["at"]) is not str or not recorded["at"]:
        return False
    version, values_of, types = FOLDABLE[kind]
    if recorded["version"] != version:
        return False
    try:
        return list(map(type, values_of(event))) == types
    except KeyError:
        return False
