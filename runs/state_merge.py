"""Merge three versions of a `state.json`, without a conflict, each value that was not used named; unite two ledgers.

A key has the value of the side that changed it, in nested objects and in lists of phases too. Where both sides did, an
object whose status is completed or cancelled wins over one at work; else the side whose state was updated later wins.
Phase and step count as one key, since a step of another phase is none.
"""

from __future__ import annotations

import json
import sqlite3
from typing import NamedTuple

from faber_ledger.files.json_text import JsonText
from faber_ledger.files.text import clip
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import IntegrityError, LedgerError, NewerFormat, UnionConflict
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.union import Passing, write_union
from faber_ledger.projections.fold import NAMES, is_too_deep
from faber_ledger.runs.progress import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.projections.fold import Blocks

    Members = dict[str, Any]
    from collections.abc import Mapping


OURS, THEIRS = "ours", "theirs"  # as git says it: in a rebase ours is the branch that commits are put onto
UPDATED_AT = "updated_at"
ABSENT = object()
POSITION = ("current_phase", "current_step", "current_step_id")
ITEM_NAMES = ("phase_name", "name", "id", "step_id", "session_id")  # what names an object in a list
LONGEST_VALUE = 200


class Loss(NamedTuple):
    """A key that both sides changed, the side whose value is used, and the other's value as JSON, or None without one.

    The names of nested keys are joined with dots: `phases.build.status`. Without a base, which `has_base` says, it is
    not known who changed it.
    """

    key: str
    used: str
    other: str | None
    has_base: bool = True

    def __str__(self) -> str:
        """Say it in one line."""
        return self.line({})

    def line(self, names: Mapping[str, str]) -> str:
        """Say it in one line, with these names of the sides."""
        side = THEIRS if self.used == OURS else OURS
        value = "removed it" if self.other is None else f"had {clip(self.other, LONGEST_VALUE)}"
        what = f"both sides changed {self.key}" if self.has_base else f"the sides differ in {self.key}"
        return f"{what}: {names.get(self.used, self.used)} is used, {names.get(side, side)} {value}"


class Merged(NamedTuple):
    """A merged state; `remark` names a side that was not used at all."""

    content: bytes
    losses: list[Loss]
    remark: str = ""

    def lines(self, names: Mapping[str, str] | None = None) -> list[str]:
        """Name what was not used, a line each and a step once, perhaps with other `names` of the sides."""
        shown: list[Loss] = []
        for loss in self.losses:
            if not any([_say_same_step(loss, one) for one in shown]):
                shown.append(loss)
        return [*([self.remark] if self.remark else []), *[loss.line(names or {}) for loss in shown]]


def _say_same_step(one: Loss, other: Loss) -> bool:
    """Return whether two losses are of the same step, which a state has by name and by id, in its phase too."""
    mine, theirs = _step_of(one), _step_of(other)
    if mine is None or theirs is None or (one.used, mine[1]) != (other.used, theirs[1]):
        return False
    return mine[0] == theirs[0] or None in (mine[0], theirs[0])


def _step_of(loss: Loss) -> tuple[str | None, str | None] | None:
    """Return the phase, None if it is not said, and the name of the step that a side had; None for another key."""
    place, _, key = loss.key.rpartition(".")
    if key not in POSITION[1:] or (place and not place.startswith("phases.")):
        return None
    phase, name = place.removeprefix("phases.") or None, loss.other
    if key == POSITION[2] and name and ":" in name:
        before, _, after = name.partition(":")
        return phase or before.strip('"'), f'"{after}'
    return phase, name


def merge_states(base: bytes, ours: bytes, theirs: bytes, blocks: Blocks | None) -> Merged:
    """Merge three versions of a state; our two blocks are `blocks`, if they are known.

    Of a side that cannot be read, or is another run's state, nothing is used. If neither can be read, the content is
    our side as it is. A base that cannot be read counts as none.
    """
    before, mine, other = _read(base), _read(ours), _read(theirs)
    remark = _name_unreadable(mine, other)
    if mine is not None and other is not None and _are_two_runs(mine.value, other.value):
        used = THEIRS if before is not None and _has_run_of(before.value, other.value) else OURS
        mine, other = (None, other) if used == THEIRS else (mine, None)
        remark = f"the two sides are the states of two runs: {used} is used"
    if mine is not None and other is not None:
        members, losses = _merge_members({} if before is None else before.value, mine.value, other.value)
        named = [loss._replace(has_base=before is not None) for loss in losses]
        return Merged(_write(mine, members | (blocks or {})), named)
    only = mine or other
    return Merged(ours if only is None else _write(only, only.value | (blocks or {})), [], remark)


def is_state(content: bytes) -> bool:
    """Return whether bytes are one JSON object."""
    return _read(content) is not None


def read_members(content: bytes) -> Members:
    """Return a state's members; raises ValueError if it is not a JSON object."""
    return JsonText(content.decode()).value


def overwrite(path: str, content: bytes) -> None:
    """Write a file in place, as git expects of a merge driver."""
    with open(path, "wb") as file:
        file.write(content)


def _read(content: bytes) -> JsonText | None:
    try:
        document = JsonText(content.decode())
    except (ValueError, RecursionError):
        return None
    return None if is_too_deep(document.value) else document


def _name_unreadable(mine: JsonText | None, other: JsonText | None) -> str:
    if mine is None and other is None:
        return f"neither side can be read: {OURS} is used"
    if mine is None:
        return f"{OURS} cannot be read: {THEIRS} is used"
    return f"{THEIRS} cannot be read: {OURS} is used" if other is None else ""


def _are_two_runs(mine: Members, other: Members) -> bool:
    return None not in (mine.get("run_id"), other.get("run_id")) and not _has_run_of(mine, other)


def _has_run_of(one: Members, other: Members) -> bool:
    return _is_same(one.get("run_id"), other.get("run_id"))


def _merge_members(before: Members, mine: Members, other: Members) -> tuple[Members, list[Loss]]:
    """Merge the members of two states; our blocks, which are written again, and times alone are never a loss."""
    is_theirs_later = _is_later(other.get(UPDATED_AT), mine.get(UPDATED_AT))
    losses: list[Loss] = []
    rest, places = [[_only(side, POSITION, is_in) for side in (before, mine, other)] for is_in in (False, True)]
    merged = _merge(rest[0], rest[1], rest[2], (), losses, takes_theirs=is_theirs_later)
    base, moved = places[0], list[Loss]()
    if base not in places[1:]:  # both sides have moved: all of it is of one side
        places[0] = {name: {"is": "neither side's"} for name in POSITION}
    is_theirs = _is_place_theirs(merged, mine, other, default=is_theirs_later)
    merged |= _merge_each(places[0], places[1], places[2], (), moved, takes_theirs=is_theirs)
    losses += [loss for loss in moved if loss.other != _as_json(_at(base, loss.key))]
    if UPDATED_AT in mine and UPDATED_AT in other:
        merged = {**merged, UPDATED_AT: (other if is_theirs_later else mine)[UPDATED_AT]}
    return merged, [loss for loss in losses if loss.key.partition(".")[0] not in NAMES and not loss.key.endswith("_at")]


def _is_place_theirs(merged: Members, mine: Members, other: Members, *, default: bool) -> bool:
    """Return whose phase and step count: the finished run's, else those of a phase that the other has not finished."""
    finished = [_is_finished(side) for side in (mine, other)]
    if finished[0] == finished[1]:
        finished = [not _is_overtaken(merged, side) for side in (mine, other)]
    return finished[1] if finished[0] != finished[1] else default


def _is_overtaken(merged: Members, side: Members) -> bool:
    """Return whether only the other side has finished the phase that a side is in."""
    here, there = [(_by_name(one.get("phases")) or {}).get(str(side.get(POSITION[0]))) for one in (side, merged)]
    return _is_finished(there) and not _is_finished(here)


def _only(members: Members, names: tuple[str, ...], is_in: bool) -> Members:
    """Return the members with one of some names, or those with none of them."""
    return {name: value for name, value in members.items() if (name in names) == is_in}


def _merge(before: Any, mine: Any, other: Any, path: tuple[str, ...], losses: list[Loss], *, takes_theirs: bool) -> Any:
    """Merge three values; add what is not used to `losses`, and take their value there if `takes_theirs`."""
    if _is_same(mine, other) or _is_same(before, other):
        return mine
    if _is_same(before, mine):
        return other
    finished = [_is_finished(side) for side in (mine, other)]
    if finished[0] != finished[1]:
        takes_theirs = finished[1]
    here, there = _by_name(mine), _by_name(other)
    is_whole = path and finished[0] != finished[1]  # a phase that one side has finished is taken as it is there
    if not is_whole and type(mine) is type(other) and here is not None and there is not None:
        merged = _merge_each(_by_name(before) or {}, here, there, path, losses, takes_theirs=takes_theirs)
        return merged if isinstance(mine, dict) else [*merged.values()]
    value = mine if takes_theirs else other
    used = THEIRS if takes_theirs else OURS
    losses.append(Loss(_join(path), used, _as_json(value)))
    return other if takes_theirs else mine


def _merge_each(
    before: Members, mine: Members, other: Members, path: tuple[str, ...], losses: list[Loss], *, takes_theirs: bool
) -> Members:
    merged = {
        name: _merge(
            _at(before, name), _at(mine, name), _at(other, name), (*path, name), losses, takes_theirs=takes_theirs
        )
        for name in dict.fromkeys([*mine, *other])
    }
    return {name: value for name, value in merged.items() if value is not ABSENT}


def _by_name(value: Any) -> Members | None:
    """Return an object's members, or a list of objects by the name that each has; None for any other value."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all([isinstance(item, dict) for item in value]):
        return None
    named: Members = {}
    for item in value:
        named |= dict.fromkeys([item[key] for key in ITEM_NAMES if isinstance(item.get(key), str)][:1], item)
    return named if len(named) == len(value) else None


def _as_json(value: Any) -> str | None:
    return None if value is ABSENT else json.dumps(value, ensure_ascii=False)


def _is_finished(value: Any) -> bool:
    return isinstance(value, dict) and value.get("status") in FINISHED


def _is_later(one: object, other: object) -> bool:
    mine, theirs = seconds_of(one), seconds_of(other)
    return mine is not None and theirs is not None and mine > theirs


def _write(document: JsonText, members: Members) -> bytes:
    """Return a document with exactly these members, and every byte of those that do not differ as it was."""
    for name in [name for name in document.value if name not in members]:
        document = _remove(document, name)
    differing = {name: value for name, value in members.items() if not _is_same(value, _at(document.value, name))}
    return document.with_members(differing).encode()


def _remove(document: JsonText, name: str) -> JsonText:
    start, end = document.spans[name]
    before = [one for _, one in document.spans.values() if one <= start]
    if before:
        return JsonText(document.text[: max(before)] + document.text[end:])
    rest = document.text[end:].lstrip().removeprefix(",")
    return JsonText(document.text[: document.first] + rest)


def _at(members: Members, name: str) -> Any:
    return members.get(name, ABSENT)


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (
        ABSENT not in (one, other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def _join(path: tuple[str, ...]) -> str:
    return ".".join([json.dumps(key) if "." in key or '"' in key else key for key in path])


def merge_ledgers(sides: Mapping[str, str], out: str) -> tuple[int, list[str]]:
    """Write the union of ledgers, by the names of their sides, to `out`; return its number of events, and what to say.

    A side that cannot be read is left out, and named; so is each event that the gate refuses. Raises NewerFormat,
    UnionConflict for two runs under one id, and IntegrityError if no side can be read; `out` is unchanged then.
    """
    try:
        return write_union([*sides.values()], out)
    except (NewerFormat, UnionConflict):
        raise
    except (LedgerError, sqlite3.Error):
        faults = {side: fault for side, path in sides.items() if (fault := _find_fault(path)) is not None}
    lines = [f"{side} cannot be read and is left out: {fault}" for side, fault in faults.items()]
    readable = [path for side, path in sides.items() if side not in faults]
    if not readable:
        raise IntegrityError("; ".join([f"{side} cannot be read: {fault}" for side, fault in faults.items()]))
    count, more = write_union(readable, out)
    return count, [*lines, *more]


def _find_fault(path: str) -> str | None:
    """Return why a ledger cannot be read to its end, or None."""
    try:
        with open_untrusted(path) as log:
            for _ in Passing([log]):
                pass
    except (LedgerError, sqlite3.Error) as error:
        return str(error).replace(path, "it")
    return None
