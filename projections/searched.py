"""The texts that a search reads: of an event by its type, and of a `state.json` that belong to other tools."""

from __future__ import annotations

from faber_ledger.ledger.event_types import has_required
from faber_ledger.projections.fold import MAX_DEPTH, NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from faber_ledger.ledger.events import Recorded

# The server's index has the same types and fields (migrations/server); of a list of objects the fields of each.
FIELDS = {
    "note_recorded": ("text",),
    "compaction_completed": ("summary",),
    "artifact_loaded": ("artifact_id", "source"),
    "artifact_failed": ("artifact_id", "source", "error"),
    "artifact_skipped": ("artifact_id",),
    "context_reconstituted": ("findings",),
}
KINDS = {
    "note_recorded": "note",
    "compaction_completed": "summary",
    "artifact_loaded": "loaded",
    "artifact_failed": "failed",
    "artifact_skipped": "skipped",
    "context_reconstituted": "finding",
}
STATE = "state"


def event_texts(recorded: Recorded) -> list[str]:
    """Return the texts of an event that a search reads; none of one whose payload is gone, in whole or in part."""
    event: dict[str, Any] = dict(recorded["event"])
    kind = event["type"]
    if recorded.get("redacted") or kind not in FIELDS or not has_required(kind, recorded["version"], event):
        return []
    return [text for field in FIELDS[kind] for text in _texts(event.get(field))]


def word_for(recorded: Recorded) -> str:
    """Return what a search calls an event: note, summary, loaded, failed, skipped or finding."""
    event = recorded["event"]
    if event["type"] == "note_recorded":
        return "summary" if event["kind"] == "summary" else "note"
    return KINDS[event["type"]]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for finding in value:
            yield from [finding[name] for name in ("code", "told") if isinstance(finding.get(name), str)]


def state_texts(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each text of a state with its path, such as `decisions[0].reason`, without those of our two blocks.

    What is nested deeper than `MAX_DEPTH` is left out.
    """
    waiting: list[tuple[str, Any, int]] = [(name, value, 1) for name, value in state.items() if name not in NAMES]
    waiting.reverse()
    while waiting:
        path, value, depth = waiting.pop()
        if isinstance(value, str):
            yield path, value
            continue
        if depth == MAX_DEPTH:
            continue
        if isinstance(value, dict):
            inner = [(f"{path}.{name}", item, depth + 1) for name, item in value.items()]
        else:
            items = value if isinstance(value, list) else []
            inner = [(f"{path}[{number}]", item, depth + 1) for number, item in enumerate(items)]
        waiting.extend(reversed(inner))
