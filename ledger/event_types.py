"""One row per event type: its version, what readers rely on, and what a redaction leaves.

An event's shape is in `events`, which no hook imports; its row is here, what it does to the blocks is in the fold. This
module imports no clock and no file, because a fold must not.
"""

from __future__ import annotations

from _operator import itemgetter  # the module around it, in Python, costs a hook as much as two of ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded


REDACTED = "[redacted]"
RECORDED_BY_LOOKS = ("context_reconstituted", "run_adopted")  # also by a command that only looks at a run
NOT_CHECKABLE = "(redacted)"  # of an event whose payload is gone
ENVIRONMENT = ("hostname", "platform", "cwd", "git_commit")
USED = ("input_tokens", "cached_tokens", "output_tokens", "turns", "active_seconds")
# What an event of several types may have besides, and the type of each as in `redacted`.
OFTEN_OPTIONAL: dict[str, Any] = {"environment": {}, "delivery": {}, "also_loaded": [], "summary": REDACTED}
OFTEN_OPTIONAL |= {"uncommitted_count": 0, "uncommitted_names": [], "commit": REDACTED}


class EventType:
    """What readers and writers need to know about one event type, besides its shape."""

    version = 1

    def __init__(
        self, redacted: dict[str, Any], *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
    ) -> None:
        """Describe a type.

        `redacted` is shown in place of a payload that is gone: every field of the shape that is not optional, with a
        value of its type; `optional` are the others, without the session's id. `required` are the fields that a fold
        relies on, each of the type it has in `redacted` (`session_id` is text); without any, no fold reads the event.
        """
        self.redacted = redacted
        self.required = {name: str if name == "session_id" else type(redacted[name]) for name in required}
        self.members = frozenset([*redacted, *optional])
        self.shape = [*{**OFTEN_OPTIONAL, **redacted}.items()]  # what the fields have the types of


EVENT_TYPES = {
    "run_started": EventType({"run_id": REDACTED, "workflow_id": REDACTED, "work_id": None}),
    "run_adopted": EventType({"run_id": REDACTED, "blocks": "{}"}, required=("blocks",)),
    "session_started": EventType(
        {
            "source": REDACTED,
            "environment": dict.fromkeys(ENVIRONMENT, REDACTED),
            "phase": None,
            "step": None,
            "phases_completed": [],
            "empties_context": False,
            "pid": None,
        },
        required=("session_id", "source", "environment", "empties_context"),
        optional=("delivery", "agent", "agent_version"),
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
        optional=("environment", "also_loaded", "delivery"),
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
    ),
    "artifact_failed": EventType(
        {"artifact_id": REDACTED, "trigger": REDACTED, "source": REDACTED, "required": False, "error": REDACTED}
    ),
    "artifact_skipped": EventType({"artifact_id": REDACTED, "trigger": REDACTED, "loaded_at": REDACTED}),
    "context_reloaded": EventType(
        {"trigger": REDACTED, "loaded": 0, "failed": 0, "skipped": 0},
        required=("session_id",),
        optional=("environment",),
    ),
    "compaction_completed": EventType(
        {"trigger": None, "agent_id": None, "phase": None, "step": None}, optional=("summary", "delivery")
    ),
    "delivery_ignored": EventType(
        {"reason": "repeated", "delivery": {"hook": REDACTED, "digest": REDACTED, "pid": None}}
    ),
    "answer_lost": EventType({}, required=("session_id",)),
    "note_recorded": EventType(
        {"kind": "note", "text": REDACTED, "phase": None, "step": None}, required=("kind", "text")
    ),
    "context_reconstituted": EventType({"status": REDACTED, "phase": None, "step": None, "mode": None, "findings": []}),
    "usage_recorded": EventType(
        {"model": REDACTED, "in_phase": None, **dict.fromkeys(USED, 0), "read_files": {}},
        required=("session_id", "model", *USED),
    ),
    "event_redacted": EventType({"event_id": REDACTED, "reason": None}),
    "redaction_undone": EventType({"event_id": REDACTED, "reason": None}),
}
FOLDABLE = {
    kind: (known.version, itemgetter("type", *known.required), [str, *known.required.values()])
    for kind, known in EVENT_TYPES.items()
    if known.required
}

ENVELOPE = {"type", "session_id"}  # what an event has of it
# What was found to have the required fields: a type, and each member's name and type. Most events have few such forms.
FITTING: set[tuple[Any, ...]] = set()
MOST_FITTING = 1_000


def is_known(kind: str, version: int) -> bool:
    """Return whether this program writes events of this type and version, and can check their shape."""
    return kind in EVENT_TYPES and EVENT_TYPES[kind].version == version


def redacted_form(kind: str) -> dict[str, Any]:
    """Return what is shown in place of a payload of this type that is gone; empty for an unknown type."""
    return EVENT_TYPES[kind].redacted if kind in EVENT_TYPES else {}


def is_foldable(recorded: Recorded) -> bool:
    """Return whether a fold may rely on an event: its type and version are known, and the fields it needs are there."""
    event = recorded["event"]
    kind, version = event["type"], recorded["version"]
    if kind not in FOLDABLE or FOLDABLE[kind][0] != version or type(recorded["at"]) is not str or not recorded["at"]:
        return False
    return (kind, *event, *map(type, event.values())) in FITTING or has_required(kind, version, event)


def has_required(kind: str, version: int, event: Any) -> bool:
    """Return whether an event has the fields that readers need of its type and version, if they are known.

    Fields that it may lack have the types of its shape if they are there.
    """
    if not is_known(kind, version):
        return True
    types = (*map(type, event.values()),)
    like = (kind, *event, *types)
    if like in FITTING:
        return True
    if not _has_required(kind, event):
        return False
    is_flat = list not in types and dict not in types  # else what is in them counts
    if is_flat and len(FITTING) < MOST_FITTING and EVENT_TYPES[kind].members.issuperset(event.keys() - ENVELOPE):
        FITTING.add(like)
    return True


def _has_required(kind: str, event: Any) -> bool:
    known = EVENT_TYPES[kind]
    if kind in FOLDABLE:
        _, values_of, types = FOLDABLE[kind]
        try:
            if list(map(type, values_of(event))) != types:
                return False
        except KeyError:
            return False
    if type(event.get("session_id", "")) is not str:
        return False  # the payload's own, where the envelope has none
    return all([_fits(name, event[name], like) for name, like in known.shape if name in event])


def _fits(name: str, value: Any, like: Any) -> bool:
    """Return whether a field has the type of the value in its row, in place of null text."""
    if name == "uncommitted":
        return value is None or type(value) is bool
    if name == "findings":
        return type(value) is list and all(map(_holds_text, value))
    if type(like) is list:
        return type(value) is list and all([type(item) is str for item in value])
    if type(like) is dict:
        return _holds_text(value)
    return type(value) is type(like) or (like is None and type(value) is str)


def _holds_text(value: Any) -> bool:
    """Return whether a value is an object whose members are text or null."""
    return type(value) is dict and all([item is None or type(item) is str for item in value.values()])
