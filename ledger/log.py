"""The log of one run: one SQLite file to which events are appended and from which they are read in order."""

from __future__ import annotations

import os

from faber_ledger.ledger import formats, identity
from faber_ledger.ledger.canonical import canonical, cleaned, event_hash, payload_hash
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.decoding import BATCH, decoded, is_typed, payloads_of, recorded
from faber_ledger.ledger.errors import EventConflict, IntegrityError, LedgerError, NotWritable, Replaced
from faber_ledger.ledger.header import (
    UNREADABLE,
    check_companions,
    check_file,
    check_schema,
    check_whole,
    is_busy,
    locked,
    restore_hint,
)
from faber_ledger.ledger.shapes import CURRENT
from faber_ledger.ledger.sqlite import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.events import ArtifactLoaded, Draft, Recorded, Sealed
    from faber_ledger.ledger.redaction import Redaction

    Head = tuple[int, bytes]

BUSY_SECONDS = 5.0
# EXTRA syncs the folder after the journal's unlink too: else a power cut could bring the journal back, and with it roll
# back an event that was acknowledged.
DURABLE = "EXTRA"
HIGHEST_SEQ = 2**53  # what any other program reads exactly; SQLite's own end would stop every later append
# A payload is read whole and as JSON takes some twenty times its size: what one event may cost a reader is bounded.
LONGEST_PAYLOAD = 8 * 1024 * 1024
LONGEST_VALUE = LONGEST_PAYLOAD + 1024 * 1024  # SQLite counts a row's other columns too
RECOVERED = ".recovered"
READ = "SELECT seq, id, type, version, at, writer, session_id, client, payload FROM event"
ROW = (
    "SELECT seq, id, type, version, at, writer, session_id, client, parents, salt, payload, payload_hash, hash"
    " FROM event"
)
INSERT = "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
SEAL = (
    "SELECT seq, id, type, version, at, writer, session_id, client, payload, parents, salt, payload_hash, hash"
    " FROM event ORDER BY seq, id"
)


class Log:
    """A run's log, open. Whoever appends holds the run's lock."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        self.path = path
        self._redactions: dict[str, list[Redaction]] | None = None

    @classmethod
    def open(cls, path: str, synchronous: str = DURABLE, busy_seconds: float = BUSY_SECONDS) -> Log:
        """Open a log for appending, its transaction begun, and make it where there is none.

        Raises what `check_file` raises, and Locked if another process writes for longer than `busy_seconds`.
        """
        new = not check_file(path)
        check_companions(path)
        log = cls(connected(path, "rwc", synchronous, busy_seconds), path)
        try:
            with log.writing():
                log.connection.execute("BEGIN IMMEDIATE")
                if new and not log.connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    log._create()
            check_schema(log.connection, path)
            if not new:
                check_whole(log.connection, path)
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def read(cls, path: str, *, as_it_is: bool = False) -> Log:
        """Open a log for reading alone; with `as_it_is`, one that is not whole too.

        Raises what `check_file` and `check_whole` raise, LedgerError if there is none.
        """
        if not check_file(path):
            raise no_ledger(path)
        check_companions(path)
        file = path if as_it_is else _recovered_or(path)
        log = cls(connected(file, "ro"), path)
        try:
            in_memory = log._has_hot_journal()
            if in_memory:
                from faber_ledger.ledger.journal import played_in_memory  # only a killed writer's readers pay for it

                log.close()
                log.connection = played_in_memory(path)
            log.connection.execute("BEGIN")  # so that nobody writes while the file is compared with what it says
            check_schema(log.connection, path)
            if not as_it_is:
                check_whole(log.connection, None if in_memory else file)
            log.connection.execute("COMMIT")
        except BaseException:
            log.close()
            raise
        return log

    def close(self) -> None:
        """Close the file; what was not committed is gone."""
        self.connection.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def writing(self) -> Writing:
        """Give a context in which SQLite's refusal to write becomes Locked or NotWritable."""
        return Writing(self.path)

    def _has_hot_journal(self) -> bool:
        """Tell whether a killed writer left a journal; one of a writer at work is not hot, as its lock shows SQLite."""
        try:
            self.connection.execute("SELECT 1 FROM sqlite_master")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
        except UNREADABLE:
            pass  # told by whoever reads on
        return False

    def _create(self) -> None:
        for statement in formats.statements(formats.FORMAT_1):
            self.connection.execute(statement)
        self.connection.execute("INSERT INTO alembic_version VALUES (?)", (formats.REVISION,))
        self.connection.execute(f"PRAGMA application_id = {formats.APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {formats.FORMAT}")

    def append(self, drafts: Iterable[Draft], *, at: float, writer: str) -> list[Recorded]:
        """Append facts in the open transaction, each with the heads before it as parents.

        `at` is in seconds since 1970. A draft whose id and content are known is the event already there; raises
        EventConflict where the content differs, and IntegrityError where a foreign head leaves no seq.
        """
        recorded = []
        heads = self.heads()
        for draft in drafts:
            event = cleaned(draft["event"])
            known = self._known(draft)
            if known is not None:
                recorded.append(known)
                continue
            row, digest = _row(draft, event, heads, at, writer)
            self.connection.execute(INSERT, row)
            heads = [(row[0], digest)]
            recorded.append(decoded((*row[:8], row[10])))
        self.set_heads(heads)
        return recorded

    def set_heads(self, heads: Iterable[Head]) -> None:
        """Put these events, as (seq, hash), into the table of heads."""
        self.connection.execute("DELETE FROM head")
        self.connection.executemany("INSERT INTO head (seq, hash) VALUES (?, ?)", sorted(heads))

    def _known(self, draft: Draft) -> Recorded | None:
        """Give the event that already has this draft's id; raises EventConflict if it says something else."""
        if "id" not in draft:
            return None
        known = self.event_of(draft["id"])
        if known is None:
            return None
        if known["event"] != cleaned(draft["event"]) or known["client"] != draft.get("client"):
            raise EventConflict(
                f"event {draft['id']} is in the log with another content", hint="run `faber-ledger verify`"
            )
        return known

    def copy_newer(self, other: Log) -> None:
        """Put the newest events of another log, which has all of this one's, into the open transaction."""
        rows = []
        for row in other.connection.execute(f"{ROW} ORDER BY seq DESC, id DESC"):
            if self.connection.execute("SELECT 1 FROM event WHERE id = ?", (row[1],)).fetchone():
                break
            rows.append(row)
        self.connection.executemany(INSERT, reversed(rows))
        self.set_heads(other.heads())

    def commit(self) -> None:
        """Make what was appended durable: after this the events are there, whatever happens."""
        self.connection.execute("COMMIT")

    def begin(self) -> None:
        """Begin the next transaction, after a commit."""
        self.connection.execute("BEGIN IMMEDIATE")

    def heads(self) -> list[Head]:
        """Give the events that no other names as a parent, as (seq, hash), in order."""
        return self.connection.execute("SELECT seq, hash FROM head ORDER BY seq, hash").fetchall()

    def decoded(self, row: tuple[Any, ...]) -> Recorded:
        """Make a row of `READ`'s columns an event, of a redacted one with what may stay of it; raises as `decoded`."""
        one = decoded(row)
        if row[8] is None:
            from faber_ledger.ledger import redaction  # few logs have such an event

            if self._redactions is None:
                self._redactions = redaction.standing(redaction.redactions_in(self.connection))
            event: Any = one["event"]
            event.update(redaction.remains(event["type"], self._redactions.get(one["id"], [])) | event)
            one["redacted"] = True
        return one

    def forget_redactions(self) -> None:
        """Look for redactions anew when one is asked for next: rows came in."""
        self._redactions = None

    def stream(self) -> Iterator[Recorded]:
        """Give every event in `(seq, id)` order."""
        cursor = self.connection.execute(f"{READ} ORDER BY seq, id")
        while rows := cursor.fetchmany(BATCH):
            payloads = payloads_of([row[8] for row in rows]) if all(map(is_typed, rows)) else None
            yield from map(self.decoded, rows) if payloads is None else recorded(rows, payloads)

    def newest(self, count: int = -1) -> Iterator[Recorded]:
        """Give the newest events, newest first; all of them unless a count is given."""
        return map(self.decoded, self.connection.execute(f"{READ} ORDER BY seq DESC, id DESC LIMIT ?", (count,)))

    def event_of(self, name: str) -> Recorded | None:
        """Give the event of an id, or None."""
        row = self.connection.execute(f"{READ} WHERE id = ?", (name,)).fetchone()
        return decoded(row) if row else None

    def start_of(self, session_id: str) -> Recorded | None:
        """Give the event that started a session, or None."""
        row = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND session_id = ? ORDER BY seq, id", (session_id,)
        ).fetchone()
        return self.decoded(row) if row else None

    def starts_of(self, client: str) -> list[Recorded]:
        """Give the session starts of one client session id, newest first."""
        rows = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND client = ? ORDER BY seq DESC, id DESC", (client,)
        )
        return [self.decoded(row) for row in rows]

    def first_start_of(self, client: str) -> Recorded | None:
        """Give the first session start of one client session id, or None."""
        row = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND client = ? ORDER BY seq, id LIMIT 1", (client,)
        ).fetchone()
        return self.decoded(row) if row else None

    def compactions(self, *, not_by: str, before: Recorded | None) -> Iterator[Recorded]:
        """Give the compactions that other clients recorded before an event (None: before now), newest first."""
        seq, name = (before["seq"], before["id"]) if before else (1 << 62, "")
        return map(
            decoded,
            self.connection.execute(
                f"{READ} WHERE type = 'compaction_completed' AND client <> ? AND (seq, id) < (?, ?)"
                " ORDER BY seq DESC, id DESC",
                (not_by, seq, name),
            ),
        )

    def last_loads(self, artifact_ids: Iterable[str]) -> dict[str, ArtifactLoaded]:
        """Give the last event that loaded each of these artifacts, in one pass from the newest on."""
        wanted = set(artifact_ids)
        found: dict[str, ArtifactLoaded] = {}
        rows = self.connection.execute(f"{READ} WHERE type = 'artifact_loaded' ORDER BY seq DESC, id DESC")
        for one in map(self.decoded, rows):
            if not wanted:
                break
            event = one["event"]
            if event["type"] == "artifact_loaded" and event["artifact_id"] in wanted:
                wanted.remove(event["artifact_id"])
                found[event["artifact_id"]] = event
        return found

    def newest_notes(self, count: int) -> list[Recorded]:
        """Give the newest notes, newest first."""
        # A literal type, since a bound value would not match the partial index.
        rows = self.connection.execute(
            f"{READ} WHERE type = 'note_recorded' ORDER BY seq DESC, id DESC LIMIT ?", (count,)
        )
        return [self.decoded(row) for row in rows]

    def sealed(self) -> Iterator[Sealed]:
        """Give every event with all that its hash covers, in `(seq, id)` order."""
        return map(self._sealed, self.connection.execute(SEAL))

    def _sealed(self, row: tuple[Any, ...]) -> Sealed:
        payload, parents, salt, stored, digest = row[8:]
        return {
            **self.decoded(row[:9]),
            "parents": [parents[at : at + 32] for at in range(0, len(parents), 32)],
            "salt": salt,
            "payload": payload,
            "payload_hash": payload_hash(salt, payload) if payload is not None and stored is None else stored,
            "hash": digest,
        }

    def is_checkpoint(self, projector: int, digest: bytes) -> bool:
        """Tell whether blocks of this digest are what this version of the projector made of the log as it is now."""
        question = "SELECT heads, digest FROM projection WHERE projector = ?"
        found: tuple[bytes, bytes] | None = self.connection.execute(question, (projector,)).fetchone()
        return found == (self._heads_text(), digest)

    def set_checkpoint(self, projector: int, digest: bytes) -> None:
        """Record which blocks the log projects to; the blocks themselves stand in state.json."""
        self.connection.execute("DELETE FROM projection")
        self.connection.execute("INSERT INTO projection VALUES (?, ?, ?)", (projector, self._heads_text(), digest))

    def _heads_text(self) -> bytes:
        """Join the hashes of the heads into one value that is equal exactly if the heads are."""
        return b"".join([digest for _, digest in self.heads()])


class Writing:
    """While a log is written: what SQLite refuses is told as what the user can do about it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Go on."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise Locked, Replaced or NotWritable in the place of SQLite's own error."""
        if not isinstance(error, sqlite3.OperationalError):
            return
        if is_busy(error):
            raise locked(self.path) from error
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            told = f"{self.path} was replaced while it was open, as git does"
            raise Replaced(told, hint="run the command again; nothing is lost") from error
        hint = "check permissions and space of the run's folder"
        raise NotWritable(f"cannot write {self.path}: {error}", hint=hint) from error


def is_too_long(payload: str) -> bool:
    """Tell whether a payload is longer than any event's may be, which is counted in bytes of UTF-8."""
    return 4 * len(payload) > LONGEST_PAYLOAD and len(payload.encode("utf-8", "surrogatepass")) > LONGEST_PAYLOAD


def no_ledger(path: str) -> LedgerError:
    """Word that no event was ever recorded at `path`."""
    return LedgerError(f"there is no ledger at {path}", hint="run `faber-ledger run list` to see the runs")


def connected(
    path: str, mode: str, synchronous: str = DURABLE, busy_seconds: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """Connect to the database at `path`; `mode` is SQLite's: ro, rw, or rwc to make it where there is none.

    Raises IntegrityError if the file is torn, Locked, and LedgerError if it cannot be opened.
    """
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        connection = sqlite3.connect(f"file:{quoted}?mode={mode}", uri=True, isolation_level=None, timeout=busy_seconds)
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            if mode.startswith("rw"):
                connection.execute(f"PRAGMA synchronous = {synchronous}")
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise locked(path) from error
        hint = "check the permissions of the file and its folder"
        raise LedgerError(f"cannot open {path}: {error}", hint=hint) from error
    except UNREADABLE as error:
        raise IntegrityError(f"{path} cannot be read: {error}", hint=restore_hint(path)) from error
    return connection


def _recovered_or(path: str) -> str:
    """Give the file to read: while a recovery is unfinished what it has recovered, since the log may be torn."""
    done = path + RECOVERED
    if not os.path.isfile(done) or os.path.lexists(path + "-journal"):
        return path
    try:
        return done if check_file(done) else path
    except LedgerError:
        return path  # no recovery made it, and the next one overwrites it


def _row(
    draft: Draft, event: dict[str, Any], heads: list[Head], at: float, writer: str
) -> tuple[tuple[Any, ...], bytes]:
    payload = canonical({key: value for key, value in event.items() if key not in ("type", "session_id")})
    if is_too_long(payload):
        raise LedgerError(
            f"the {event['type']} is larger than {LONGEST_PAYLOAD // 1024 // 1024} MB, and no event may be",
            hint="make smaller what it is about: state.json's blocks, for a run that is adopted",
        )
    salt = os.urandom(16)
    parents = sorted(digest for _, digest in heads)
    seq = 1 + max([seq for seq, _ in heads], default=0)
    if seq > HIGHEST_SEQ:
        raise IntegrityError(
            f"the log's newest event has seq {seq - 1}, which no ledger reaches by counting",
            hint="run `faber-ledger verify`, then restore ledger.db from git, or from another machine",
        )
    name = draft.get("id") or identity.event_id(at, os.urandom(10))
    kind, version = event["type"], CURRENT[event["type"]]
    envelope = (seq, name, kind, version, utc_text(at), writer, event.get("session_id"), draft.get("client"))
    digest = event_hash(
        seq=seq,
        id=name,
        type=kind,
        version=version,
        at=envelope[4],
        writer=writer,
        session_id=envelope[6],
        client=envelope[7],
        parents=parents,
        payload_hash=payload_hash(salt, payload),
    )
    return (*envelope, b"".join(parents), salt, payload, None, digest), digest
