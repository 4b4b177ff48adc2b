"""What each event of a history changed in the blocks."""

from __future__ import annotations

import copy

from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.projections.difference import list_changes
from faber_ledger.projections.fold import Projector, empty, session_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.fold import Blocks


class Steps:
    """Blocks on which events are folded one by one, each with what it changes."""

    def __init__(self) -> None:
        self._projector = Projector(empty())

    @property
    def blocks(self) -> Blocks:
        """Return the blocks after the last event; the next one changes them in place."""
        return self._projector.blocks

    def pass_over(self, recorded: Recorded) -> None:
        """Fold one event without asking what it changed."""
        self._projector.apply(recorded)

    def apply(self, recorded: Recorded) -> list[Change]:
        """Fold one event and return the fields that it changed."""
        if not is_foldable(recorded):
            return []
        before = self._copy_before(dict(recorded["event"]))
        self._projector.apply(recorded)
        return list_changes(before, self.blocks)

    def _copy_before(self, event: dict[str, Any]) -> Blocks:
        """Copy the blocks as deep as an event can change them: their lists, and its session's entry."""
        if event["type"] == "run_adopted":
            return copy.deepcopy(self.blocks)
        copied = {name: _copy(block) for name, block in self.blocks.items()}
        entry = self._projector.index.get(str(event.get("session_id")))
        history = session_history(copied)
        for number in range(len(history) - 1, -1, -1):
            if history[number] is entry:
                history[number] = _copy(entry)
                break
        return copied


def _copy(value: Any) -> Any:
    """Copy an object and its members."""
    if not isinstance(value, dict):
        return value
    return {name: copy.copy(member) if isinstance(member, (dict, list)) else member for name, member in value.items()}
