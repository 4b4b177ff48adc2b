"""Verify a log from its first event to its last, and report everything that is wrong, not only the first problem.

Nothing is trusted: rows are read raw, the type of each value is checked, and every hash is computed again. A log of any
length is read in one pass, in memory that does not grow with it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from shlex import quote
from typing import Any

from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.effective import Effective, effective_redactions
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.ledger.file import (
    MAX_PAYLOAD_BYTES,
    bound_steps,
    check_file,
    check_schema,
    connect,
    is_busy,
    locked_error,
)
from faber_ledger.ledger.journal import find_refusal
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.positions import Claimed, Positions
from faber_ledger.ledger.problems import (
    DOUBLES,
    FORGED,
    HINT_NEWEST,
    HINT_REWRITE,
    LONG,
    REFUSED_PLACE,
    UNEXPLAINED,
    UNFIT,
    LogProblem,
    compute_digest,
    find_damage,
    find_event_problems,
)
from faber_ledger.ledger.redaction import command_for, is_consistent, remains
from faber_ledger.ledger.row import COLUMNS, event_of, is_place, split_hashes
from faber_ledger.ledger.union import find_removed

HINT_FIND_COPY = (
    "run `faber-ledger verify --git` to see which copy has it, then unite the two: `faber-ledger union`;"
    " git's versions of the file are in `git log --oneline -- ledger.db`"
)
HINT_LOST = (
    "if another clone, or a version in git, has it, unite the two: `faber-ledger union`; if the gate dropped it, or"
    " nobody has it"
)
HINT_GONE = "you need not run anything"
HINT_PROJECT = "run `faber-ledger project`, which recovers what can be read and moves the journal aside"
HINT_PLACE = "you need not run anything; `faber-ledger quarantine` shows what this clone took out"
SAID = (FORGED, UNFIT, "odd_payload", "unknown_shape")  # what is odd in an event's payload, whatever its place is
TIED = "2nd reference to page"  # SQLite's words: to walk such a file may never end
JOURNAL = "there is a journal beside the file: a killed writer left it, or git has since replaced the file"
WALK = f"SELECT {', '.join(COLUMNS)} FROM event ORDER BY seq, id".replace(
    " payload,", f" CASE WHEN length(CAST(payload AS BLOB)) > {MAX_PAYLOAD_BYTES} THEN {LONG} ELSE payload END,"
)


def name_of(identity: object) -> str:
    """Return the name that a finding has for an event's id, which may be any value."""
    return identity if isinstance(identity, str) else repr(identity)


def find_problems(
    path: str, *, check_event: Callable[[Any], list[str]], advance: Callable[[int], object] = lambda count: None
) -> Iterator[LogProblem]:
    """Yield everything that is wrong with the log at `path`, in the order of its events.

    `check_event` returns what is wrong with one event's shape; `advance` is called with the number of events done.
    Raises NewerFormat, Locked, and LedgerError if the file cannot be read; a file that is not a ledger is reported.
    """
    if not os.path.isfile(path + JOURNAL_ENDING) or os.path.islink(path + JOURNAL_ENDING):
        yield from _findings(path, _open_unchecked, check_event, advance)
        return
    why = find_refusal(path)
    if why is not None:
        yield LogProblem("journal", None, f"the journal beside the file is never played: it {why}", HINT_PROJECT)
        yield from _findings(path, _open_without_journal, check_event, advance)
        return
    # The ledger's own journal is rolled back by the next writer, and the events that it hides were never committed. A
    # foreign journal, which a reader plays unseen, can only be reported: it has to go.
    played = list(_findings(path, _open_unchecked, check_event, advance))
    if not any(finding.is_damage for finding in played):
        yield from played
        return
    yield LogProblem("journal", None, JOURNAL, HINT_PROJECT)
    alone = list(_findings(path, _open_without_journal, check_event, lambda count: None))
    yield from alone if not any(finding.is_damage for finding in alone) else played


def _open_unchecked(path: str) -> Log:
    return Log.read(path, allow_incomplete=True)


def _open_without_journal(path: str) -> Log:
    """Open the file without the journal beside it."""
    check_file(path)
    log = Log(connect(path, "ro&immutable=1"), path)
    check_schema(log.connection, path)
    bound_steps(log.connection, path)
    return log


def _findings(
    path: str,
    opened: Callable[[str], Log],
    check_event: Callable[[Any], list[str]],
    advance: Callable[[int], object],
) -> Iterator[LogProblem]:
    try:
        log = opened(path)
    except IntegrityError as error:
        yield LogProblem(error.code, None, error.message, error.hint or HINT_NEWEST)
        return
    with closing(log):
        log.connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        log.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10**9)  # to report what every other reader refuses
        try:
            (found,) = log.connection.execute("PRAGMA quick_check(1)").fetchone()
            if TIED in found:
                yield LogProblem("damaged", None, f"SQLite finds the file damaged: {found}", HINT_NEWEST)
                return
            doubles = {name for (name,) in log.connection.execute(DOUBLES)}
            yield from find_damage(log, doubles)
            is_damaged = False
            with closing(Positions()) as seqs:
                for finding in _Walk(log.connection, doubles, check_event, advance, seqs).findings():
                    is_damaged = is_damaged or finding.is_damage
                    yield finding
            found = _find_removed(log) if is_damaged else effective_redactions(log.connection)
            yield from _redaction_findings(log.connection, found, check_event)
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise locked_error(path) from error
            yield LogProblem("damaged", None, f"the file cannot be read to its end: {error}", HINT_NEWEST)


class _Walk:
    """One pass over the events, and what later ones are compared with."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        doubles: set[Any],
        check_event: Callable[[Any], list[str]],
        advance: Callable[[int], object],
        seqs: Positions,
    ) -> None:
        self.connection = connection
        self.doubles = doubles
        self.check_event = check_event
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
        is_kept = is_place(tuple(event.values()))
        if is_kept:
            yield REFUSED_PLACE, "it was refused; only its place is kept, since later events stand on it", HINT_PLACE
        alone = [] if is_kept else list(find_event_problems(event, self.check_event))
        kinds = {kind for kind, _, _ in alone}
        parents = split_hashes(event["parents"]) if isinstance(event["parents"], bytes) else []
        if "hash" in kinds:
            changed, parents = self._guess_change(event, parents)
            if changed is not None:
                yield from [one for one in alone if one[0] not in ("hash", "parents")]
                yield changed
                self._name(parents)
                return
        yield from alone
        self._name(parents)
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
        is_right = event["seq"] == due or event["seq"] == self._due(split_hashes(event["parents"]), event["seq"])
        return None if is_right else f"its seq is {event['seq']}, and after its parents it must be {due}"

    def _due(self, parents: list[bytes], below: int | None = None) -> int:
        """Return the seq after these parents; with `below`, of several that places claim for one, the last below it."""
        claimed = [self._claimed.seq_below(below, parent) if below else None for parent in parents]
        known = [self._seq_of(parent) if seq is None else seq for parent, seq in zip(parents, claimed, strict=True)]
        return 1 + max([seq for seq in known if seq is not None], default=0)

    def _seq_of(self, digest: bytes) -> int | None:
        """Return the seq of an event, a later one included; None if it is not in the log."""
        if digest in self.seqs:
            return self.seqs[digest]
        seq: int | None = self._all.get(digest)
        return seq

    @cached_property
    def _claimed(self) -> Claimed:
        return Claimed(self.connection)

    @cached_property
    def _all(self) -> dict[bytes, int]:
        """The seq of each event; only needed for a log in which a parent does not come first."""
        rows = self.connection.execute("SELECT hash, seq FROM event")
        return {digest: seq for digest, seq in rows if isinstance(digest, bytes) and isinstance(seq, int)}

    def _name(self, parents: list[bytes]) -> None:
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
            yield LogProblem("no_heads", None, "the table of heads is empty", HINT_REWRITE)
        elif gone:
            what = f"the table of heads names {_short(gone)}, which is not in the log: the newest events were cut off"
            yield LogProblem("cut_tail", None, what, HINT_FIND_COPY)
        elif any([own.get(digest) != seq and digest not in self.moved for digest, seq in stored.items()]) or (
            len(own) > len(stored) and not self.is_missing_some  # an event without its children looks like a head
        ):
            what = f"the table of heads names {_short(stored)}, and the events' own heads are {_short(own)}"
            yield LogProblem("heads", None, what, HINT_REWRITE)


def _find_removed(log: Log) -> Effective:
    """Decide what the redactions of a damaged log remove; what is refused redacts nothing, as far as that is known."""
    try:
        return find_removed([log])
    except (LedgerError, OSError, sqlite3.Error):
        return effective_redactions(log.connection)


def _redaction_findings(
    connection: sqlite3.Connection, found: Effective, check_event: Callable[[Any], list[str]]
) -> Iterator[LogProblem]:
    """Compare each missing payload with the redactions, and each redaction with the payloads that are still there."""
    explained, forged = found.explained, [found.by_id[name] for name in found.forged]
    by_forged = {name for one in forged for name in one.names}
    gone = "payload IS NULL AND salt IS NULL AND payload_hash IS NOT NULL"  # other rows are reported already
    for name, kind in connection.execute(f"SELECT id, type FROM event WHERE {gone} ORDER BY seq, id"):
        if name in by_forged - explained:
            yield LogProblem(
                FORGED, str(name), "its payload is gone, and a forged event_redacted alone says so", HINT_FIND_COPY
            )
        elif name not in explained:
            what = "its payload is gone, and no event_redacted says so"
            if kind == "event_redacted":  # what it redacted is named
                yield LogProblem("redaction_gone", str(name), f"{what}: it redacts nothing", HINT_GONE)
                continue
            hint = f"{HINT_LOST}, `faber-ledger redact {quote(str(name))} --yes` says so in every clone"
            yield LogProblem(UNEXPLAINED, str(name), what, hint)
    for one in forged:
        what = f"it is forged, and removes nothing: {found.forged[one.id]}"
        yield LogProblem(FORGED, one.id, what, f"run `faber-ledger show {quote(one.id)}` to see who wrote it, and when")
    for name, missing in found.missing.items():
        for other in missing:
            verb = "redacts" if other == found.by_id[name].target else "says that it replaces"
            hint = (
                f"run `faber-ledger show {quote(name)}` to see who wrote it;"
                " it removes nothing until that event arrives"
            )
            yield LogProblem("redaction", name, f"it {verb} {other}, which is not in the log", hint)
    for name, one in found.gone.items():
        what = f"event {one.id} redacts it, and its payload is still here"
        hint = f"run `{command_for(one.target, found.by_event.get(one.target, [one]))}`, which finishes the redaction"
        yield LogProblem("not_redacted", name, what, hint)
    for name, several in found.by_event.items():
        row = connection.execute("SELECT type, session_id FROM event WHERE id = ?", (name,)).fetchone()
        if len(several) > 1 and row is not None and not is_consistent(row[0], several):
            what = f"its redactions contradict each other, and one is forged: {', '.join([one.id for one in several])}"
            hint = (
                f"run `faber-ledger show {quote(several[0].id)}`, and so on, to see who wrote them, then"
                f" `{command_for(name, several)}`, which replaces them by one; what they disagree about is not shown"
            )
            yield LogProblem(FORGED, name, what, hint)
        elif len(several) > 1 and any([one.fields for one in several]):
            what = f"{len(several)} clones redacted it apart, and one redaction may hold what another removed"
            yield LogProblem(
                "redacted_apart", name, what, f"run `{command_for(name, several)}`, which replaces them by one"
            )
        if row is not None and row[0] in EVENT_TYPES:
            for problem in check_event(event_of(row[0], row[1], remains(row[0], several))):
                what = f"what it leaves does not fit a {row[0]}: {problem}"
                is_its_own = not check_event(event_of(row[0], row[1], remains(row[0], [])))  # else the envelope's
                yield LogProblem(UNFIT if is_its_own else "odd_payload", several[0].id, what, HINT_NEWEST)


def _short(hashes: Iterable[bytes]) -> str:
    return ", ".join(sorted(item.hex()[:12] if isinstance(item, bytes) else repr(item) for item in hashes)) or "none"
