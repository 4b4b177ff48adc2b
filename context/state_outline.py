"""A run's state in the packet: compact JSON without what the position says and without bookkeeping.

The current phase is whole; of the others, which grow with every step and are needed least, stand their status, the
number of their steps and their error. Without room for all of it, each member has a line of its own: the current phase
first, its steps around the current one, other lists from their newest end.
"""

from __future__ import annotations

from faber_ledger.files.text import clip, one_line, shares, units
from faber_ledger.ledger.plain_json import encoder
from faber_ledger.runs.progress import (
    current_phase,
    current_step,
    phase_state,
    phase_states,
    phase_statuses,
    resume_point,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

CURRENT_SHARE = 0.6  # of the room, for the current phase, which also has what the others leave free
MAX_LINE = 100_000  # characters that are looked at: more has no room in any packet
MAX_ERROR = 200
MIN_SAID, LONG_SAID = 12, 200  # characters of a text to look for above, and of a text that may go on there
DEPTH = 4  # of the objects and lists that times are left out of
# The ledger's blocks, the tool's own versions and the times: none of them says what to do next. The order stays.
BLOCKS = ("sessions", "context_metadata")
VERSIONS = ("run_id", "workflow_version", "config_hash", "schema_version", "version", "$schema")
TIMES = (
    *("started_at", "completed_at", "updated_at", "created_at", "ended_at", "requested_at", "posted_at"),
    *("timestamp", "at", "duration_ms"),
)
BOOKKEEPING = frozenset([*BLOCKS, *VERSIONS, *TIMES])
_dumps = encoder(separators=(",", ":"))


def compact_state(
    state: dict[str, Any], shown: Collection[str], room: int, *, above: str = "", is_long: bool = False
) -> tuple[str, bool]:
    """Return a state in at most `room` UTF-16 units, and whether nothing but bookkeeping is left out.

    `shown` has the keys that stand elsewhere in full; what else of its texts the text `above` says, is left out, too.
    A state that `is_long` is not tried as a whole. The text may be empty.
    """
    phase, statuses = current_phase(state), phase_statuses(state)
    states = phase_states(state)
    others = {name: _describe_phase(states[name], status) for name, status in statuses.items() if name != phase}
    depth = 0 if is_long else DEPTH
    current = _unsaid(_pruned(phase_state(state, phase), depth), above)
    current = {name: value for name, value in current.items() if f"phase.{name}" not in shown}
    members = _members(state, shown, depth)
    members = {
        name: _unsaid(value, above) if isinstance(value, dict) and name != "phases" else value
        for name, value in _unsaid(members, above).items()
    }
    is_whole = all([words == statuses[name] for name, words in others.items()])
    if "phases" in members and (current or others):
        phases = {name: others.get(str(name), current) for name in [*others, *([phase] if current else [])]}
        members["phases"] = {name: phases[name] for name in [*statuses, *phases] if name in phases}
        entries = state["phases"].values() if isinstance(state["phases"], dict) else state["phases"]
        is_whole = is_whole and sum([entry not in ({}, None) for entry in entries]) == len(phases)
    text = "" if is_long and members else _json(members)
    if text and units(text) < room:
        return f"{text}\n", is_whole
    members.pop("phases", None)
    point = resume_point(state)
    step = (point["step"] if point and point["phase"] == phase else None) or current_step(state)
    return _outline(phase, step, current, others, members, room), False


def _members(state: dict[str, Any], shown: Collection[str], depth: int) -> dict[str, Any]:
    """Return the members of a state that are worth giving."""
    unsaid = dict(state)
    if "errors[-1]" in shown:
        unsaid["errors"] = state["errors"][:-1]
    if isinstance(artifacts := state.get("artifacts"), dict):
        unsaid["artifacts"] = {name: one for name, one in artifacts.items() if f"artifacts.{name}" not in shown}
    return {
        name: _pruned(value, depth)
        for name, value in unsaid.items()
        if name not in shown and name not in BOOKKEEPING and value not in (None, "", [], {})
    }


def _unsaid(members: dict[str, Any], above: str) -> dict[str, Any]:
    """Return an object without the texts that stand above as the end of a line or before a bracket.

    If only the beginning of a long text is shown above, the rest is.
    """
    kept = {}
    for name, value in members.items():
        if not isinstance(value, str) or len(value) < MIN_SAID or name == "status":
            kept[name] = value
        elif f" {value}\n" not in above and f" {value} (" not in above:
            kept[name] = _rest(value, above)
    return kept


def _rest(text: str, above: str) -> str:
    """Return a text without the beginning of it that stands above."""
    at = above.find(text[:LONG_SAID]) if len(text) > LONG_SAID else -1
    if at < 0:
        return text
    said = LONG_SAID
    while text[said : said + 1] and text[said : said + 1] == above[at + said : at + said + 1]:
        said += 1
    return f"… {text[text.rfind(' ', 0, said) + 1 :]}"


def _pruned(value: Any, depth: int) -> Any:
    """Return a value without times in its objects and lists, as deep as that."""
    if depth == 0:
        return value
    if isinstance(value, dict):
        return {name: _pruned(member, depth - 1) for name, member in value.items() if name not in TIMES}
    if isinstance(value, list):
        return [_pruned(item, depth - 1) for item in value]
    return value


def _describe_phase(of_phase: dict[str, Any], status: str) -> str:
    """Return a phase as its status, the number of its steps, and its error."""
    words = [status]
    phase = _pruned(of_phase, 1)
    for key in ("steps", "completed_steps"):
        steps = phase.get(key)
        if isinstance(steps, (list, dict)) and steps:
            words.append(f"{len(steps)} {key.replace('_', ' ')}")
    if phase.get("error"):
        words.append(f"error: {one_line(phase['error'], MAX_ERROR)}")
    is_all = phase.keys() <= {"status", "name", "phase_name", "id"}
    return ", ".join(words) + ("" if is_all or len(words) > 1 else ", …")


def _outline(
    phase: str | None,
    step: str | None,
    current: dict[str, Any],
    others: dict[str, str],
    rest: dict[str, Any],
    room: int,
) -> str:
    others_text = one_line(f'"phases": {_json(others)}', 2_000) + "\n" if others else ""
    texts = [_line(name, value, room) for name, value in rest.items()]
    free = room - units(others_text) - sum(map(units, texts))
    for_current = max(int(room * CURRENT_SHARE), free)
    head = (_phase_lines(f"phases.{phase}", step, current, for_current) if current else "") + others_text
    limits = shares([units(text) for text in texts], room - units(head))
    members = [_line(name, value, limit) for (name, value), limit in zip(rest.items(), limits, strict=True)]
    return clip(head + "".join(members), max(room, 0))


def _phase_lines(name: str, step: str | None, value: dict[str, Any], room: int) -> str:
    """Return a phase on one line if it has room, else each of its members, the long ones cut."""
    whole = one_line(f"{_json(name)}: {_json(value)}", MAX_LINE) + "\n"
    if units(whole) <= room:
        return whole
    steps = value.get("steps")
    if isinstance(steps, dict):
        value = {**value, "steps": [{key: one} for key, one in steps.items()]}
    middle = _place_of_step(value.get("steps"), {step, f"{name.removeprefix('phases.')}:{step}"})
    middles = {key: middle if key == "steps" else None for key in value}
    texts = [_line(f"{name}.{key}", member, room, middles[key]) for key, member in value.items()]
    limits = shares([units(text) for text in texts], room)
    lines = []
    for (key, member), text, limit in zip(value.items(), texts, limits, strict=True):
        lines.append(text if units(text) <= limit else _line(f"{name}.{key}", member, limit, middles[key]))
    return "".join(lines)


def _place_of_step(steps: object, names: set[str | None]) -> int | None:
    """Return which of a phase's steps, each an object, has one of the names; None if none has."""
    for place, step in enumerate(steps if isinstance(steps, list) else []):
        if isinstance(step, dict):
            called = [value for key in ("id", "step_id", "name") if isinstance(value := step.get(key), str)]
            if names.intersection(called or list(step)[:1]):
                return place
    return None


def _line(name: str, value: Any, room: int, middle: int | None = None) -> str:
    """Return a member on one line of at most `room` units: of a list that is too long the items around a `middle`.

    Without one, its newest items.
    """
    if isinstance(value, list):
        return _list_line(name, value, room, middle)
    text = one_line(f"{_json(name)}: {_json(value)}", MAX_LINE)
    return f"{clip(text, room - 1)}\n" if room > len(name) else ""


def _list_line(name: str, value: list[Any], room: int, middle: int | None) -> str:
    """Return a list's newest items; with a `middle` those from it on, and the one before it."""
    total = len(value)
    left = room - units(f"{_json(name)} (the last {total} to {total} of {total}): []\n")
    kept: dict[int, str] = {}
    order = list(range(total - 1, -1, -1))
    if middle is not None:
        order = [middle, *range(middle + 1, total)]
        order[2:2] = range(max(middle - 1, 0), middle)
    for at in order:
        piece = one_line(_json(_pruned(value[at], DEPTH)), MAX_LINE)
        left -= units(piece) + 2
        if left < 0:
            break
        kept[at] = piece
    places = sorted(kept)
    if not kept:  # an empty list would say nothing: the beginning of the newest item does
        head = f"{_json(name)} (the newest of {total}, cut): "
        left = min(room - units(head) - 1, MAX_ERROR)
        piece = one_line(_json(_pruned(value[order[0]], DEPTH)), MAX_LINE)
        return f"{head}{clip(piece, left)}\n" if left >= MIN_SAID else ""
    count = "" if len(kept) == total else f" (the last {len(kept)} of {total})"
    if places and places[-1] + 1 < total:
        count = f" ({places[0] + 1} to {places[-1] + 1} of {total})"
    text = f"{one_line(_json(name))}{count}: [{', '.join([kept[at] for at in places])}]\n"
    return text if units(text) <= room else ""


def _json(value: Any) -> str:
    """Return a value as JSON on one line; characters that hide are replaced in the whole packet."""
    try:
        return _dumps(value)
    except RecursionError:
        return '"…"'
