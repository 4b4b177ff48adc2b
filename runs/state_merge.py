"""Merge three versions of a `state.json`: our two blocks never conflict; every other key belongs to other tools."""

from __future__ import annotations

import json
import os
import tempfile
from typing import NamedTuple

from faber_ledger.files.conflict_markers import split_sides
from faber_ledger.files.json_text import JsonText
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.runs.git_command import run_git
from faber_ledger.runs.progress import FINISHED, phases_completed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.projections.blocks import Blocks

    Members = dict[str, Any]
    Left = tuple[str, str, str]  # a key's name, and what ours and theirs say of it, as JSON
    Align = Callable[[bytes, bytes], tuple[bytes, bytes]]  # of both sides


REQUIRED_KEYS = ("status", "phases")  # keys that a state lacks if it was written from the log alone
ABSENT = object()
DEEPEST = 20  # nested objects; a deeper value is merged as one


class Newer(NamedTuple):
    """The side of a merge whose state was updated later, and when."""

    side: str  # "ours" or "theirs", as git says it: in a rebase ours is the branch that commits are put onto
    updated_at: str

    def __str__(self) -> str:
        """Return the side, and when it was written."""
        return f"{self.side}, written later ({self.updated_at})"


def find_newer(ours: bytes, theirs: bytes) -> Newer | None:
    """Return the side with the later `updated_at`; None if they are equal, or one is no time or is missing."""
    try:
        states = [read_members(side) for side in (ours, theirs)]
    except (ValueError, RecursionError):
        return None
    mine, other = [seconds_of(state.get("updated_at")) for state in states]
    if mine is None or other is None or mine == other:
        return None
    return Newer("ours", states[0]["updated_at"]) if mine > other else Newer("theirs", states[1]["updated_at"])


def merge_states(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    blocks: Blocks | None = None,
    *,
    align: Align | None = None,
    takes_theirs: bool = False,
) -> tuple[bytes, list[Left]]:
    """Merge three versions of a state; return the merge, and the keys that both sides changed.

    These have our value, or theirs with `takes_theirs`. Git merges the lines, except for the later `updated_at`, and
    our blocks, which are `blocks` if they are known; `align` makes alike what means the same. A base that is no state
    counts as none: git merges several bases, and may leave markers. Raises LedgerError if a side is not a state.
    """
    try:
        if align is not None:
            ours, theirs = align(ours, theirs)
        sides = _align_blocks(base if is_state(base) else b"", ours, theirs, blocks)
    except ValueError as error:
        raise LedgerError(f"a side cannot be read: {error}") from error
    merged = None if _has_gutted_side(*sides) else _merge_lines(*sides)
    return (merged, []) if merged is not None and is_state(merged) else merge_by_key(*sides, takes_theirs=takes_theirs)


def settle_markers(
    content: bytes, base: bytes, *, align: Align | None = None, takes_theirs: bool = False
) -> tuple[bytes, list[Left]] | None:
    """Return a state as it is, or merged from the two sides of its conflict markers, and the keys left to a person.

    `base` is used before that of the markers, which is not exact in the style zdiff3. None if it is no state, and has
    no markers around two states.
    """
    if is_state(content):
        return content, []
    sides = split_sides(content)
    if sides is None or not (is_state(sides[1]) and is_state(sides[2])):
        return None
    try:
        return merge_states(base if is_state(base) else sides[0], *sides[1:], align=align, takes_theirs=takes_theirs)
    except LedgerError:  # the states of two runs
        return None


def _align_blocks(base: bytes, ours: bytes, theirs: bytes, blocks: Blocks | None) -> tuple[bytes, bytes, bytes]:
    """Return the three versions with the same blocks and the later `updated_at`, so that only other lines can conflict.

    The next projection writes the blocks again from the log. An empty base stays empty. Raises ValueError if a side is
    not a JSON object, or the two are states of different runs.
    """
    mine, other = _document_of(ours), _document_of(theirs)
    if mine.value.get("run_id") != other.value.get("run_id"):
        raise ValueError("the two sides are the states of two runs")
    members = _newer_blocks(_document_of(base or b"{}"), mine, other) if blocks is None else blocks
    time = {"updated_at": _later(mine.value, other.value)}

    def align(document: JsonText) -> bytes:
        return document.with_members(members | (time if "updated_at" in document.value else {})).encode()

    return align(_document_of(base)) if base else b"", align(mine), align(other)


def _newer_blocks(before: JsonText, mine: JsonText, other: JsonText) -> Blocks:
    """Return each block from the side that changed it; ours if both did, until a projection writes it from the log."""
    old, ours, theirs = blocks_of(before.value), blocks_of(mine.value), blocks_of(other.value)
    unchanged = {name for name in ours if name in old and name in theirs and _same(ours[name], old[name])}
    return theirs | {name: block for name, block in ours.items() if name not in unchanged}


def merge_by_key(base: bytes, ours: bytes, theirs: bytes, *, takes_theirs: bool = False) -> tuple[bytes, list[Left]]:
    """Merge key by key, in nested objects too; return the merge, and the keys that both sides changed.

    A key comes from the side that changed it. If both did, it comes from the side whose run is further along, as far as
    that says; else it is returned, as is one that one side removed, and it is ours, or theirs with `takes_theirs`. This
    is for sides whose changed lines are too near to each other for a merge of lines, such as two tools that each added
    a key. A gutted side beside a complete one counts as the base, except for the keys that only it has; if both are
    gutted, each gets the keys that it lacks from the base. A key that a complete side removed then stays removed.
    """
    before, mine, other = (_document_of(version or b"{}") for version in (base, ours, theirs))
    all_three = (before.value, mine.value, other.value)
    gutted = [_is_gutted(side.value, all_three) for side in (mine, other)]
    here, there = mine.value, other.value
    if gutted == [True, True]:
        here, there = _fill(here, before.value), _fill(there, before.value)
    elif gutted[0]:
        here = _add_own_keys(before.value, here, there)
    elif gutted[1]:
        there = _add_own_keys(before.value, there, here)
    left: list[Left] = []
    further = _further(here, there)
    merged = _merge(before.value, here, there, (), left, further, takes_removals=any(gutted), takes_theirs=takes_theirs)
    written = other if gutted == [True, False] else mine  # the complete one: no key has to be removed from it
    return _write(written, merged), left


def _has_gutted_side(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Return whether a side lacks `status` or `phases`, which the base or the other side has.

    0.1.0 wrote such a state.json from the log where it was missing, and sealed it: the keys were never removed.
    """
    before, mine, other = (_document_of(version or b"{}").value for version in (base, ours, theirs))
    return any([_is_gutted(side, (before, mine, other)) for side in (mine, other)])


def fill_gutted(side: bytes, base: bytes) -> bytes:
    """Add the base's keys to a gutted side that has no other side; any other side is returned unchanged."""
    if not (is_state(side) and is_state(base)):
        return side
    document, before = _document_of(side), _document_of(base).value
    if not _is_gutted(document.value, (before,)):
        return side
    return _write(document, _fill(document.value, before))


def add_edits(base: bytes, ours: bytes, merged: bytes, left: list[Left], here: bytes) -> tuple[bytes, list[Left]]:
    """Add to a merge what a person or a hook has changed since in the file, whose bytes are `here`.

    A value counts as changed if neither the merge, nor ours, nor the base has it, so a restored backup changes nothing.
    A changed key is no longer left to a person. In nested objects only the changed key is taken.
    """
    found, document = _document_of(here), _document_of(merged)
    before = _document_of(base if is_state(base) else b"{}")
    changed: list[str] = []
    is_gutted = _is_gutted(found.value, (document.value,))
    edited = _take_edits(
        _fill(found.value, document.value) if is_gutted else found.value,
        [document.value, _document_of(ours).value, before.value],
        (),
        changed,
    )
    if not changed:
        return merged, left
    return _write(found, edited), [one for one in left if not any([_touches(one[0], name) for name in changed])]


def _write(document: JsonText, members: Members) -> bytes:
    """Return a document with exactly these members, and every byte of those that do not differ as it was."""
    for name in [name for name in document.value if name not in members]:
        document = _remove(document, name)
    differing = {name: value for name, value in members.items() if not _same(value, document.value.get(name, ABSENT))}
    return document.with_members(differing).encode()


def _remove(document: JsonText, name: str) -> JsonText:
    start, end = document.spans[name]
    before = [one for _, one in document.spans.values() if one <= start]
    if before:
        return JsonText(document.text[: max(before)] + document.text[end:])
    rest = document.text[end:].lstrip().removeprefix(",")
    return JsonText(document.text[: document.first] + rest)


def names(left: list[Left]) -> list[str]:
    """Return the names of the keys that are left to a person; nested ones have dots: `phases.build.status`."""
    return [name for name, _, _ in left]


def is_complete(state: Members) -> bool:
    """Return whether a state has a value for each key that one written from the log alone lacks."""
    return all([state.get(name) for name in REQUIRED_KEYS])


def _is_gutted(state: Members, versions: tuple[Members, ...]) -> bool:
    return any([name not in state and any([name in one for one in versions]) for name in REQUIRED_KEYS])


def _fill(value: Any, before: Any, depth: int = 0) -> Any:
    """Add to a value the keys of `before` that it lacks, in nested objects too."""
    if not (isinstance(value, dict) and isinstance(before, dict)) or depth >= DEEPEST:
        return value
    keys = dict.fromkeys([*before, *value])
    return {key: _fill(value[key], before.get(key), depth + 1) if key in value else before[key] for key in keys}


def _add_own_keys(before: Any, gutted: Any, complete: Any, depth: int = 0) -> Any:
    """Add to the base the keys that only a gutted side has, in nested objects too.

    Its other values are older than the base's: the log knows only the phase that a session began in.
    """
    if not all([isinstance(value, dict) for value in (before, gutted, complete)]) or depth >= DEEPEST:
        return before
    alone = {key: value for key, value in gutted.items() if key not in before and key not in complete}
    both = [key for key in before if key in gutted and key in complete]
    return {
        **before,
        **{key: _add_own_keys(before[key], gutted[key], complete[key], depth + 1) for key in both},
        **alone,
    }


def _merge(
    before: Any,
    mine: Any,
    other: Any,
    path: tuple[str, ...],
    left: list[Left],
    further: dict[str, bool],
    *,
    takes_removals: bool,
    takes_theirs: bool,
) -> Any:
    """Merge three values key by key; add the keys that both sides changed to `left`, and take one side's value of them.

    A key that both sides changed comes from the side that is `further` there. One that only one side removed is added
    too, unless `takes_removals` is set.
    """
    if _same(mine, other) or _same(before, other):
        return mine
    if _both_objects(mine, other, path):
        keys = dict.fromkeys([*mine, *other])
        parts = {
            key: _merge(
                _at(before, key),
                _at(mine, key),
                _at(other, key),
                (*path, key),
                left,
                further,
                takes_removals=takes_removals,
                takes_theirs=takes_theirs,
            )
            for key in keys
        }
        return {key: value for key, value in parts.items() if value is not ABSENT}
    if _same(before, mine) and (other is not ABSENT or takes_removals):
        return other
    if path and path[0] in further:
        return mine if further[path[0]] else other
    left.append((_name(path), _shown(mine), _shown(other)))
    return other if takes_theirs else mine


def _further(mine: Members, other: Members) -> dict[str, bool]:
    """Return the keys that come from the side whose run is further along, each with whether that is ours.

    A finished run is further along than one at work; of two at work the one with more completed phases, which does not
    say which `status` holds. Two branches of one run differ in these keys, and a squash leaves no base for them.
    """
    finished = [side.get("status") in FINISHED for side in (mine, other)]
    if finished[0] != finished[1]:
        return dict.fromkeys(("status", "completed_at", "current_phase", "phases"), finished[0])
    completed = [len(phases_completed(side)) for side in (mine, other)]
    return (
        {} if completed[0] == completed[1] else dict.fromkeys(("current_phase", "phases"), completed[0] > completed[1])
    )


def _take_edits(here: Any, others: list[Any], path: tuple[str, ...], changed: list[str]) -> Any:
    """Put the values that only `here` has into the merge, the first of `others`; add their names to `changed`."""
    if any([_same(here, other) for other in others]):
        return others[0]
    if _both_objects(here, others[0], path):
        keys = dict.fromkeys([*others[0], *(others[1] if isinstance(others[1], dict) else ()), *here])
        parts = {
            key: _take_edits(_at(here, key), [_at(other, key) for other in others], (*path, key), changed)
            for key in keys
        }
        return {key: value for key, value in parts.items() if value is not ABSENT}
    changed.append(_name(path))
    return here


def _both_objects(one: Any, other: Any, path: tuple[str, ...]) -> bool:
    return isinstance(one, dict) and isinstance(other, dict) and len(path) < DEEPEST


def _at(value: Any, key: str) -> Any:
    return value.get(key, ABSENT) if isinstance(value, dict) else ABSENT


def _name(path: tuple[str, ...]) -> str:
    return ".".join([json.dumps(key) if "." in key or '"' in key else key for key in path])


def _touches(one: str, other: str) -> bool:
    """Return whether two names are the same key, or one is a key inside the other's object."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def is_state(content: bytes) -> bool:
    """Return whether bytes are one JSON object without duplicate keys, which a merge of lines may make."""
    try:
        _document_of(content)
        json.loads(content.decode("utf-8-sig"), object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError):
        return False
    return True


def updated_at(content: bytes) -> float:
    """Return when a state was updated, in seconds since 1970; 0 if it does not say."""
    return seconds_of(read_members(content).get("updated_at")) or 0.0


def read_members(content: bytes) -> Members:
    """Return a state's members; raises ValueError if it is not a JSON object."""
    return _document_of(content).value


def _document_of(content: bytes) -> JsonText:
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
    """Return the later time; ours if one of them is not a time."""
    times = [seconds_of(state.get("updated_at")) for state in (mine, other)]
    if times[1] is not None and (times[0] is None or times[1] > times[0]):
        return other["updated_at"]
    return mine.get("updated_at")


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> Members:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        for name, content in (("ours", ours), ("base", base), ("theirs", theirs)):
            overwrite(os.path.join(folder, name), content)
        done = run_git("merge-file", "-p", "-q", "ours", "base", "theirs", at=folder)
    return done.stdout if done.returncode == 0 else None


def overwrite(path: str, content: bytes) -> None:
    """Write a file in place, as git expects of a merge driver."""
    with open(path, "wb") as file:
        file.write(content)
