"""Up to which event a state agrees with a log, and what in it comes from no event.

A state may be an older fold of the log, as a crash leaves one, or a fold that was edited, or both. So we look for the
position whose fold differs in the fewest fields. Sessions and loads are compared by their ids, not by their places: a
missing one must not make all those after it differ.
"""

from __future__ import annotations

from faber_ledger.projections.difference import MISSING, identity, list_changes, value_at
from faber_ledger.projections.fold import empty
from faber_ledger.projections.steps import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypedDict

    from faber_ledger.ledger.events import Recorded
    from faber_ledger.projections.difference import Change, Path
    from faber_ledger.projections.fold import Blocks

    class Fit(TypedDict):
        """The position whose fold is nearest to a state: its number of events and the last of them.

        `distance` counts the fields that differ or that only one of the two has. `events` is the length of the history.
        """

        position: int
        last: Recorded | None
        distance: int
        events: int

    class FieldDifference(TypedDict):
        """A field that differs: its value by the log and in the state, and the event that last set it."""

        path: Path
        expected: Any
        found: Any
        event: Recorded | None


def find_best_fit(events: Iterable[Recorded], found: Blocks) -> Fit:
    """Find the position of a history whose fold is nearest to a state's blocks, the last of several."""
    steps = Steps()
    target = _key_by_id(found)
    size, same = _counts(empty(), (), target)
    total = _counts(found, (), target)[0]
    fit: Fit = {"position": 0, "last": None, "distance": size + total - 2 * same, "events": 0}
    for number, recorded in enumerate(events, 1):
        for change in steps.apply(recorded):
            path = _keyed_path(change, steps.blocks)
            for value, sign in ((change[1], -1), (change[2], 1)):
                leaves, matching = _counts(value, path, target)
                size, same = size + sign * leaves, same + sign * matching
        fit["events"] = number
        if size + total - 2 * same <= fit["distance"]:
            fit |= {"position": number, "last": recorded, "distance": size + total - 2 * same}
    return fit


def explain_differences(
    stream: Callable[[], Iterable[Recorded]], found: Blocks, limit: int
) -> tuple[int, list[FieldDifference]]:
    """Return how many fields differ between a history's fold and a state, and the first `limit` with their events."""
    steps = Steps()
    for recorded in stream():
        steps.pass_over(recorded)
    different = list_changes(_key_by_id(steps.blocks), _key_by_id(found)) or list_changes(steps.blocks, found)
    shown: dict[Path, FieldDifference] = {
        path: {
            "path": path,
            "expected": _value_within(steps.blocks, path),
            "found": _value_within(found, path),
            "event": None,
        }
        for path, _, _ in different[:limit]
    }
    steps = Steps()
    for recorded in stream():
        for change in steps.apply(recorded):
            place = _keyed_path(change, steps.blocks)
            for path, one in shown.items():
                if _touches(change, place, path):
                    one["event"] = recorded
    return len(different), list(shown.values())


def find_first_missing(
    events: Iterable[tuple[Recorded, bool]], found: Blocks
) -> tuple[Recorded, Path, Any, Any] | None:
    """Return the first event that changes something and is marked as unknown to a state, or None.

    It comes with the first field that it changes, that field's value after it, and its value in the state.
    """
    steps, target = Steps(), _key_by_id(found)
    for recorded, is_known in events:
        changed = steps.apply(recorded)
        if changed and not is_known:
            fields = [(_keyed_path(change, steps.blocks), change[2]) for change in changed]
            differing = [(path, value) for path, value in fields if value_at(target, path) != _key_by_id(value)]
            path, value = [*differing, *fields][0]
            return recorded, path, value, _value_within(found, path)
    return None


def _touches(change: Change, place: Path, path: Path) -> bool:
    """Return whether a change at a place also changes the field at `path`."""
    if place[: len(path)] == path:
        return True
    if path[: len(place)] != place:
        return False
    inner = path[len(place) :]
    one, other = (MISSING if value is MISSING else value_at(_key_by_id(value), inner) for value in change[1:])
    return type(one) is not type(other) or one != other


def _key_by_id(value: Any) -> Any:
    """Make lists objects: sessions and loads by their ids, other items by their places."""
    if isinstance(value, dict):
        return {name: _key_by_id(item) for name, item in value.items()}
    if isinstance(value, list):
        return {_key(item, number): _key_by_id(item) for number, item in enumerate(value)}
    return value


def _value_within(value: Any, path: Path) -> Any:
    """Return the value at a path that has ids instead of places."""
    for step in path:
        if isinstance(value, list):
            value = next((item for number, item in enumerate(value) if step in (number, _key(item, number))), MISSING)
        else:
            value = value_at(value, (step,))
    return value


def _key(item: Any, number: int) -> str | int:
    name = identity(item)
    return number if name is None else f"[{name}]"


def _keyed_path(change: Change, blocks: Blocks) -> Path:
    """Return a change's path with ids instead of numbers; `blocks` are those after it."""
    path, value = [], blocks
    for step in change[0]:
        value = value_at(value, (step,))
        path.append(_key(change[1] if value is MISSING else value, step) if isinstance(step, int) else step)
    return tuple(path)


def _counts(value: Any, path: Path, target: Any) -> tuple[int, int]:
    """Count the single values within a value at a path, and how many of them the target has too."""
    count = same = 0
    for place, leaf in _leaves(value, path):
        there = value_at(target, place)
        count += 1
        same += type(there) is type(leaf) and there == leaf
    return count, same


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, _key(item, number)))
    elif value is not MISSING:
        yield path, value
