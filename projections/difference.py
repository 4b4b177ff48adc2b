"""Where two projections of one run differ, and which event made the difference."""

from __future__ import annotations

import json

from faber_ledger.projections import blocks as shape
from faber_ledger.projections.fold import Projector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypedDict

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.blocks import Blocks

    class Difference(TypedDict):
        """A field by its path, what the log says of it, what state.json says, and the event that settled the first."""

        field: str
        expected: Any
        found: Any
        event: Recorded | None


MISSING = "(missing)"


def first_difference(expected: Any, found: Any, path: tuple[str | int, ...] = ()) -> tuple[str | int, ...] | None:
    """Give the path of the first field in which two values differ, in the expected one's order; None if they agree."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*expected, *[name for name in found if name not in expected]]:
            if (name in expected) != (name in found):
                return (*path, name)
            inner = first_difference(expected[name], found[name], (*path, name))
            if inner is not None:
                return inner
        return None
    if isinstance(expected, list) and isinstance(found, list):
        for number in range(max(len(expected), len(found))):
            if number >= min(len(expected), len(found)):
                return (*path, number)
            inner = first_difference(expected[number], found[number], (*path, number))
            if inner is not None:
                return inner
        return None
    same = type(expected) is type(found) and expected == found
    return None if same else path


def difference(events: Iterable[Recorded], found: Blocks) -> Difference | None:
    """Fold events and compare: give the first field that differs and the event that last settled it, or None."""
    events = list(events)
    expected = Projector(shape.empty()).folded(events)
    path = first_difference(expected, found)
    if path is None:
        return None
    return {
        "field": field_text(path),
        "expected": value_at(expected, path),
        "found": value_at(found, path),
        "event": _settled_by(events, path),
    }


def value_at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Give the value at a path, `(missing)` where there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def field_text(path: tuple[str | int, ...]) -> str:
    """Write a path as people do: `sessions.session_history[1].ended_at`."""
    text = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in path])
    return text.removeprefix(".")


def _settled_by(events: list[Recorded], path: tuple[str | int, ...]) -> Recorded | None:
    """Give the last event that changed the value at a path."""
    projector, settled = Projector(shape.empty()), None
    before = json.dumps(value_at(projector.blocks, path))
    for recorded in events:
        projector.apply(recorded)
        after = json.dumps(value_at(projector.blocks, path))
        if after != before:
            before, settled = after, recorded
    return settled


def changes(before: Any, after: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str, Any, Any]]:
    """List the fields in which two values differ, each with its path, what it was and what it is."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*after, *[name for name in before if name not in after]]
        pairs = [(name, before.get(name, MISSING), after.get(name, MISSING)) for name in names]
        return [change for name, one, other in pairs for change in changes(one, other, (*path, name))]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(number, one, other) for number, (one, other) in enumerate(zip(before, after, strict=True))]
        return [change for number, one, other in pairs for change in changes(one, other, (*path, number))]
    return [] if type(before) is type(after) and before == after else [(field_text(path), before, after)]
