"""Verify a log from its first event to its last, and report everything that is wrong, not only the first problem.

Nothing is trusted: rows are read raw, the type of each value is checked, and every hash is computed again. A log of any
length is read in one pass, in memory that does not grow with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from shlex import quote
from typing import Any, NamedTuple

from faber_ledger.ledger.encoding import COLUMNS, compute_hash, decode_any, parse_payload, recorded_of, split_hashes
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.event_types import has_required, is_known
from faber_ledger.ledger.file import LARGEST_PAYLOAD, MAX_PAYLOAD_BYTES, REVISION, is_busy, locked_error, surplus_bytes
from faber_ledger.ledger.gate import NO_ID, NO_TIME, find_form_fault
from faber_ledger.ledger.log import Log, is_too_long
from faber_ledger.ledger.positions import Positions
from faber_ledger.ledger.redaction import KINDS, effective_redactions, redaction_of, rows_to_strip

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
    "unredacted_ref",
    "purged_ref",
    "remote_silent",
    "not_absorbed",
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
LONG = -1  # what is read in place of a payload that is too long
HINT_FIND_COPY = (
    "run `faber-ledger verify --git` to see which copy has it, put that copy in place of the run's ledger.db, then run"
    " `faber-ledger project RUN`, which takes in what the log lacks"
)
HINT_GONE = "you need not run anything: its envelope is checked, and what it said is not known here"
SAID = (UNFIT, "unknown_shape")  # what is odd in an event's payload
TIED = "2nd reference to page"  # SQLite's words: to walk such a file may never end
WALK = f"SELECT {', '.join(COLUMNS)} FROM event ORDER BY seq, id".replace(
    " payload,", f" CASE WHEN length(CAST(payload AS BLOB)) > {MAX_PAYLOAD_BYTES} THEN {LONG} ELSE payload END,"
)


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


def name_of(identity: object) -> str:
    """Return the name that a finding has for an event's id, which may be any value."""
    return identity if isinstance(identity, str) else repr(identity)


def find_problems(path: str, *, advance: Callable[[int], object] = lambda count: None) -> Iterator[LogProblem]:
    """Yield everything that is wrong with the log at `path`, in the order of its events.

    `advance` is called with the number of events done. Raises NewerFormat, Locked, and LedgerError if the file cannot
    be read; a file that is not a ledger is reported.
    """
    try:
        log = Log.read(path, allow_incomplete=True)
    except IntegrityError as error:
        yield LogProblem(error.code, None, error.message, error.hint or HINT_NEWEST)
        return
    with closing(log):
        log.connection.text_factory = decode_any
        log.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10**9)  # to report what every other reader refuses
        try:
            log.connection.execute("BEGIN")  # of all that follows, the events and heads of one moment
            (found,) = log.connection.execute("PRAGMA quick_check(1)").fetchone()
            if TIED in found:
                yield LogProblem("damaged", None, f"SQLite finds the file damaged: {found}", HINT_NEWEST)
                return
            doubles = {name for (name,) in log.connection.execute(DOUBLES)}
            yield from find_damage(log, doubles)
            with closing(Positions()) as seqs:
                yield from _Walk(log.connection, doubles, advance, seqs).findings()
            yield from _redaction_findings(log.connection)
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise locked_error(path) from error
            yield LogProblem("damaged", None, f"the file cannot be read to its end: {error}", HINT_NEWEST)


class _Walk:
    """One pass over the events, and what later ones are compared with."""

    def __init__(
        self, connection: sqlite3.Connection, doubles: set[Any], advance: Callable[[int], object], seqs: Positions
    ) -> None:
        self.connection = connection
        self.doubles = doubles
        self.advance = advance
        self.seqs = seqs  # of the events so far
        self.heads: dict[bytes, int] = {}
        self.awaited: set[bytes] = set()  # parents that an earlier row named
        self.moved: set[bytes] = set()
        self.reported: set[Any] = set()  # ids that several rows have, of the rows so far
        self.is_missing_some = False

    def findings(self) -> Iterator[LogProblem]:
        """Yield what is wrong with the events, and with the table of heads."""
        later: list[tuple[set[bytes], LogProblem]] = []
        for row in self.connection.execute(WALK):
            event = dict(zip(COLUMNS, row, strict=True))
            name = name_of(event["id"])
            if event["id"] in self.reported:
                yield LogProblem("duplicate_id", name, "another event in the log has the same id", HINT_NEWEST)
                if event["hash"] not in self.seqs:
                    self._remember(event)
                continue
            if event["id"] in self.doubles:
                self.reported.add(event["id"])
            is_own_fault = False
            for kind, what, hint in self._problems(event):
                is_own_fault = is_own_fault or kind not in SAID
                yield LogProblem(kind, name, what, hint)
            if not is_own_fault and (misplaced := self._find_misplacement(event)):
                later.append((set(split_hashes(event["parents"])), LogProblem("seq", name, misplaced, HINT_NEWEST)))
            self._remember(event)
            self.advance(1)
        # An event that matches its hash has its own seq: if its parent's was changed, that is reported already.
        yield from [finding for parents, finding in later if not parents & self.moved]
        yield from self._head_findings()

    def _problems(self, event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
        alone = list(find_event_problems(event))
        kinds = {kind for kind, _, _ in alone}
        parents = split_hashes(event["parents"]) if isinstance(event["parents"], bytes) else []
        if "hash" in kinds:
            changed, parents = self._guess_change(event, parents)
            if changed is not None:
                yield from [one for one in alone if one[0] not in ("hash", "parents")]
                yield changed
                self._take_parents(parents)
                return
        yield from alone
        self._take_parents(parents)
        if kinds & {"mistyped", "too_long"}:
            return
        missing = [parent for parent in parents if self._seq_of(parent) is None]
        if missing:
            self.is_missing_some = True
            yield "missing_parent", f"its parent {_short(missing)} is not in the log", HINT_FIND_COPY
        elif "hash" in kinds and (what := self._find_misplacement(event)):
            yield "seq", what, HINT_NEWEST

    def _find_misplacement(self, event: dict[str, Any]) -> str | None:
        due = self._due(split_hashes(event["parents"]))
        return None if event["seq"] == due else f"its seq is {event['seq']}, and after its parents it must be {due}"

    def _due(self, parents: list[bytes]) -> int:
        """Return the seq after these parents."""
        known = [self._seq_of(parent) for parent in parents]
        return 1 + max([seq for seq in known if seq is not None], default=0)

    def _seq_of(self, digest: bytes) -> int | None:
        """Return the seq of an event, a later one included; None if it is not in the log."""
        seq: int | None = self.seqs.get(digest)
        return self._all.get(digest) if seq is None else seq

    @cached_property
    def _all(self) -> dict[bytes, int]:
        """The seq of each event; only needed for a log in which a parent does not come first."""
        rows = self.connection.execute("SELECT hash, seq FROM event")
        return {digest: seq for digest, seq in rows if isinstance(digest, bytes) and isinstance(seq, int)}

    def _take_parents(self, parents: list[bytes]) -> None:
        passed_by = [parent for parent in parents if self.heads.pop(parent, None) is None]
        self.awaited.update([parent for parent in passed_by if parent not in self.seqs])

    def _remember(self, event: dict[str, Any]) -> None:
        digest, seq = event["hash"], event["seq"]
        if isinstance(digest, bytes) and isinstance(seq, int):
            self.seqs[digest] = seq
            if digest not in self.awaited:
                self.heads[digest] = seq

    def _guess_change(
        self, event: dict[str, Any], parents: list[bytes]
    ) -> tuple[tuple[str, str, str] | None, list[bytes]]:
        """Guess an event's seq or parents before it was changed; nothing else can be guessed.

        Returns the problem, None if no guess fits the hash, and the parents that the event had.
        """
        seq = event["seq"]
        for before in (self._due(parents), seq - 1, seq + 1):
            if compute_digest({**event, "seq": before}) == event["hash"]:
                self.moved.add(event["hash"])
                return ("order", f"it was written as seq {before}, and was moved to {seq}", HINT_NEWEST), parents
        for (parent,) in self.connection.execute("SELECT hash FROM event WHERE seq = ?", (seq - 1,)).fetchall():
            if isinstance(parent, bytes) and compute_digest({**event, "parents": parent}) == event["hash"]:
                what = f"its parent was {_short([parent])}, and {_short(parents)} was put in its place"
                return ("forged_parent", what, HINT_NEWEST), [parent]
        return None, parents

    def _head_findings(self) -> Iterator[LogProblem]:
        stored = dict(self.connection.execute("SELECT hash, seq FROM head"))
        own = self.heads
        gone = [digest for digest in stored if digest not in self.seqs]
        if not stored and own:
            yield LogProblem("no_heads", None, "the table of heads is empty", HINT_NEWEST)
        elif gone:
            what = f"the table of heads names {_short(gone)}, which is not in the log: the newest events were cut off"
            yield LogProblem("cut_tail", None, what, HINT_FIND_COPY)
        elif any([own.get(digest) != seq and digest not in self.moved for digest, seq in stored.items()]) or (
            len(own) > len(stored) and not self.is_missing_some  # an event without its children looks like a head
        ):
            what = f"the table of heads names {_short(stored)}, and the events' own heads are {_short(own)}"
            yield LogProblem("heads", None, what, HINT_NEWEST)


def _redaction_findings(connection: sqlite3.Connection) -> Iterator[LogProblem]:
    """Name each payload that is gone without a redaction, that is still there despite one, and odd redactions."""
    redacted = effective_redactions(connection)
    for name, kind, payload in connection.execute(f"SELECT id, type, payload FROM event WHERE type IN {KINDS}"):
        if payload is not None and redaction_of(str(name), str(kind), "", payload) is None:
            yield LogProblem(FORGED, name_of(name), "it has another form, and no effect", HINT_GONE)
    gone = "payload IS NULL AND salt IS NULL AND payload_hash IS NOT NULL"  # other rows are reported already
    for (name,) in connection.execute(f"SELECT id FROM event WHERE {gone} ORDER BY seq, id"):
        if name not in redacted:
            yield LogProblem(UNEXPLAINED, name_of(name), "its payload is gone, and no redaction says so", HINT_GONE)
    for row in rows_to_strip(connection):
        hint = f"run `faber-ledger redact {quote(str(row[1]))} --yes`, which finishes the redaction"
        yield LogProblem(
            "not_redacted", row[1], f"event {redacted[row[1]].id} redacts it, and its payload is here", hint
        )


def _short(hashes: Iterable[bytes]) -> str:
    return ", ".join(sorted(item.hex()[:12] if isinstance(item, bytes) else repr(item) for item in hashes)) or "none"


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


def find_event_problems(event: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with one event, without a look at the others: each as (kind, what, what to do)."""
    if event["payload"] == LONG or (isinstance(event["payload"], str) and is_too_long(event["payload"])):
        yield ("too_long", f"its payload is longer than {LARGEST_PAYLOAD}, which no reader accepts", HINT_NEWEST)
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
