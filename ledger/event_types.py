"""The version of each event's shape that this program writes and folds, and the fields that a fold relies on."""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Recorded


CURRENT = {
    "run_started": 1,
    "run_adopted": 1,
    "session_started": 1,
    "session_ended": 1,
    "artifact_loaded": 1,
    "artifact_failed": 1,
    "artifact_skipped": 1,
    "context_reloaded": 1,
    "compaction_completed": 1,
    "delivery_ignored": 1,
    "note_recorded": 1,
    "context_reconstituted": 1,
    "event_redacted": 1,
}

RELIED_ON: dict[str, dict[str, type]] = {
    "run_adopted": {"blocks": str},
    "session_started": {"session_id": str, "source": str, "environment": dict, "empties_context": bool},
    "session_ended": {"session_id": str, "reason": str, "inferred": bool, "phases_completed": list},
    "artifact_loaded": {"session_id": str, "artifact_id": str, "trigger": str, "source": str, "size_bytes": int},
    "context_reloaded": {"session_id": str},
    "note_recorded": {"kind": str, "text": str},
}
READ = {kind: (itemgetter("type", *fields), [str, *fields.values()]) for kind, fields in RELIED_ON.items()}


def is_foldable(recorded: Recorded) -> bool:
    """Tell whether a fold may rely on an event: its type and version are known, and the fields it needs are there."""
    event = recorded["event"]
    kind = event["type"]
    if recorded["version"] != CURRENT.get(kind):
        return False
    if kind not in READ or type(recorded["at"]) is not str or not recorded["at"]:
        return False
    values_of, types = READ[kind]
    try:
        return list(map(type, values_of(event))) == types
    except KeyError:
        return False
