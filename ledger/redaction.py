"""What replaces a payload that was redacted, and how payloads are removed from a log.

An `event_redacted` names the event, the fields that were removed and what remains of the payload. The event itself
keeps its envelope, its `hash` and the salted hash of its payload, so that every later event stays valid.
"""

from __future__ import annotations

import json

from faber_ledger.ledger.canonical import canonical, clean, payload_hash
from faber_ledger.ledger.event_types import DELIVERY, ENVIRONMENT, EVENT_TYPES, REDACTED, redacted_form
from faber_ledger.ledger.file import FORMAT_1, statements
from faber_ledger.ledger.row import COLUMNS, HASH, ID, PAYLOAD, SALT, TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    Payload = dict[str, Any]

BLOCKS = "blocks"  # of a run_adopted: JSON text, but paths lead into it as into an object
# Words of a closed vocabulary, which reveal nothing; every other text is removed.
WORDS = frozenset(
    [
        *("frame", "architect", "build", "evaluate", "release"),
        *("startup", "resume", "clear", "compact", "compaction", "normal", "manual", "abandoned", "auto"),
        *("session_start", "phase_start", "phase_transition", "compaction_detected"),
        *("inline", "outline", "pointer", "deferred", "repeated", "subagent", "no_session", "note", "summary"),
        *("pending", "in_progress", "paused", "awaiting_feedback", "completed", "failed", "cancelled"),
    ]
)
MAX_NAME_LETTERS = 255
FEW_FIELDS = 32
JOINING = dict.fromkeys(map(ord, "._-/"))  # what joins the letters and digits of a run's id
MAX_PATH_LETTERS = 4096  # no field of an honest event has a longer path
KEPT = ("run_id",)  # it is the name of the run's folder
NEVER_UPDATED = next(text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_is_never_updated"))
WHOLE_BLOCKS = {BLOCKS, f"{BLOCKS}.sessions", f"{BLOCKS}.context_metadata"}  # the sessions are counted from these


class Redaction:
    """One readable `event_redacted`: its own id, and its payload."""

    def __init__(self, name: str, payload: Payload) -> None:
        self.id = name
        self.target: str = payload["event_id"]
        self.fields: list[str] = payload["fields"]
        self.supersedes: list[str] = payload["supersedes"]
        self.superseded = frozenset(self.supersedes)  # made once: each redaction is compared with many
        self.names = (self.target, *self.supersedes)
        self.remains: Payload = payload["remains"]
        self.reason: str | None = payload["reason"]

    def covers(self, fields: Iterable[str]) -> bool:
        """Return whether it removed all of these fields; an empty list means the complete payload."""
        wanted, own = list(fields), {*self.fields}
        return not own or (bool(wanted) and all([field in own or _is_within(field, own) for field in wanted]))


def redaction_of(name: str, payload: str | bytes | None) -> Redaction | None:
    """Read the payload of an `event_redacted`; None if it is not what this program writes."""
    try:
        read = json.loads(payload or "")
        fields, supersedes = read["fields"], read["supersedes"]
        if isinstance(fields, list) and isinstance(supersedes, list) and isinstance(read["remains"], dict):
            texts = [read["event_id"], read["reason"] or "", *fields, *supersedes]
            return Redaction(name, read) if all([isinstance(text, str) for text in texts]) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return None


def remains(kind: str, redactions: list[Redaction]) -> Payload:
    """Return what is shown in place of an event's payload: what all its redactions left, completed for its type.

    Nobody can compare it with the payload: it has the members of its type and no others, whose names may say anything.
    """
    try:
        shown = complete(kind, united_remains(kind, redactions)[1])
    except (ValueError, TypeError, RecursionError):  # nested more deeply than anything a ledger writes
        return dict(redacted_form(kind))
    if "run_id" in shown and not _is_run_id(shown["run_id"]):
        shown["run_id"] = REDACTED
    if kind not in EVENT_TYPES:
        return {name: value for name, value in shown.items() if name.isidentifier() and len(name) <= MAX_NAME_LETTERS}
    inner = {"environment": ENVIRONMENT, "delivery": DELIVERY}
    return {
        name: _with_members(value, inner.get(name, ()))
        for name, value in shown.items()
        if name in EVENT_TYPES[kind].members
    }


def _with_members(value: Any, names: Collection[str]) -> Any:
    """Return a value, of an object only these members; without any, no event of a known type has an object there."""
    if isinstance(value, dict) and not names:
        return REDACTED
    return {name: value[name] for name in value if name in names} if isinstance(value, dict) else value


def _is_run_id(text: Any) -> bool:
    """Return whether a text has the letters of a run's id, the one free text that stays of a whole payload."""
    return (
        isinstance(text, str) and len(text) <= MAX_NAME_LETTERS and text.isascii() and text.translate(JOINING).isalnum()
    )


def united_remains(kind: str, redactions: list[Redaction]) -> tuple[list[str], Payload]:
    """Return the fields that several redactions of an event removed (none: all of them), and what they left.

    A field on which they contradict each other is removed, since it is unknown which of them is right.
    """
    several = [one for one in redactions if not one.fields] or redactions
    fields = {field for one in several for field in one.fields}
    lefts = [_without(complete(kind, one.remains), fields) for one in several]
    if not lefts:
        return [], {}
    first = min(lefts, key=_size)  # compared with each other one: no comparison costs more than the other is long
    apart = {path for other in lefts if other is not first for path in _differences(first, other)}
    left, unknown = redact_fields(first, apart)
    left = with_least_words(kind, left, {*fields, *apart})
    nameless = {*unknown, *[name for name in apart if name in left and "." in name]}
    named = sorted({*fields, *apart} - nameless) if fields else []
    return named, {name: value for name, value in left.items() if name not in nameless}


def _without(payload: Payload, fields: Collection[str]) -> Payload:
    """Return a payload without those of these fields that it has: very many others cost nothing."""
    here = fields if len(fields) < FEW_FIELDS else [path for path in list_paths(payload) if path in fields]
    return redact_fields(payload, here)[0]


def _size(value: Any) -> int:
    """Return the number of a value's parts."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def is_consistent(kind: str, redactions: list[Redaction]) -> bool:
    """Return whether redactions of one event can all have been made from its payload."""
    fields = {field for one in redactions for field in one.fields}
    lefts = [_without(complete(kind, one.remains), fields) for one in redactions]
    if not all([one.fields for one in redactions]):
        lefts = [redact_all(left) for left in lefts]
    return all([is_same(lefts[0], left) for left in lefts[1:]])


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values have the same JSON; with `==`, 1 would equal True."""
    return canonical(one) == canonical(other)


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two values differ; for a member that no path can name, its holder's path."""
    if type(one) is str and type(other) is str and path != BLOCKS:
        if one != other:
            yield path
        return
    if path == BLOCKS and _parse_blocks(one) is not None and _parse_blocks(other) is not None:
        one, other = _parse_blocks(one), _parse_blocks(other)
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(name, one.get(name), other.get(name)) for name in {**one, **other}]
        is_alike = path == "" or (one.keys() == other.keys() and not any(["." in name for name in one]))
    elif isinstance(one, list) and isinstance(other, list):
        pairs = [(str(at), *pair) for at, pair in enumerate(zip(one, other, strict=False))]
        is_alike = len(one) == len(other)
    else:
        pairs, is_alike = [], False
    if is_alike:
        for name, inner, opposite in pairs:
            yield from _differences(inner, opposite, f"{path}.{name}" if path else name)
    elif json.dumps(one, sort_keys=True) != json.dumps(
        other, sort_keys=True
    ):  # blocks may have numbers that are not canonical
        yield path


def complete(kind: str, payload: Payload) -> Payload:
    """Return a payload with every field that readers of its type need; values of the wrong type are replaced."""
    least = redacted_form(kind)
    given = without_envelope(payload).items()
    return least | {name: value for name, value in given if least.get(name) is None or type(value) is type(least[name])}


def without_envelope(payload: Payload) -> Payload:
    """Return a payload without the members that a reader takes from the event's envelope."""
    return {name: value for name, value in payload.items() if name not in ("type", "session_id")}


def still_holds_payload(connection: sqlite3.Connection, gone: Iterable[str]) -> bool:
    """Return whether a log still has the payload of any of these events."""
    question = "SELECT 1 FROM event WHERE id = ? AND payload IS NOT NULL"
    return any(connection.execute(question, (name,)).fetchone() for name in gone)


def restore_rows(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Put rows back in their places in a log's open transaction, and drop its checkpoint; raises sqlite3.Error."""
    names = [*COLUMNS][TYPE:HASH]
    connection.execute("SAVEPOINT restore")
    try:
        connection.execute("DROP TRIGGER event_is_never_updated")
        connection.executemany(
            f"UPDATE event SET {', '.join([f'{name} = ?' for name in names])} WHERE id = ?",
            [(*row[TYPE:HASH], row[ID]) for row in rows],
        )
        connection.execute(NEVER_UPDATED)
        connection.execute("DELETE FROM projection")
    except BaseException:
        if connection.in_transaction:  # else SQLite rolled everything back
            connection.execute("ROLLBACK TO restore")
            connection.execute("RELEASE restore")
        raise
    connection.execute("RELEASE restore")


def without_payload(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace a row's salt and payload by the payload's hash."""
    if row[PAYLOAD] is None or row[SALT] is None:
        return row
    return (*row[:SALT], None, None, payload_hash(row[SALT], row[PAYLOAD]), *row[12:])


def strip_in_place(connection: sqlite3.Connection, gone: Iterable[str]) -> None:
    """Remove these events' payloads from a log that others have open, in its open transaction.

    Freed pages may still hold them: after the commit, the caller runs VACUUM, which writes the file again.
    """
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("DROP TRIGGER event_is_never_updated")
    question = "SELECT salt, payload FROM event WHERE id = ? AND salt IS NOT NULL AND payload IS NOT NULL"
    change = "UPDATE event SET salt = NULL, payload = NULL, payload_hash = ? WHERE id = ?"
    for name in gone:
        for salt, payload in connection.execute(question, (name,)).fetchall():
            connection.execute(change, (payload_hash(salt, payload), name))
    connection.execute(NEVER_UPDATED)


def command_for(target: str, redactions: Iterable[Redaction]) -> str:
    """Return the command that completes these redactions of an event, or replaces several by one."""
    from shlex import quote  # only for hints

    several = list(redactions)
    fields = sorted({field for one in several for field in one.fields}) if all([one.fields for one in several]) else []
    return " ".join(["faber-ledger redact", quote(target), *[f"--field {quote(field)}" for field in fields], "--yes"])


# What may remain


def redact_all(payload: Payload) -> Payload:
    """Return what may remain of a whole payload: numbers, booleans, and words of a closed vocabulary."""
    return {name: value if name in KEPT else _reduce(value) for name, value in clean(payload).items()}


def _reduce(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in WORDS else REDACTED
    if isinstance(value, dict):
        return {name: _reduce(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, str) and inner in WORDS]
    return value


def redact_fields(payload: Payload, fields: Iterable[str]) -> tuple[Payload, list[str]]:
    """Return a payload with the values at these paths replaced, and the paths that lead nowhere."""
    made: Payload = clean(payload)
    names = {*fields}
    blocks = _parse_blocks(made.get(BLOCKS)) if any([name.startswith(f"{BLOCKS}.") for name in names]) else None
    unknown = []
    for field in sorted(names):
        if _is_within(field, names):
            continue  # the value that holds it goes
        first, _, rest = field.partition(".")
        try:
            if blocks is not None and first == BLOCKS and rest:
                _replace(blocks, rest.split("."))
                made[BLOCKS] = ""  # written below, once
            else:
                _replace(made, field.split("."))
        except KeyError:
            unknown.append(field)
    if blocks is not None and made[BLOCKS] == "":
        made[BLOCKS] = json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))
    return clean(made), unknown


def least_words(kind: str) -> dict[str, str]:
    """Return the fields of a type that have a closed vocabulary, each with the word that reveals least."""
    return {name: word for name, word in redacted_form(kind).items() if isinstance(word, str) and word in WORDS}


def with_least_words(kind: str, left: Payload, fields: Collection[str]) -> Payload:
    """Return what `redact_fields` left, with the least word in each of these fields that has a closed vocabulary.

    `redact` removes such a field only if redactions contradict each other about it: readers know no other words.
    """
    return {**left, **{name: word for name, word in least_words(kind).items() if name in left and name in fields}}


def _parse_blocks(blocks: Any) -> Any:
    """Parse the text of adopted blocks; None if it is not text, or not JSON."""
    try:
        return json.loads(blocks) if isinstance(blocks, str) else None
    except (ValueError, RecursionError):
        return None


def _replace(holder: Any, path: list[str]) -> None:
    for part in path[:-1]:
        holder = holder[_key(holder, part)]
    key = _key(holder, path[-1])
    holder[key] = neutral_value(holder[key])


def _key(holder: Any, part: str) -> Any:
    if isinstance(holder, dict) and part in holder:
        return part
    if isinstance(holder, list) and part.isdecimal() and len(part) < 10 and int(part) < len(holder):
        return int(part)
    raise KeyError(part)


def neutral_value(value: Any) -> Any:
    """Return what replaces this value in a redacted field."""
    if isinstance(value, str):
        return REDACTED
    if isinstance(value, dict):
        return {name: neutral_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return []
    return type(value)() if value is not None else None


def list_paths(payload: Payload) -> list[str]:
    """List the paths of a payload's fields, including those within objects and within adopted blocks."""
    blocks = payload.get(BLOCKS)
    return _inner_paths({**payload, BLOCKS: _parse_blocks(blocks)} if isinstance(blocks, str) else payload)


def _inner_paths(value: Any) -> list[str]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in pairs for path in (str(key), *[f"{key}.{deep}" for deep in _inner_paths(inner)])]


def texts_of(value: Any) -> set[str]:
    """Return the texts in a value, without the names of its members."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for one in inner for text in texts_of(one)}


def _is_within(field: str, fields: Collection[str]) -> bool:
    """Return whether a path leads into a value that another path names."""
    end = field.find(".")
    while 0 <= end < MAX_PATH_LETTERS:
        if field[:end] in fields:
            return True
        end = field.find(".", end + 1)
    return False
