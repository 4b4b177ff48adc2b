"""The log of one run: one SQLite file to which events are appended and from which they are read in order."""

from __future__ import annotations

import os

from faber_ledger.ledger import JOURNAL_ENDING, RECOVERED_ENDING
from faber_ledger.ledger.canonical import clean
from faber_ledger.ledger.errors import EventConflict, LedgerError
from faber_ledger.ledger.file import (
    APPLICATION_ID,
    BUSY_SECONDS,
    DURABLE,
    FORMAT,
    FORMAT_1,
    REVISION,
    UNREADABLE,
    Writing,
    check_companions,
    check_file,
    check_schema,
    check_whole,
    connect,
    no_ledger_error,
    sqlite3,
    statements,
)
from faber_ledger.ledger.row import (
    BATCH,
    HASH,
    ID,
    INSERT,
    PARENTS,
    PAYLOAD,
    READ,
    ROW,
    SEQ,
    decode_row,
    decode_rows,
    is_typed,
    make_row,
    parse_payloads,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.events import ArtifactLoaded, Draft, Recorded
    from faber_ledger.ledger.redaction import Redaction

    Head = tuple[int, bytes]


class Log:
    """A run's log, open. Whoever appends holds the run's lock."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        self.path = path
        self._redactions: dict[str, list[Redaction]] | None = None

    @classmethod
    def open(cls, path: str, synchronous: str = DURABLE, busy_seconds: float = BUSY_SECONDS) -> Log:
        """Open a log for appending and begin its transaction; create the file if there is none.

        Raises what `check_file` and `check_journal` raise, and Locked if another process writes for longer than
        `busy_seconds`.
        """
        new = not check_file(path)
        if check_companions(path):
            from faber_ledger.ledger.journal import check_journal  # a writer is at work, or was killed

            check_journal(path)
        log = cls(connect(path, "rwc", synchronous, busy_seconds), path)
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
    def read(cls, path: str, *, allow_incomplete: bool = False) -> Log:
        """Open a log for reading only; with `allow_incomplete`, also an incomplete one.

        Raises what `check_file` and `check_whole` raise, and LedgerError if there is no log.
        """
        if not check_file(path):
            raise no_ledger_error(path)
        has_fault = False
        if check_companions(path):
            # Asked before SQLite opens the journal: run by root, it would give another user's to the ledger's owner.
            from faber_ledger.ledger.journal import find_fault

            has_fault = find_fault(path) is not None
        file = path if allow_incomplete else _file_to_read(path)
        log = cls(connect(file, "ro"), path)
        try:
            in_memory = has_fault or log._has_hot_journal()
            if in_memory:
                from faber_ledger.ledger.journal import open_with_journal  # only a killed writer's readers pay for it

                log.close()
                log.connection = open_with_journal(path)
            log.connection.execute("BEGIN")  # no process writes while the file is compared with its header and heads
            check_schema(log.connection, path)
            if not allow_incomplete:
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
        """Return a context in which SQLite's refusal to write becomes Locked or NotWritable."""
        return Writing(self.path)

    def _has_hot_journal(self) -> bool:
        """Return whether a killed writer left a journal; SQLite sees the lock of a writer that is still at work."""
        try:
            self.connection.execute("SELECT 1 FROM sqlite_master")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
        except UNREADABLE:
            pass  # the next read reports it
        return False

    def _create(self) -> None:
        for statement in statements(FORMAT_1):
            self.connection.execute(statement)
        self.connection.execute("INSERT INTO alembic_version VALUES (?)", (REVISION,))
        self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {FORMAT}")

    def append(self, drafts: Iterable[Draft], *, at: float, writer: str) -> list[Recorded]:
        """Append facts in the open transaction, each with the heads before it as parents.

        `at` is in seconds since 1970. A draft whose id is in the log already is that event; raises
        EventConflict if its content differs, and IntegrityError if a foreign head leaves no seq.
        """
        recorded = []
        heads = self.heads()
        for draft in drafts:
            event = clean(draft["event"])
            known = self._known(draft)
            if known is not None:
                recorded.append(known)
                continue
            row = make_row(draft, event, heads, at, writer)
            self.connection.execute(INSERT, row)
            heads = [(row[SEQ], row[HASH])]
            recorded.append(decode_row((*row[:PARENTS], row[PAYLOAD])))
        self.set_heads(heads)
        return recorded

    def set_heads(self, heads: Iterable[Head]) -> None:
        """Put these events, as (seq, hash), into the table of heads."""
        self.connection.execute("DELETE FROM head")
        self.connection.executemany("INSERT INTO head (seq, hash) VALUES (?, ?)", sorted(heads))

    def _known(self, draft: Draft) -> Recorded | None:
        """Return the event that already has this draft's id; raises EventConflict if its content differs."""
        if "id" not in draft:
            return None
        known = self.event_of(draft["id"])
        if known is None:
            return None
        if known["event"] != clean(draft["event"]) or known["client"] != draft.get("client"):
            raise EventConflict(
                f"event {draft['id']} is in the log with another content", hint="run `faber-ledger verify`"
            )
        return known

    def copy_newer(self, other: Log) -> None:
        """Insert the newest events of another log, which has all events of this one, in the open transaction."""
        rows = []
        for row in other.connection.execute(f"{ROW} ORDER BY seq DESC, id DESC"):
            if self.connection.execute("SELECT 1 FROM event WHERE id = ?", (row[ID],)).fetchone():
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
        """Return the events that no other names as a parent, as (seq, hash), in order."""
        return self.connection.execute("SELECT seq, hash FROM head ORDER BY seq, hash").fetchall()

    def decode(self, row: tuple[Any, ...]) -> Recorded:
        """Make a row of `READ`'s columns an event; a redacted one with what may remain. Raises as `decode_row`."""
        one = decode_row(row)
        if row[8] is None:
            from faber_ledger.ledger.effective import effective_redactions  # few logs have such an event
            from faber_ledger.ledger.redaction import remains

            if self._redactions is None:
                self._redactions = effective_redactions(self.connection).by_event
            event: Any = one["event"]
            event.update(remains(event["type"], self._redactions.get(one["id"], [])) | event)
            one["redacted"] = True
        return one

    def forget_redactions(self) -> None:
        """Look up redactions again when they are needed next, because rows were inserted."""
        self._redactions = None

    def stream(self) -> Iterator[Recorded]:
        """Yield every event in `(seq, id)` order."""
        cursor = self.connection.execute(f"{READ} ORDER BY seq, id")
        while rows := cursor.fetchmany(BATCH):
            payloads = parse_payloads([row[8] for row in rows]) if all(map(is_typed, rows)) else None
            yield from map(self.decode, rows) if payloads is None else decode_rows(rows, payloads)

    def newest(self, count: int = -1) -> Iterator[Recorded]:
        """Yield the newest `count` events, or all, newest first."""
        return map(self.decode, self.connection.execute(f"{READ} ORDER BY seq DESC, id DESC LIMIT ?", (count,)))

    def event_of(self, name: str) -> Recorded | None:
        """Return the event with an id, or None."""
        row = self.connection.execute(f"{READ} WHERE id = ?", (name,)).fetchone()
        return decode_row(row) if row else None

    def start_of(self, session_id: str) -> Recorded | None:
        """Return the event that started a session, or None."""
        row = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND session_id = ? ORDER BY seq, id", (session_id,)
        ).fetchone()
        return self.decode(row) if row else None

    def starts_of(self, client: str) -> list[Recorded]:
        """Return the session starts of one client session id, newest first."""
        rows = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND client = ? ORDER BY seq DESC, id DESC", (client,)
        )
        return [self.decode(row) for row in rows]

    def first_start_of(self, client: str) -> Recorded | None:
        """Return the first session start of one client session id, or None."""
        row = self.connection.execute(
            f"{READ} WHERE type = 'session_started' AND client = ? ORDER BY seq, id LIMIT 1", (client,)
        ).fetchone()
        return self.decode(row) if row else None

    def compactions(self, *, not_by: str, before: Recorded | None) -> Iterator[Recorded]:
        """Yield the compactions that other clients recorded before an event (None: before now), newest first."""
        seq, name = (before["seq"], before["id"]) if before else (1 << 62, "")
        return map(
            decode_row,
            self.connection.execute(
                f"{READ} WHERE type = 'compaction_completed' AND client <> ? AND (seq, id) < (?, ?)"
                " ORDER BY seq DESC, id DESC",
                (not_by, seq, name),
            ),
        )

    def last_loads(self, artifact_ids: Iterable[str]) -> dict[str, ArtifactLoaded]:
        """Return the last event that loaded each of these artifacts, in one pass from the newest on."""
        wanted = set(artifact_ids)
        found: dict[str, ArtifactLoaded] = {}
        rows = self.connection.execute(f"{READ} WHERE type = 'artifact_loaded' ORDER BY seq DESC, id DESC")
        for one in map(self.decode, rows):
            if not wanted:
                break
            event = one["event"]
            if event["type"] == "artifact_loaded" and event["artifact_id"] in wanted:
                wanted.remove(event["artifact_id"])
                found[event["artifact_id"]] = event
        return found

    def has_writer(self, writer: str) -> bool:
        """Return whether a clone, named by its id, has written an event of the log."""
        return self.connection.execute("SELECT 1 FROM event WHERE writer = ? LIMIT 1", (writer,)).fetchone() is not None

    def has_other_writer(self, writer: str) -> bool:
        """Return whether another clone has written an event of the log."""
        question = "SELECT 1 FROM event WHERE writer <> ? LIMIT 1"
        return self.connection.execute(question, (writer,)).fetchone() is not None

    def newest_branch(self) -> tuple[int, str, str] | None:
        """Return seq, id and branch of the newest record of a branch that had the run's files; None without one."""
        rows = self.connection.execute(f"{READ} WHERE type = 'checkout_recorded' ORDER BY seq DESC, id DESC")
        for recorded in map(self.decode, rows):
            event: dict[str, object] = dict(recorded["event"])
            branch = event.get("branch")
            if event.get("has_run") is True and isinstance(branch, str):
                return recorded["seq"], recorded["id"], branch
        return None

    def newest_notes(self, count: int) -> list[Recorded]:
        """Return the newest notes, newest first."""
        # A literal type, since a bound value would not match the partial index.
        rows = self.connection.execute(
            f"{READ} WHERE type = 'note_recorded' ORDER BY seq DESC, id DESC LIMIT ?", (count,)
        )
        return [self.decode(row) for row in rows]

    def is_checkpoint(self, projector: int, digest: bytes) -> bool:
        """Return whether this version of the projector folded the log, as it is now, to blocks of this digest."""
        question = "SELECT heads, digest FROM projection WHERE projector = ?"
        found: tuple[bytes, bytes] | None = self.connection.execute(question, (projector,)).fetchone()
        return found == (self._heads_text(), digest)

    def set_checkpoint(self, projector: int, digest: bytes) -> None:
        """Record which blocks the log projects to; the blocks themselves are in state.json."""
        self.connection.execute("DELETE FROM projection")
        self.connection.execute("INSERT INTO projection VALUES (?, ?, ?)", (projector, self._heads_text(), digest))

    def _heads_text(self) -> bytes:
        """Join the hashes of the heads into one value that is equal exactly if the heads are."""
        return b"".join([digest for _, digest in self.heads()])


def _file_to_read(path: str) -> str:
    """Return the file to read: the log, or during an unfinished recovery its result, since the log may be torn.

    A file that git tracks, that is outside a work tree, or that has a journal beside it is not a recovery's.
    """
    done = path + RECOVERED_ENDING
    if not os.path.isfile(done) or any([os.path.lexists(one + JOURNAL_ENDING) for one in (path, done)]):
        return path
    from faber_ledger import ledger

    if os.path.lexists(done + "-wal") or ledger.tracking_query(done) is not False:
        return path
    try:
        return done if check_file(done) else path
    except LedgerError:
        return path  # no recovery made it, and the next one overwrites it
