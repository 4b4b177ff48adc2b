"""Verify a log from its first event to its last, and report everything that is wrong, not only the first problem.

Nothing is trusted: each row is examined as if it came in, by the gate's own check.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.ledger import encoding
from faber_ledger.ledger.encoding import HASH, ID, PARENTS, PAYLOAD, SEQ, TYPE, VERSION, decode_row, split_hashes
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.event_types import is_known
from faber_ledger.ledger.file import REVISION, is_busy, locked_error, surplus_bytes
from faber_ledger.ledger.gate import Examined, Gate, examine, is_typed_whole, shown_id
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.redaction import KINDS, effective_redactions, redaction_of, rows_to_strip
from faber_ledger.ledger.union import rows_of

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.events import Recorded

HINT_NEWEST = (
    "run `faber-ledger project RUN --rebuild`, which sets the log aside and makes it again from what passes of it and"
    " of the published files"
)
HINT_UPGRADE = "nothing is lost; upgrade faber-ledger on this machine to have it checked and shown"
DOUBLES = "SELECT id FROM event NOT INDEXED GROUP BY id HAVING count(*) > 1"
HINT_FIND_COPY = (
    "run `faber-ledger verify --git` to see which copy has it, put that copy in place of the run's ledger.db, then run"
    " `faber-ledger project RUN`, which takes in what the log lacks"
)
HINT_GONE = "you need not run anything: its envelope is checked, and what it said is not known here"
TIED = "2nd reference to page"  # SQLite's words: to walk such a file may never end


class LogProblem(NamedTuple):
    """One problem: its kind, the event (None: the log itself), what is wrong, and what to do.

    The log is intact despite a note.
    """

    kind: str
    event: str | None
    what: str
    hint: str
    is_note: bool = False


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
        log.connection.text_factory = encoding.decode_any
        try:
            log.connection.execute("BEGIN")  # of all that follows, the events and heads of one moment
            (found,) = log.connection.execute("PRAGMA quick_check(1)").fetchone()
            if TIED in found:
                yield LogProblem("damaged", None, f"SQLite finds the file damaged: {found}", HINT_NEWEST)
                return
            doubles = {name for (name,) in log.connection.execute(DOUBLES)}
            yield from find_damage(log, doubles)
            yield from _event_problems(log.connection, rows_of(log), doubles, advance)
            yield from _redaction_findings(log.connection)
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise locked_error(path) from error
            yield LogProblem("damaged", None, f"the file cannot be read to its end: {error}", HINT_NEWEST)


def _event_problems(
    connection: sqlite3.Connection, rows: Iterable[Row], doubles: set[Any], advance: Callable[[int], object]
) -> Iterator[LogProblem]:
    """Yield what the gate says against the events, and what is wrong with the table of heads.

    An event that is refused has its place all the same, so that those after it are judged by themselves.
    """
    heads: dict[bytes, int] = {}
    awaited: set[bytes] = set()  # parents that an earlier row named
    refused: set[bytes] = set()
    reported: set[Any] = set()  # ids that several rows have, of the rows so far
    seqs: dict[bytes, int] = {}
    gate = Gate(seqs)
    for row in rows:
        advance(1)
        name = name_of(row[ID])
        if row[ID] in reported:
            yield LogProblem("duplicate_id", name, "another event in the log has the same id", HINT_NEWEST)
            continue
        if row[ID] in doubles:
            reported.add(row[ID])
        one = examine(row)
        parents = split_hashes(row[PARENTS]) if is_typed_whole(row) else []
        refusal = gate.find_refusal(one)
        if refusal is not None and (one.fault or refused.isdisjoint(parents)):
            kind, hint = ("missing_parent", HINT_FIND_COPY) if refusal.is_waiting else ("refused", HINT_NEWEST)
            yield LogProblem(kind, name, refusal.why, hint)
            refused.add(row[HASH])
        yield from _payload_problems(one, name)
        if not is_typed_whole(row):
            continue
        for parent in parents:
            if heads.pop(parent, None) is None and parent not in seqs:
                awaited.add(parent)
        seqs[row[HASH]] = row[SEQ]
        if row[HASH] not in awaited:
            heads[row[HASH]] = row[SEQ]
    yield from _head_problems(connection, heads, seqs, is_sound=not (refused or reported))


def _payload_problems(one: Examined, name: str) -> Iterator[LogProblem]:
    kind, version, payload = one.row[TYPE], one.row[VERSION], one.row[PAYLOAD]
    if one.dropped is not None and kind not in KINDS:
        yield LogProblem("payload", name, f"its payload cannot be used: {one.dropped}", HINT_NEWEST)
    elif one.fault is None and payload is not None and not is_known(kind, version):
        what = f"its shape ({kind}, version {version}) is not known to this program"
        yield LogProblem("unknown_shape", name, what, HINT_UPGRADE, is_note=True)


def _head_problems(
    connection: sqlite3.Connection, own: dict[bytes, int], seqs: dict[bytes, int], *, is_sound: bool
) -> Iterator[LogProblem]:
    stored = dict(connection.execute("SELECT hash, seq FROM head"))
    gone = [digest for digest in stored if digest not in seqs]
    if not stored and own:
        yield LogProblem("no_heads", None, "the table of heads is empty", HINT_NEWEST)
    elif gone:
        what = f"the table of heads names {_short(gone)}, which is not in the log: the newest events were cut off"
        yield LogProblem("cut_tail", None, what, HINT_FIND_COPY)
    elif stored != own and is_sound:  # else an event without its children looks like a head
        what = f"the table of heads names {_short(stored)}, and the events' own heads are {_short(own)}"
        yield LogProblem("heads", None, what, HINT_NEWEST)


def _redaction_findings(connection: sqlite3.Connection) -> Iterator[LogProblem]:
    """Name each payload that is gone without a redaction, that is still there despite one, and odd redactions."""
    redacted = effective_redactions(connection)
    for name, kind, payload in connection.execute(f"SELECT id, type, payload FROM event WHERE type IN {KINDS}"):
        if payload is not None and redaction_of(str(name), str(kind), "", payload) is None:
            what = "it has another form, and no effect"
            yield LogProblem("odd_redaction", name_of(name), what, HINT_GONE, is_note=True)
    gone = "payload IS NULL AND salt IS NULL AND payload_hash IS NOT NULL"  # other rows are reported already
    for (name,) in connection.execute(f"SELECT id FROM event WHERE {gone} ORDER BY seq, id"):
        if name not in redacted:
            what = "its payload is gone, and no redaction says so"
            yield LogProblem("payload_gone", name_of(name), what, HINT_GONE, is_note=True)
    for row in rows_to_strip(connection):
        hint = f"run `faber-ledger redact {quote(str(row[ID]))} --yes`, which finishes the redaction"
        what = f"event {redacted[row[ID]].id} redacts it, and its payload is here"
        yield LogProblem("not_redacted", row[ID], what, hint)


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
        what = f"it names another revision of its schema than it has: {named:.100}"
        yield LogProblem("revision", None, what, HINT_NEWEST)
    extra = surplus_bytes(connection, log.path)
    if extra:
        yield LogProblem("surplus", None, f"it goes on for {extra:,} bytes after its last page", HINT_NEWEST)


def read_verified(log: Log) -> Iterator[Recorded]:
    """Yield every event in `(seq, id)` order; raises as `verified_rows`."""
    return (decode_row((*row[:8], row[PAYLOAD])) for row in verified_rows(log))


def verified_rows(log: Log) -> Iterator[Row]:
    """Yield the stored rows in `(seq, id)` order; raises IntegrityError for the first that the gate would change."""
    gate = Gate({})
    for row in rows_of(log):
        if gate.check([examine(row)]) != row:
            (why,) = [*[one.why for one in gate.refused], *[why for _, why in gate.dropped]] or ["has two hashes"]
            raise IntegrityError(f"event {shown_id(row[ID])} is damaged: {why}", hint="run `faber-ledger verify`")
        yield row
