"""What stands in for a payload that was taken out of the log, and which payloads have to go.

An `event_redacted` names the event, the fields that went and what may stay of the payload. The event itself keeps its
envelope, its `hash` and the salted hash of its payload, so that everything that was built on it still holds.
"""

from __future__ import annotations

import json

from faber_ledger.ledger.canonical import payload_hash
from faber_ledger.ledger.formats import FORMAT_1, statements
from faber_ledger.ledger.row import PAYLOAD, SALT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    Payload = dict[str, Any]

REDACTED = "[redacted]"
BLOCKS = "blocks"  # of a run_adopted: JSON text, which a path leads into as if it were an object
# Words of a closed vocabulary tell nothing of anybody's; of every other text nothing stays.
WORDS = frozenset(
    [
        *("frame", "architect", "build", "evaluate", "release"),
        *("startup", "resume", "clear", "compact", "compaction", "normal", "manual", "abandoned", "auto"),
        *("session_start", "phase_start", "phase_transition", "compaction_detected"),
        *("inline", "outline", "pointer", "deferred", "repeated", "subagent", "no_session", "note", "summary"),
        *("pending", "in_progress", "paused", "awaiting_feedback", "completed", "failed", "cancelled"),
    ]
)
KEPT = ("run_id",)  # the run's folder has it for its name
# What a reader needs of each type, where neither the payload nor anything in its place can be read.
LEAST: dict[str, dict[str, Any]] = {
    "run_started": {"run_id": REDACTED, "workflow_id": REDACTED, "work_id": None},
    "run_adopted": {"run_id": REDACTED, BLOCKS: "{}"},
    "session_started": {
        "source": REDACTED,
        "environment": dict.fromkeys(("hostname", "platform", "cwd", "git_commit"), REDACTED),
        "phase": None,
        "step": None,
        "phases_completed": [],
        "empties_context": False,
        "pid": None,
    },
    "session_ended": {
        "reason": "abandoned",
        "client_reason": None,
        "inferred": False,
        "phase": None,
        "step": None,
        "phases_completed": [],
    },
    "artifact_loaded": {
        "artifact_id": REDACTED,
        "trigger": REDACTED,
        "source": REDACTED,
        "size_bytes": 0,
        "sha256": REDACTED,
        "given": "inline",
    },
    "artifact_failed": {
        "artifact_id": REDACTED,
        "trigger": REDACTED,
        "source": REDACTED,
        "required": False,
        "error": REDACTED,
    },
    "artifact_skipped": {"artifact_id": REDACTED, "trigger": REDACTED, "loaded_at": REDACTED},
    "context_reloaded": {"trigger": REDACTED, "loaded": 0, "failed": 0, "skipped": 0},
    "compaction_completed": {"trigger": None, "agent_id": None, "phase": None, "step": None},
    "delivery_ignored": {"reason": "repeated", "delivery": {"hook": REDACTED, "digest": REDACTED, "pid": None}},
    "note_recorded": {"kind": "note", "text": REDACTED, "phase": None, "step": None},
    "context_reconstituted": {"status": REDACTED, "phase": None, "step": None, "mode": None, "findings": []},
}
DISARMED = [text for text in statements(FORMAT_1) if text.startswith("CREATE TRIGGER event_is_never_updated")]
REDACTIONS = "SELECT id, payload FROM event WHERE type = 'event_redacted' AND payload IS NOT NULL ORDER BY seq, id"


class Redaction:
    """One `event_redacted` that can be read: its own id, and what it says."""

    def __init__(self, name: str, said: Payload) -> None:
        self.id = name
        self.target: str = said["event_id"]
        self.fields: list[str] = said["fields"]
        self.supersedes: list[str] = said["supersedes"]
        self.remains: Payload = said["remains"]
        self.reason: str | None = said.get("reason")

    @property
    def gone(self) -> set[str]:
        """The events whose payloads it took out: its own never."""
        return {self.target, *self.supersedes} - {self.id}

    def covers(self, fields: Iterable[str]) -> bool:
        """Tell whether it took all of these fields out; none named stand for the whole payload."""
        wanted = list(fields)
        if not self.fields:
            return True
        return bool(wanted) and all([_is_within(field, self.fields) for field in wanted])


def redactions_in(connection: sqlite3.Connection) -> list[Redaction]:
    """Give a log's redactions, in `(seq, id)` order; one that cannot be read as one is left out."""
    found = [redaction_of(name, payload) for name, payload in connection.execute(REDACTIONS)]
    return [one for one in found if one is not None]


def redaction_of(name: str, payload: str | bytes | None) -> Redaction | None:
    """Read the payload of an `event_redacted`; None if it is not what this program writes."""
    try:
        said = json.loads(payload or "")
        texts = [said["event_id"], *said["fields"], *said["supersedes"]]
        if all([isinstance(text, str) for text in texts]) and isinstance(said["remains"], dict):
            return Redaction(name, said)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return None


def standing(redactions: Iterable[Redaction]) -> dict[str, list[Redaction]]:
    """Give by event the redactions that no later one took the place of: one, or several that clones made apart."""
    known = list(redactions)
    past = {name for one in known for name in one.supersedes}
    found: dict[str, list[Redaction]] = {}
    for one in known:
        if one.id not in past:
            found.setdefault(one.target, []).append(one)
    return found


def remains(kind: str, redactions: list[Redaction]) -> Payload:
    """Give what stands in for an event's payload: what every redaction of it left, made whole for its type.

    The redactions come from a log that anybody may have written: a value of another type than a reader needs is none.
    """
    least = LEAST.get(kind, {})
    whole = [one for one in redactions if not one.fields] or redactions
    left: Payload = dict(whole[0].remains) if whole else {}
    for other in whole[1:]:
        for field in other.fields:
            left = without(left, field) if has(left, field) else left
    said = {name: value for name, value in left.items() if name not in ("type", "session_id")}
    return {**least, **{name: value for name, value in said.items() if _fits(value, least.get(name))}}


def _fits(value: Any, needed: Any) -> bool:
    return needed is None or type(value) is type(needed)


def gone_from(connection: sqlite3.Connection) -> set[str]:
    """Give the ids of the events of a log whose payload is gone, or has to go since a redaction names them."""
    gone = {name for (name,) in connection.execute("SELECT id FROM event WHERE payload IS NULL")}
    for one in redactions_in(connection):
        gone |= one.gone
    return gone


def holds_any(connection: sqlite3.Connection, gone: Iterable[str]) -> bool:
    """Tell whether a log still has the payload of any of these events."""
    question = "SELECT 1 FROM event WHERE id = ? AND payload IS NOT NULL"
    return any(connection.execute(question, (name,)).fetchone() for name in gone)


def stripped(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Take salt and payload out of a row, and put the payload's hash there in their place."""
    if row[PAYLOAD] is None or row[SALT] is None:
        return row
    return (*row[:SALT], None, None, payload_hash(row[SALT], row[PAYLOAD]), *row[12:])


def strip_in_place(connection: sqlite3.Connection, gone: Iterable[str]) -> None:
    """Take these events' payloads out of a log that others have open, in its open transaction.

    What was there can still be in freed pages: whoever commits this has SQLite write the file anew, by VACUUM.
    """
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("DROP TRIGGER event_is_never_updated")
    for name in gone:
        for salt, payload in connection.execute("SELECT salt, payload FROM event WHERE id = ?", (name,)).fetchall():
            if payload is not None and salt is not None:
                connection.execute(
                    "UPDATE event SET salt = NULL, payload = NULL, payload_hash = ? WHERE id = ?",
                    (payload_hash(salt, payload), name),
                )
    for text in DISARMED:
        connection.execute(text)


def command_for(target: str, redactions: Iterable[Redaction]) -> str:
    """Word the command that finishes what these redactions of an event began, or makes one of several."""
    several = list(redactions)
    fields = sorted({field for one in several for field in one.fields}) if all([one.fields for one in several]) else []
    return " ".join(["faber-ledger redact", target, *[f"--field {field}" for field in fields], "--yes"])


# What may stay


def least_of(payload: Payload) -> Payload:
    """Give what may stay of a whole payload: numbers, yes and no, and words of a closed vocabulary."""
    return {name: value if name in KEPT else _least(value) for name, value in payload.items()}


def _least(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in WORDS else REDACTED
    if isinstance(value, dict):
        return {name: _least(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, str) and inner in WORDS]
    return value


def without(payload: Payload, field: str) -> Payload:
    """Give a payload with the value at a path in its neutral form; raises KeyError if there is none."""
    made: Payload = json.loads(json.dumps(payload))
    name, _, rest = field.partition(".")
    if name == BLOCKS and rest and isinstance(made.get(BLOCKS), str):
        blocks = json.loads(made[BLOCKS])
        _replace(blocks, rest.split("."))
        made[BLOCKS] = json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))
    else:
        _replace(made, field.split("."))
    return made


def has(payload: Payload, field: str) -> bool:
    """Tell whether a payload has a value at a path."""
    try:
        without(payload, field)
    except (KeyError, ValueError):
        return False
    return True


def _replace(holder: Any, path: list[str]) -> None:
    for part in path[:-1]:
        holder = holder[_key(holder, part)]
    key = _key(holder, path[-1])
    holder[key] = _neutral(holder[key])


def _key(holder: Any, part: str) -> Any:
    if isinstance(holder, dict) and part in holder:
        return part
    if isinstance(holder, list) and part.isdecimal() and len(part) < 10 and int(part) < len(holder):
        return int(part)
    raise KeyError(part)


def _neutral(value: Any) -> Any:
    if isinstance(value, str):
        return REDACTED
    if isinstance(value, dict):
        return {name: _neutral(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return []
    return type(value)() if value is not None else None


def paths_of(payload: Payload) -> list[str]:
    """List the paths of a payload's fields, those within objects and within adopted blocks too."""
    found: list[str] = []
    for name, value in payload.items():
        found.append(name)
        inner = value
        if name == BLOCKS and isinstance(value, str):
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                inner = None
        found += [f"{name}.{path}" for path in _inner_paths(inner)]
    return found


def _inner_paths(value: Any) -> list[str]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, inner in pairs for path in (str(key), *[f"{key}.{deep}" for deep in _inner_paths(inner)])]


def texts_of(value: Any) -> set[str]:
    """Give the texts in a value, the members' names left out."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {text for one in inner for text in texts_of(one)}


def _is_within(field: str, fields: list[str]) -> bool:
    return any([field == one or field.startswith(one + ".") for one in fields])
