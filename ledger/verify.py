"""Verifies a whole log from front to back, and reports everything that is wrong with it, not the first thing alone.

It believes nothing: rows are read raw, each value's type is asked, and every hash is computed anew. A log of any
length is read in one pass, in memory that does not grow with it.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from faber_ledger.ledger.canonical import canonical, event_hash, payload_hash
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.header import is_busy, locked
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import command_for, redactions_in, remains, standing
from faber_ledger.ledger.shapes import CURRENT

ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
RESTORE = (
    "run `git log --oneline -- ledger.db` in the run's folder, keep this file aside,"
    " and restore the newest version that verifies, or another machine's"
)
NOTES = ("unknown_shape", "torn_version", "redacted_version", "unredacted_version", "not_pulled")
UPGRADE = "nothing is lost; upgrade faber-ledger on this machine to have it checked and shown"
COLUMNS = {
    "seq": (int,),
    "id": (str,),
    "type": (str,),
    "version": (int,),
    "at": (str,),
    "writer": (str,),
    "session_id": (str, type(None)),
    "client": (str, type(None)),
    "parents": (bytes,),
    "salt": (bytes, type(None)),
    "payload": (str, type(None)),
    "payload_hash": (bytes, type(None)),
    "hash": (bytes,),
}


class Finding(NamedTuple):
    """One thing that is wrong: its kind, the event (None: the log as a whole), what it is, and what to do."""

    kind: str
    event: str | None
    what: str
    hint: str

    @property
    def is_note(self) -> bool:
        """Tell whether the log is sound all the same."""
        return self.kind in NOTES


def findings(
    path: str, *, check_event: Callable[[Any], list[str]], advance: Callable[[int], object] = lambda count: None
) -> Iterator[Finding]:
    """Give everything that is wrong with the log at `path`, in the order of its events.

    `check_event` tells what is wrong with one event's shape; `advance` is called with the number of events done.
    Raises NewerFormat, Locked, and LedgerError if the file cannot be read; a file that is no ledger is a finding.
    """
    try:
        log = Log.read(path)
    except IntegrityError as error:
        yield Finding(error.code, None, error.message, error.hint or RESTORE)
        return
    with closing(log):
        log.connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            yield from _damage(log.connection)
            with closing(Positions()) as seqs:
                yield from _Walk(check_event, advance, seqs).findings(log.connection)
            yield from _redaction_findings(log.connection, check_event)
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise locked(path) from error
            yield Finding("damaged", None, f"the file cannot be read to its end: {error}", RESTORE)


def _damage(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Ask SQLite itself; the full check, since the quick one does not see an index that lacks an event's id."""
    for (what,) in connection.execute("PRAGMA integrity_check"):
        if what != "ok":
            yield Finding("damaged", None, f"SQLite finds the file damaged: {what}", RESTORE)


class _Walk:
    """One pass over the events, with what later events are measured against."""

    def __init__(
        self, check_event: Callable[[Any], list[str]], advance: Callable[[int], object], seqs: Positions
    ) -> None:
        self.check_event = check_event
        self.advance = advance
        self.seqs = seqs
        self.heads: dict[bytes, int] = {}
        self.awaited: set[bytes] = set()  # parents named before they came, if they come at all

    def findings(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        """Give what is wrong with the events, and with the table of heads."""
        for row in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM event ORDER BY seq, id"):
            event = dict(zip(COLUMNS, row, strict=True))
            name = event["id"] if isinstance(event["id"], str) else repr(event["id"])
            for kind, what, hint in self._problems(event):
                yield Finding(kind, name, what, hint)
            self._follow(event)
            self.advance(1)
        stored = dict(connection.execute("SELECT hash, seq FROM head"))
        if stored != self.heads:
            yield Finding(
                "heads",
                None,
                f"the table of heads names {_short(stored)}, and the events' own heads are {_short(self.heads)}",
                RESTORE,
            )

    def _problems(self, event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
        alone = list(problems_alone(event, self.check_event))
        yield from alone
        if all([kind != "mistyped" for kind, _, _ in alone]):
            yield from self._parent_problems(event["seq"], _parents(event))

    def _follow(self, event: dict[str, Any]) -> None:
        """Take an event in, a faulty one too, so that its own fault is not told of those after it as well."""
        if isinstance(event["parents"], bytes):
            for parent in _parents(event):
                if self.heads.pop(parent, None) is None and parent not in self.seqs:
                    self.awaited.add(parent)
        if isinstance(event["hash"], bytes) and isinstance(event["seq"], int):
            self.seqs[event["hash"]] = event["seq"]
            if event["hash"] not in self.awaited:
                self.heads[event["hash"]] = event["seq"]

    def _parent_problems(self, seq: int, parents: list[bytes]) -> Iterator[tuple[str, str, str]]:
        missing = [parent for parent in parents if parent not in self.seqs]
        if missing:
            yield (
                "missing_parent",
                f"its parent {_short(missing)} is not in the log before it",
                RESTORE,
            )
            return
        due = 1 + max([self.seqs[parent] for parent in parents], default=0)
        if seq != due:
            yield "seq", f"its seq is {seq}, and after its parents it must be {due}", RESTORE


def _redaction_findings(connection: sqlite3.Connection, check_event: Callable[[Any], list[str]]) -> Iterator[Finding]:
    """Hold each payload that is gone against the redactions, and each redaction against what is still there."""
    found = redactions_in(connection)
    named = {name for one in found for name in one.gone}
    last = standing(found)
    gone = "payload IS NULL AND salt IS NULL AND payload_hash IS NOT NULL"  # of others it was told already
    for (name,) in connection.execute(f"SELECT id FROM event WHERE {gone} ORDER BY seq, id"):
        if name not in named:
            told = "its payload is gone, and no event_redacted says so"
            yield Finding("unexplained_redaction", str(name), told, RESTORE)
    for one in found:
        for name in sorted(one.gone):
            row = connection.execute("SELECT payload IS NULL FROM event WHERE id = ?", (name,)).fetchone()
            if row is None:
                yield Finding("redaction", one.id, f"it redacts {name}, which is not in the log", RESTORE)
            elif not row[0]:
                told = f"event {one.id} redacts it, and its payload is still here"
                hint = f"run `{command_for(one.target, last.get(one.target, [one]))}`, which finishes it"
                yield Finding("not_redacted", name, told, hint)
    for name, several in last.items():
        if len(several) > 1 and any([one.fields for one in several]):
            told = f"it was redacted {len(several)} times apart, and one may hold what another took out"
            yield Finding("redacted_apart", name, told, f"run `{command_for(name, several)}`, which makes one of them")
        row = connection.execute("SELECT type, session_id FROM event WHERE id = ?", (name,)).fetchone()
        if row is not None and row[0] in CURRENT:
            event = remains(row[0], several) | {"type": row[0]}
            if row[1] is not None:
                event["session_id"] = row[1]
            for problem in check_event(event):
                yield Finding("shape", several[0].id, f"what it leaves is no {row[0]}: {problem}", RESTORE)


def problems_alone(event: dict[str, Any], check_event: Callable[[Any], list[str]]) -> Iterator[tuple[str, str, str]]:
    """Give what is wrong with one event, whatever else its log holds: each as (kind, what, what to do)."""
    mistyped = [name for name, kinds in COLUMNS.items() if type(event[name]) not in kinds]
    if mistyped:
        yield "mistyped", f"its {', '.join(mistyped)} has another type than any ledger writes", RESTORE
        return
    if not ULID.fullmatch(event["id"]):
        yield "id", "its id is no ULID", RESTORE
    if seconds_of(event["at"]) is None:
        yield "at", f"its time {event['at']!r} is no time", RESTORE
    parents = _parents(event)
    if parents != sorted(set(parents)):
        yield "parents", "its parents are not in order, or one is there twice", RESTORE
    yield from _payload_problems(event, check_event)
    yield from _hash_problems(event, parents)


def _payload_problems(event: dict[str, Any], check_event: Callable[[Any], list[str]]) -> Iterator[tuple[str, str, str]]:
    payload = event["payload"]
    if payload is None:
        return
    try:
        value = json.loads(payload)
        exact = isinstance(value, dict) and canonical(value) == payload and payload.encode() is not None
    except (ValueError, RecursionError):
        exact = False
    if not exact:
        yield "payload", "its payload is not canonical JSON", RESTORE
        return
    if CURRENT.get(event["type"]) != event["version"]:
        told = f"its shape ({event['type']}, version {event['version']}) is not known to this program"
        yield "unknown_shape", told, UPGRADE
        return
    value["type"] = event["type"]
    if event["session_id"] is not None:
        value["session_id"] = event["session_id"]
    for problem in check_event(value):
        yield "shape", f"it is not a {event['type']} as this program writes it: {problem}", RESTORE


def _parents(event: dict[str, Any]) -> list[bytes]:
    return [event["parents"][at : at + 32] for at in range(0, len(event["parents"]), 32)]


def _hash_problems(event: dict[str, Any], parents: list[bytes]) -> Iterator[tuple[str, str, str]]:
    salt, payload, stored = event["salt"], event["payload"], event["payload_hash"]
    redacted = payload is None and salt is None and stored is not None
    if not redacted and (payload is None or salt is None or stored is not None):
        yield "payload_hash", "it holds neither a salted payload nor, in its place, a payload's hash", RESTORE
        return
    envelope = {name: event[name] for name in ("seq", "id", "type", "version", "at", "writer", "session_id", "client")}
    try:
        digest = event_hash(
            **envelope, parents=parents, payload_hash=stored if redacted else payload_hash(salt, payload)
        )
    except UnicodeEncodeError:
        digest = b""
    if digest != event["hash"]:
        yield "hash", "its hash does not match what it says: it was changed after it was written", RESTORE


def _short(hashes: Iterable[bytes]) -> str:
    return ", ".join(sorted(item.hex()[:12] if isinstance(item, bytes) else repr(item) for item in hashes)) or "none"
