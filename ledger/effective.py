"""Which redactions of a log are effective, and which are forged: one answer for uniting, writing and reading logs.

Anyone who can write a ledger can write an `event_redacted` that `redact` would never have written. A forged one removes
nothing, and nothing from it is shown in place of a payload.
"""

from __future__ import annotations

import json

from faber_ledger.ledger.canonical import canonical, clean
from faber_ledger.ledger.gate import examine, find_form_fault, find_payload_fault
from faber_ledger.ledger.redaction import (
    WHOLE_BLOCKS,
    WORDS,
    complete,
    is_same,
    least_words,
    neutral_value,
    redact_all,
    redact_fields,
    redaction_of,
    with_least_words,
    without_envelope,
)
from faber_ledger.ledger.row import (
    HASH,
    ID,
    PARENTS,
    PAYLOAD,
    PLACE,
    ROW,
    SEQ,
    TYPE,
    VERSION,
    compute_hash,
    is_typed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable
    from typing import Any

    from faber_ledger.ledger.redaction import Payload, Redaction

MOST_COMPARED = 256  # of those that a redaction replaces, the newest: nobody redacts one event more often
REDACTIONS = f"{ROW} WHERE type = 'event_redacted' AND payload IS NOT NULL"


class Effective:
    """The effect of the redactions in one or several copies of a log; `by_id` has all of them.

    `by_event`: an event's effective redactions that no other superseded: one, or several that clones made apart.
    `gone`: the events whose payload a copy still has and must lose, each with the redaction that removes it.
    `forged`: by id, what is wrong with a redaction that removes nothing; `disproved`: by event, the redactions that its
    payload shows to be forged. `missing`: by id, the events that a redaction names and no copy has; until they are
    there, it removes nothing either.
    """

    def __init__(self, by_id: dict[str, Redaction]) -> None:
        self.by_id = by_id
        self.by_event: dict[str, list[Redaction]] = {}
        self.gone: dict[str, Redaction] = {}
        self.forged: dict[str, str] = {}
        self.disproved: dict[str, list[Redaction]] = {}
        self.missing: dict[str, list[str]] = {}

    @property
    def explained(self) -> set[str]:
        """Return the events whose payload may be missing, because an effective redaction names them."""
        return {name for several in self.by_event.values() for one in several for name in one.names}


def effective_redactions(*copies: sqlite3.Connection) -> Effective:
    """Decide which redactions of a log are effective, by all that these copies of it have, and what they remove.

    An event's payload is removed if a copy has it and `redact` would leave of it what the redaction says; an earlier
    redaction's payload, if a copy has it and the later redaction was made from it. Neither depends on anything else, so
    logs can be united in any order with the same result.
    """
    found = Effective(_redactions_in(copies))
    redactions = list(found.by_id.values())
    types = _types_of({name for one in redactions for name in one.names}, copies)
    for one in redactions:
        missing = [name for name in one.names if name not in types]
        if (fault := _find_fault(one, types)) is not None:
            found.forged[one.id] = fault
        elif missing:
            found.missing[one.id] = missing
    applicable = [one for one in redactions if one.id not in found.forged and one.id not in found.missing]
    made_from = _predecessors(applicable, found.by_id, types)
    for name, other in _settle(applicable, made_from, found).items():
        found.forged[name] = f"it says that it replaces {other}, which is of another event"
    candidates: dict[str, list[Redaction]] = {}
    for one in redactions:
        if one.id not in found.forged and one.id not in found.gone:
            candidates.setdefault(one.target, []).append(one)
    for target, several in candidates.items():
        row = row_with_payload(copies, target)
        if row is not None:
            _compare_with_payload(several, row, found)
        else:
            _compare_with_predecessors(several, made_from, found)
    return found


def _settle(applicable: list[Redaction], made_from: dict[str, frozenset[str]], found: Effective) -> dict[str, str]:
    """Fill `found.gone` with the redactions that later ones removed.

    Return the redactions that supersede one of another event, each with that one. A redaction that was removed no
    longer disproves another: each removal is looked at once, so that no chain of them costs more than the log is long.
    """
    others = {one.id: _of_another_event(one, found.by_id) for one in applicable}
    disproved_by: dict[str, list[str]] = {}
    for one in applicable:
        for name in others[one.id]:
            disproved_by.setdefault(name, []).append(one.id)
    left = {name: len(several) for name, several in others.items()}
    removed: set[str] = set()
    waiting = [name for name, count in left.items() if not count]
    while waiting:
        for name in made_from[waiting.pop()] - removed:
            removed.add(name)
            for later in disproved_by.get(name, ()):
                left[later] -= 1
                if not left[later]:
                    waiting.append(later)
    found.gone = {name: one for one in applicable if not left[one.id] for name in made_from[one.id]}
    return {one.id: next(name for name in others[one.id] if name not in removed) for one in applicable if left[one.id]}


def _redactions_in(copies: Iterable[sqlite3.Connection]) -> dict[str, Redaction]:
    """Return the readable redactions of these copies, in `(seq, id)` order."""
    rows = {row[ID]: row for copy in copies for row in copy.execute(REDACTIONS) if _is_unchanged(row)}
    found = [redaction_of(row[ID], row[PAYLOAD]) for row in sorted(rows.values(), key=lambda row: row[: ID + 1])]
    return {one.id: one for one in found if one is not None}


def _types_of(names: Iterable[str], copies: Collection[sqlite3.Connection]) -> dict[str, str]:
    """Return the types of the events that a copy has; of copies that differ, the first one's."""
    question = "SELECT type FROM event WHERE id = ?"
    types: dict[str, str] = {}
    for name in names:
        for copy in copies:
            for (kind,) in copy.execute(question, (name,)):
                types.setdefault(name, kind)
    return types


def _is_unchanged(row: tuple[Any, ...]) -> bool:
    """Return whether a row matches its hash; the copy that has it may have been changed by hand."""
    try:
        return is_typed(row) and compute_hash(row) == row[HASH]
    except (TypeError, ValueError, AttributeError):
        return False


def row_with_payload(copies: Iterable[sqlite3.Connection], name: str) -> tuple[Any, ...] | None:
    """Return the row of an event from a copy that has its payload, or None."""
    for copy in copies:
        for row in copy.execute(f"{ROW} WHERE id = ? AND payload IS NOT NULL", (name,)):
            if _is_unchanged(row):
                return tuple(row)
    return None


def _find_fault(one: Redaction, types: dict[str, str]) -> str | None:
    """Return why a redaction is forged whatever the payloads are, judged by its events' types, or None."""
    if one.id in one.names or one.target in one.supersedes:
        return "it says that it replaces itself, or the event that it redacts"
    for name in one.supersedes:
        if types.get(name, "event_redacted") != "event_redacted":
            return f"it says that it replaces {name}, which is not a redaction"
    kind = types.get(one.target)
    if kind is None:
        return None
    if kind == "event_redacted":
        return "its event is itself a redaction"
    if kind == "run_adopted" and (not one.fields or WHOLE_BLOCKS & {*one.fields}):
        return "it removes the blocks that the sessions of this run are counted from"
    kept = [one.remains.get(name, word) for name, word in least_words(kind).items()]
    if not all([isinstance(word, str) and word in WORDS for word in kept]) or not _is_left_of(one, kind, one.remains):
        return "what it leaves is not what `redact` leaves"
    return None


def _of_another_event(one: Redaction, by_id: dict[str, Redaction]) -> list[str]:
    """Return the redactions of another event that this one says it supersedes."""
    return [name for name in dict.fromkeys(one.supersedes) if name in by_id and by_id[name].target != one.target]


def _predecessors(
    applicable: list[Redaction], by_id: dict[str, Redaction], types: dict[str, str]
) -> dict[str, frozenset[str]]:
    """Return, by id, the known redactions that each of these was made from.

    What an earlier one was made from was removed by that one, and is not compared again. So a redaction after many
    others is compared with its last; after many that were made apart, with so many that the work stays in proportion
    to the log. Which these are depends on the redaction alone, since logs are united in any order.
    """
    made_from: dict[str, frozenset[str]] = {}
    for one in sorted(applicable, key=_count_superseded):  # one that replaces another names more than that
        newest = sorted(one.superseded)[-MOST_COMPARED:]
        found: set[str] = set()
        for other in sorted([by_id[name] for name in newest if name in by_id], key=_count_superseded, reverse=True):
            if other.id not in found and replaces(one, other, types[one.target]):
                found |= {other.id} | made_from.get(other.id, frozenset())
        made_from[one.id] = frozenset(found)
    return made_from


def _count_superseded(one: Redaction) -> int:
    return len(one.superseded)


def replaces(one: Redaction, other: Redaction, kind: str) -> bool:
    """Return whether a redaction can have been made from an earlier one of the same event, which is of type `kind`."""
    return (
        one.target == other.target
        and other.id in one.superseded
        and other.superseded <= one.superseded
        and one.covers(other.fields)
        and _is_left_of(one, kind, other.remains)
    )


def _compare_with_payload(several: list[Redaction], row: tuple[Any, ...], found: Effective) -> None:
    """Compare what the redactions of an event say that remains of it with its payload, which a copy has."""
    name, kind = row[ID], row[TYPE]
    try:
        payload = json.loads(row[PAYLOAD])
    except (ValueError, RecursionError):
        payload = None
    for one in several:
        if not isinstance(payload, dict) or not _is_left_of(one, kind, payload):
            found.forged[one.id] = "what it leaves is not what `redact` leaves of the event's payload, which is here"
            found.disproved.setdefault(name, []).append(one)
        elif one.id not in found.missing:
            found.by_event.setdefault(name, []).append(one)
            found.gone.setdefault(name, one)


def _compare_with_predecessors(
    several: list[Redaction], made_from: dict[str, frozenset[str]], found: Effective
) -> None:
    """Reject the redactions of an event that were made from none of those that they name; no copy has its payload."""
    for one in several:
        if one.supersedes and not made_from.get(one.id) and all([name in found.by_id for name in one.supersedes]):
            found.forged[one.id] = f"it says that it replaces {one.supersedes[0]}, and was not made from it"
        else:
            found.by_event.setdefault(one.target, []).append(one)


def _is_left_of(one: Redaction, kind: str, payload: Payload) -> bool:
    """Return whether `redact` would have left the same of a payload, or of what an earlier redaction left."""
    try:
        for base in (without_envelope(payload), complete(kind, payload)):
            if not one.fields:
                kept = [name for name, word in least_words(kind).items() if one.remains.get(name) == word]
                if _is_part(one.remains, with_least_words(kind, redact_all(base), kept)):
                    return True
            elif not _is_changed_elsewhere(one, base):
                left = with_least_words(kind, redact_fields(base, one.fields)[0], one.fields)
                if is_same(one.remains, left):
                    return True
    except (ValueError, TypeError, RecursionError):
        pass
    return False


def _is_changed_elsewhere(one: Redaction, payload: Payload) -> bool:
    """Return whether a member that a redaction does not name is not what it was.

    This costs little where many small redactions name one large event; to write its JSON for each would take seconds.
    """
    touched = {field.partition(".")[0] for field in one.fields}
    return any(
        name not in touched and clean(value) != clean(one.remains.get(clean(name))) for name, value in payload.items()
    )


def _is_part(one: Any, whole: Any) -> bool:
    """Return whether a value equals another one, except for parts that an earlier redaction replaced."""
    if isinstance(one, dict) and isinstance(whole, dict):
        return one.keys() == whole.keys() and all([_is_part(one[name], whole[name]) for name in whole])
    if isinstance(one, list) and isinstance(whole, list):
        rest = iter(map(canonical, whole))
        return all([canonical(item) in rest for item in one])
    return is_same(one, whole) or is_same(one, neutral_value(whole))


def lost_rows(
    connection: sqlite3.Connection, copies: Iterable[sqlite3.Connection], gone: Collection[str]
) -> list[tuple[Any, ...]]:
    """Return the rows that a log has lost to a place, or whose payload without an effective redaction.

    They are from the copies that still have them.
    """
    bare = [row for row in connection.execute(f"{ROW} WHERE payload IS NULL") if type(row[ID]) is str]
    rows = []
    for row in bare:
        whole = row_with_payload(copies, row[ID]) if row[ID] not in gone else None
        if whole is not None and (find_payload_fault(whole) or find_form_fault(whole)) is not None:
            whole = None
        if whole is None and (row[TYPE], row[VERSION]) == (PLACE, 0):  # perhaps under the event's id
            whole = _intact_row(copies, row[ID])
        if whole is not None and all([whole[at] == row[at] for at in (SEQ, PARENTS, HASH)]):
            rows.append(whole)
    return rows


def _intact_row(copies: Iterable[sqlite3.Connection], name: str) -> tuple[Any, ...] | None:
    """Return the row of an event from a copy that has it, with or without its payload, or None."""
    for copy in copies:
        for row in map(tuple, copy.execute(f"{ROW} WHERE id = ?", (name,))):
            found = examine(row)
            if found.fault is None:
                return found.row
    return None
