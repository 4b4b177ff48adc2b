"""What each event of a history changed in the blocks, at a cost that does not grow with the history.

Before an event, only what it can change is copied, as deep as a fold changes it: its session's entry, and the blocks
without the two lists that only grow. Only an adoption can change everything.
"""

from __future__ import annotations

import copy

from faber_ledger.ledger.event_types import is_foldable
from faber_ledger.projections.difference import MISSING, list_changes
from faber_ledger.projections.fold import Projector, empty, is_named, session_history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change
    from faber_ledger.projections.fold import Blocks, Entry

GROWING = (("sessions", "session_history"), ("context_metadata", "compaction_events"))


class Steps:
    """Blocks on which events are folded one by one, each with what it changes."""

    def __init__(self) -> None:
        self._projector = Projector(empty())
        self._places: dict[str, int] = {}
        self._counted = 0

    @property
    def blocks(self) -> Blocks:
        """Return the blocks after the last event; the next one changes them in place."""
        return self._projector.blocks

    def pass_over(self, recorded: Recorded) -> None:
        """Fold one event without asking what it changed."""
        self._projector.apply(recorded)
        if recorded["event"]["type"] == "run_adopted":
            self._places, self._counted = {}, 0

    def apply(self, recorded: Recorded) -> list[Change]:
        """Fold one event and return the fields that it changed."""
        if not is_foldable(recorded):
            return []
        event: dict[str, Any] = recorded["event"]  # type: ignore[assignment]  # every event type may have a session
        if event["type"] == "run_adopted":
            before = copy.deepcopy(self.blocks)
            self.pass_over(recorded)
            return list_changes(before, self.blocks)
        name = str(event.get("session_id"))
        entry = self._projector.index.get(name)
        copied = _copy(entry)
        lengths = {path: len(grown) for path in GROWING if (grown := _grown(self.blocks, path)) is not None}
        before = _without(self.blocks, lengths)
        self._projector.apply(recorded)
        found = list_changes(before, _without(self.blocks, lengths))
        if entry is not None:
            place = self._place(name)
            found += list_changes(copied, entry, ("sessions", "session_history", place))
        for path, length in lengths.items():
            grown = _grown(self.blocks, path) or []
            found += [((*path, number), MISSING, grown[number]) for number in range(length, len(grown))]
        return found

    def _place(self, name: str) -> int:
        """Return the place of a session's entry in the history; the last one with this id counts."""
        history = session_history(self.blocks)
        for number in range(self._counted, len(history)):
            if is_named(history[number]):
                self._places[history[number]["session_id"]] = number
        self._counted = len(history)
        return self._places[name]


def _grown(blocks: Blocks, path: tuple[str, str]) -> list[Any] | None:
    held = blocks.get(path[0])
    values = held.get(path[1]) if isinstance(held, dict) else None
    return values if isinstance(values, list) else None


def _without(blocks: Blocks, paths: Any) -> Blocks:
    """Copy blocks without the lists at the given paths."""
    left_out = dict(paths)
    return {
        block: {name: value for name, value in held.items() if (block, name) not in left_out}
        if isinstance(held, dict)
        else held
        for block, held in blocks.items()
    }


def _copy(entry: Entry | None) -> Entry | None:
    """Copy an entry and its members: no fold changes anything below them."""
    if entry is None:
        return None
    return {name: copy.copy(value) if isinstance(value, (dict, list)) else value for name, value in entry.items()}
