"""Where two projections of one run differ, field by field, and the event behind each difference."""

from __future__ import annotations

import copy
import json

from faber_ledger.projections.fold import NAMES, Projector, empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias, TypedDict

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.fold import Blocks

    Path: TypeAlias = tuple[str | int, ...]
    Change: TypeAlias = tuple[Path, Any, Any]  # a field's path, what it was, and what it is

    class Difference(TypedDict):
        """A field by its path, its value by the log and in state.json, and the event that last set it in the log."""

        field: str
        expected: Any
        found: Any
        event: Recorded | None


class Missing(str):
    """The type of `MISSING`, which differs from every text that a state can hold."""

    __slots__ = ()


MISSING = Missing("(missing)")


def differing_blocks(expected: Blocks, found: Blocks) -> list[str]:
    """Name the blocks whose values differ; the order of keys does not count, and `true` is not 1."""
    return [name for name in NAMES if list_changes(expected.get(name, MISSING), found.get(name, MISSING))]


def find_difference(stream: Callable[[], Iterable[Recorded]], found: Blocks) -> Difference | None:
    """Return the first field in which a fold and a state differ, with the event that last set it, or None.

    `stream` returns the events again each time, so that a long log need not be kept in memory.
    """
    changes = list_changes(found, Projector(empty()).fold(stream()))
    if not changes:
        return None
    path, there, expected = changes[0]
    return {"field": field_text(path), "expected": expected, "found": there, "event": _settled_by(stream(), path)}


def apply_event(projector: Projector, recorded: Recorded) -> list[Change]:
    """Fold one event, and return the fields that it changed.

    Besides the two lists that only grow, an event changes its session's entry; an adoption can change everything.
    """
    entry = projector.index.get(str(dict(recorded["event"]).get("session_id")))
    before = copy.deepcopy(entry)  # None without one, as a null in an adopted list
    blocks: Blocks = {
        name: {
            key: [before if one is entry else one for one in value] if isinstance(value, list) else value
            for key, value in held.items()
        }
        if isinstance(held, dict)
        else held
        for name, held in projector.blocks.items()
    }
    if recorded["event"]["type"] == "run_adopted":
        blocks = copy.deepcopy(projector.blocks)
    projector.apply(recorded)
    return list_changes(blocks, projector.blocks)


def value_at(value: Any, path: Path) -> Any:
    """Return the value at a path, `(missing)` where there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def field_text(path: Path) -> str:
    """Write a path as people do: `sessions.session_history[1].ended_at`."""
    text = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]).replace(".[", "[")
    return text.removeprefix(".")


def _settled_by(events: Iterable[Recorded], path: Path) -> Recorded | None:
    """Return the last event that changed the value at a path."""
    projector, settled = Projector(empty()), None
    before = json.dumps(value_at(projector.blocks, path))
    for recorded in events:
        projector.apply(recorded)
        after = json.dumps(value_at(projector.blocks, path))
        if after != before:
            before, settled = after, recorded
    return settled


def list_changes(before: Any, after: Any, path: Path = ()) -> list[Change]:
    """List the fields in which two values differ; applied in order, these changes turn the first into the second.

    Items that only one of two lists has are listed one by one; a list whose items were replaced is one field.
    """
    if before is after:  # as most parts of a long state and its copy are
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*after, *[name for name in before if name not in after]]
        pairs = [(name, before.get(name, MISSING), after.get(name, MISSING)) for name in names]
        return [change for name, one, other in pairs for change in list_changes(one, other, (*path, name))]
    if isinstance(before, list) and isinstance(after, list) and _is_continued(before, after):
        both = min(len(before), len(after))
        found = [change for at in range(both) for change in list_changes(before[at], after[at], (*path, at))]
        found += [((*path, number), MISSING, after[number]) for number in range(both, len(after))]
        return found + [((*path, number), before[number], MISSING) for number in range(len(before) - 1, both - 1, -1)]
    return [] if type(before) is type(after) and before == after else [(path, before, after)]


def _is_continued(before: list[Any], after: list[Any]) -> bool:
    """Return whether one of two lists begins with the items of the other, by their ids."""
    pairs = zip(before, after, strict=False)
    return all([one is other or identity(one) == identity(other) for one, other in pairs])


def identity(item: Any) -> str | None:
    """Return the id of the session or artifact that an item of a list is about, or None."""
    if not isinstance(item, dict):
        return None
    name = item.get("session_id", item.get("artifact_id"))
    return name if isinstance(name, str) else None
