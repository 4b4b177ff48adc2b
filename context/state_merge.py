"""Three versions of a `state.json` brought together: what of it is ours never conflicts, the rest is somebody's."""

from __future__ import annotations

import json

from faber_ledger.context.json_text import JsonText
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.projections import blocks as shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Members = dict[str, Any]
    Left = tuple[str, str, str]  # a key, and what ours and theirs say of it, as JSON

ABSENT = object()


def with_one_shape(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bytes, bytes]:
    """Give all three sides our blocks and the later `updated_at`, so that a merge of their lines sees the rest alone.

    The log says what the blocks are, and the next projection writes them. An empty base is none, and stays empty.
    Raises ValueError if a side is no JSON object, or two sides are of two runs.
    """
    mine, other = document_of(ours), document_of(theirs)
    if mine.value.get("run_id") != other.value.get("run_id"):
        raise ValueError("the two sides are the states of two runs")
    members = shape.blocks_of(other.value) | shape.blocks_of(mine.value)
    time = {"updated_at": _later(mine.value, other.value)}

    def shaped(document: JsonText) -> bytes:
        return document.with_members(members | (time if "updated_at" in document.value else {})).encode()

    return shaped(document_of(base)) if base.strip() else b"", shaped(mine), shaped(other)


def merged_by_key(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, list[Left]]:
    """Take each key from the side that changed it, and ours where both did; give with it the keys that are left so.

    For sides whose lines stand too near to each other to be merged as lines: two tools that each added a key. What
    they took out is left to a person.
    """
    before, mine, other = (document_of(side or b"{}") for side in (base, ours, theirs))
    left = conflicting_keys(base, ours, theirs)
    gone = [name for name in mine.value if name in before.value and name not in other.value]
    left += [(name, _shown(mine.value[name]), _shown(ABSENT)) for name in gone if name not in names(left)]
    taken = {
        name: value
        for name, value in other.value.items()
        if name not in names(left) and not _same(value, before.value.get(name, ABSENT))
    }
    return mine.with_members(taken).encode(), left


def with_edits(base: bytes, ours: bytes, merged: bytes, left: list[Left], here: bytes) -> tuple[bytes, list[Left]]:
    """Take into a merge what a person or a hook has changed in `here`, the file as it is now, since it was made.

    Changed is what neither the merge, nor ours, nor the base says: a backup that was put back changes nothing, and a
    key that somebody has settled is left no more.
    """
    found, document = document_of(here), document_of(merged)
    others = [document.value, document_of(ours).value, document_of(base or b"{}").value]
    changed = [
        name
        for name in dict.fromkeys([*document.value, *others[1], *found.value])
        if not any([_same(found.value.get(name, ABSENT), other.get(name, ABSENT)) for other in others])
    ]
    if not changed:
        return merged, left
    taken = {
        name: value
        for name, value in document.value.items()
        if name not in changed and not _same(value, found.value.get(name, ABSENT))
    }
    return found.with_members(taken).encode(), [one for one in left if one[0] not in changed]


def names(left: list[Left]) -> list[str]:
    """Give the names of keys that a merge has left."""
    return [name for name, _, _ in left]


def conflicting_keys(base: bytes, ours: bytes, theirs: bytes) -> list[Left]:
    """Give the keys that both sides changed, each with what ours and theirs says, as JSON."""
    before, mine, other = (document_of(side or b"{}").value for side in (base, ours, theirs))
    found = []
    for name in dict.fromkeys([*mine, *other]):
        sides = [state.get(name, ABSENT) for state in (before, mine, other)]
        if not any([_same(*pair) for pair in (sides[1:], sides[:2], sides[::2])]):
            found.append((name, _shown(sides[1]), _shown(sides[2])))
    return found


def is_state(content: bytes) -> bool:
    """Tell whether bytes are one JSON object in which no key stands twice, as a merge of lines may leave it."""
    try:
        document_of(content)
        json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError):
        return False
    return True


def document_of(content: bytes) -> JsonText:
    """Read a state's bytes; raises ValueError."""
    return JsonText(content.decode())


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        one is not ABSENT
        and other is not ABSENT
        and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def _shown(value: Any) -> str:
    return "(not there)" if value is ABSENT else json.dumps(value, ensure_ascii=False)


def _later(mine: Members, other: Members) -> Any:
    """Choose the later time; ours where one of them is none."""
    times = [seconds_of(state.get("updated_at")) for state in (mine, other)]
    if times[1] is not None and (times[0] is None or times[1] > times[0]):
        return other["updated_at"]
    return mine.get("updated_at")


def _without_doubles(pairs: list[tuple[str, Any]]) -> Members:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
