"""What can be wrong with a log, and with one event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.ledger.encoding import COLUMNS, compute_hash, parse_payload, recorded_of, split_hashes
from faber_ledger.ledger.event_types import has_required, is_known
from faber_ledger.ledger.file import MAX_PAYLOAD_BYTES, REVISION, surplus_bytes
from faber_ledger.ledger.gate import NO_ID, NO_TIME, find_form_fault
from faber_ledger.ledger.log import is_too_long
from faber_ledger.ledger.redaction import KINDS

if TYPE_CHECKING:
    from faber_ledger.ledger.log import Log


HINT_NEWEST = (
    "run `faber-ledger project RUN --rebuild`, which sets the log aside and makes it again from what passes of it and"
    " of the published files"
)
FORGED = "odd_redaction"
UNEXPLAINED = "payload_gone"
NOTES = (
    FORGED,
    UNEXPLAINED,
    "unknown_shape",
    "torn_version",
    "in_conflict",
    "unredacted_version",
    "not_pulled",
    "not_published",
    "not_in_tree",
    "waiting",
    "set_aside",
    "foreign_run",
)
UNFIT = "shape"
HINT_UPGRADE = "nothing is lost; upgrade faber-ledger on this machine to have it checked and shown"
DOUBLES = "SELECT id FROM event NOT INDEXED GROUP BY id HAVING count(*) > 1"


class LogProblem(NamedTuple):
    """One problem: its kind, the event (None: the log itself), what is wrong, and what to do."""

    kind: str
    event: str | None
    what: str
    hint: str

    @property
    def is_note(self) -> bool:
        """Return whether the log is intact despite it."""
        return self.kind in NOTES

    @property
    def is_damage(self) -> bool:
        """Return whether the log itself is damaged; readers can use every event that passes the gate."""
        return self.kind != UNFIT and not self.is_note


def find_damage(log: Log, doubles: set[Any]) -> Iterator[LogProblem]:
    """Yield what is wrong with the file; SQLite's quick check would miss an index that lacks an event's id."""
    connection = log.connection
    for (what,) in connection.execute("PRAGMA integrity_check"):
        if what != "ok" and not (doubles and "non-unique entry in index event_id" in what):
            yield LogProblem("damaged", None, f"SQLite finds the file damaged: {what}", HINT_NEWEST)
    revisions = [revision for (revision,) in connection.execute("SELECT version_num FROM alembic_version")]
    if revisions != [REVISION]:
        named = ", ".join(map(repr, revisions)) or "none"
        yield LogProblem(
            "revision", None, f"it names another revision of its schema than it has: {named:.100}", HINT_NEWEST
        )
    extra = surplus_bytes(connection, log.path)
    if extra:
        yield LogProblem("surplus", None, f"it goes on for {extra:,} bytes after its last page", HINT_NEWEST)


LONG = -1  # what is read in place of a payload that is too long


def find_event_problems(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with one event, without a look at the others: each as (kind, what, what to do)."""
    if event["payload"] == LONG or (isinstance(event["payload"], str) and is_too_long(event["payload"])):
        yield (
            "too_long",
            f"its payload is longer than {MAX_PAYLOAD_BYTES // 1024 // 1024} MB, which no reader accepts",
            HINT_NEWEST,
        )
        return
    mistyped = [name for name, kinds in COLUMNS.items() if type(event[name]) not in kinds]
    if mistyped:
        yield "mistyped", f"its {', '.join(mistyped)} has another type than any ledger writes", HINT_NEWEST
        return
    fault = find_form_fault(tuple(event.values()))
    if fault is not None:
        kind = "id" if fault == NO_ID else "at" if fault == NO_TIME else "form"
        yield kind, fault, HINT_NEWEST
    parents = split_hashes(event["parents"])
    if parents != sorted(set(parents)):
        yield "parents", "its parents are not in order, or one is there twice", HINT_NEWEST
    yield from _payload_problems(event)
    yield from _hash_problems(event)


def _payload_problems(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    payload = event["payload"]
    if payload is None:
        return
    value = parse_payload(payload)
    if value is None:
        yield "payload", "its payload is not canonical JSON", HINT_NEWEST
        return
    kind, version = event["type"], event["version"]
    if not is_known(kind, version):
        what = f"its shape ({kind}, version {version}) is not known to this program"
        yield "unknown_shape", what, HINT_UPGRADE
    elif kind not in KINDS and not has_required(kind, version, recorded_of(tuple(event.values()), value)["event"]):
        yield UNFIT, f"it lacks what a {kind} needs", HINT_NEWEST


def _hash_problems(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    salt, payload, stored = event["salt"], event["payload"], event["payload_hash"]
    is_redacted = payload is None and salt is None and stored is not None
    if not is_redacted and (payload is None or salt is None or stored is not None):
        yield "payload_hash", "it holds neither a salted payload nor, in its place, a payload's hash", HINT_NEWEST
    elif compute_digest(event) != event["hash"]:
        yield "hash", "its hash does not match what it says: it was changed after it was written", HINT_NEWEST


def compute_digest(event: dict[str, Any]) -> bytes | None:
    """Compute the hash that an event must have, as `compute_hash` does; None for text that is not valid UTF-8, too."""
    try:
        return compute_hash(tuple(event.values()))
    except UnicodeEncodeError:
        return None
