"""When a run's main conversation was compacted: the one rule for the timeline and the exported tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Compactions:
    """Counts a compaction once, by its completion or by the session start after it, whichever comes first.

    A client may send only one of the two. A subagent's compaction does not count: it does not change the run's context.
    """

    def __init__(self) -> None:
        self._counted_by: str | None = None  # the event whose counterpart may still come

    def is_new(self, event: dict[str, Any]) -> bool:
        """Return whether an event is a compaction that was not counted yet, and count it."""
        kind = event["type"]
        if kind == "session_started" and event.get("source") != "compact":
            self._counted_by = None
            return False
        if kind not in ("session_started", "compaction_completed") or event.get("agent_id") is not None:
            return False
        is_new = self._counted_by in (None, kind)
        self._counted_by = kind if is_new else None
        return is_new
