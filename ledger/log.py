"""The log of one run: one SQLite file to which events are appended and from which they are read in order."""

from __future__ import annotations

import os

from faber_ledger.ledger import encoding, file
from faber_ledger.ledger.clock import event_id, utc_text
from faber_ledger.ledger.encoding import HASH, INSERT, PAYLOAD, READ, SALT_BYTES, SEQ, decode_row, loads, parse_payload
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.event_types import EVENT_TYPES
from faber_ledger.ledger.file import BUSY_SECONDS, DURABLE, LARGEST_PAYLOAD, MAX_PAYLOAD_BYTES, sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.events import Draft, Recorded

    Head = tuple[int, bytes]
    Place = tuple[int, str]  # seq and id
    Checkpoint = tuple[int, str, str]  # projector, heads and digest of the blocks, in hex


MOST_PARENTS = 1_000  # of an event: the server refuses one with more than 16,384
LONG = 65_536  # characters of a payload: no note and no summary that this program records has more
CLIENT_EVENTS = 256  # newest events in which a client's are looked for
COMPACTIONS, NOTES = 64, 100  # that are read: a session's start must not read more the longer a run gets
MOST_LONG = 5  # events with a longer one that are read for a packet


class Log:
    """A run's log, open. Whoever appends holds the run's lock. `is_new` means that opening it has made its file."""

    is_new = False

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        self.path = path
        self.checkpoint: Checkpoint | None = None  # of the work tree that it was opened for

    @classmethod
    def open(cls, path: str, synchronous: str = DURABLE, busy_seconds: float = BUSY_SECONDS) -> Log:
        """Open a log for appending and begin its transaction; create the file if there is none.

        SQLite rolls back what a killed writer left in a journal beside it, so the file must be one that nobody else can
        write. Raises what `check_file` raises, and Locked if another process writes for longer than `busy_seconds`.
        """
        new = not file.check_file(path)
        log = cls(file.connect(path, "rwc", synchronous, busy_seconds), path)
        try:
            with log.writing():
                log.connection.execute("BEGIN IMMEDIATE")
                if new and not log.connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                    log._create()
                    log.is_new = True
            file.check_schema(log.connection, path)
            if not new:
                file.check_whole(log.connection, path)
            file.bound_steps(log.connection, path)
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def read(cls, path: str, *, allow_incomplete: bool = False) -> Log:
        """Open a log for reading only; with `allow_incomplete`, also an incomplete one.

        Raises what `check_file` and `check_whole` raise, and LedgerError if there is no log.
        """
        if not file.check_file(path):
            raise file.no_ledger_error(path)
        log = cls(file.connect(path, "ro"), path)
        try:
            log.connection.execute("BEGIN")  # no process writes while the file is compared with its header and heads
            file.check_schema(log.connection, path)
            if not allow_incomplete:
                file.check_whole(log.connection, path)
            log.connection.execute("COMMIT")
            if allow_incomplete:
                file.check_heads_end(log.connection, path)
            file.bound_steps(log.connection, path)
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

    def writing(self) -> file.Writing:
        """Return a context in which SQLite's refusal to write becomes Locked or NotWritable."""
        return file.Writing(self.path)

    def count_events(self) -> int:
        """Return the number of events, whatever they hold."""
        # Without the inner query SQLite counts in one step, which nothing can stop, however a forged file's pages are
        # tied.
        found = self.connection.execute("SELECT count(*) FROM (SELECT 1 FROM event LIMIT -1)").fetchone()
        return int(found[0])

    def _create(self) -> None:
        for statement in file.statements(file.FORMAT_1):
            self.connection.execute(statement)
        self.connection.execute("INSERT INTO alembic_version VALUES (?)", (file.REVISION,))
        self.connection.execute(f"PRAGMA application_id = {file.APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {file.FORMAT}")

    def append(self, drafts: Iterable[Draft], *, at: float, writer: str) -> list[Recorded]:
        """Append facts in the open transaction, each with the newest `MOST_PARENTS` heads before it as parents.

        `at` is in seconds since 1970.
        """
        recorded = []
        heads = self.heads()
        for draft in drafts:
            row = make_row(draft, encoding.clean(draft["event"]), heads[-MOST_PARENTS:], at, writer)
            self.connection.execute(INSERT, row)
            heads = [*heads[:-MOST_PARENTS], (row[SEQ], row[HASH])]
            recorded.append(encoding.recorded_of(row, loads(row[PAYLOAD])))
        self.set_heads(heads)
        return recorded

    def set_heads(self, heads: Iterable[Head]) -> None:
        """Put these events, as (seq, hash), into the table of heads."""
        self.connection.execute("DELETE FROM head")
        self.connection.executemany("INSERT INTO head (seq, hash) VALUES (?, ?)", sorted(heads))

    def commit(self) -> None:
        """Make what was appended durable: after this the events are there, whatever happens."""
        self.connection.execute("COMMIT")

    def begin(self) -> None:
        """Begin the next transaction, after a commit."""
        self.connection.execute("BEGIN IMMEDIATE")

    def heads(self) -> list[Head]:
        """Return the events that no other names as a parent, as (seq, hash), in order."""
        return self.connection.execute("SELECT seq, hash FROM head ORDER BY seq, hash").fetchall()

    def stream(self, first: Place = (0, "")) -> Iterator[Recorded]:
        """Yield every event in `(seq, id)` order, or those from `first` on."""
        return map(decode_row, self.connection.execute(f"{READ} WHERE (seq, id) >= (?, ?) ORDER BY seq, id", first))

    def events_since(self, heads: Iterable[bytes]) -> tuple[list[tuple[Place, str, bool]], bool]:
        """Return the newest events, newest first, down to the last one that is neither these heads nor before one.

        Each is its place, its type, and whether it is such a new one; and return whether all of these heads are here.
        """
        known = {*heads}
        awaited = known | {digest for _, digest in self.heads()}
        found: list[tuple[Place, str, bool]] = []
        question = "SELECT seq, id, type, parents, hash FROM event ORDER BY seq DESC, id DESC"
        for seq, name, kind, parents, digest in self.connection.execute(question):
            awaited.discard(digest)
            before, is_new = encoding.split_hashes(parents), digest not in known
            found.append(((seq, name), kind, is_new))
            if is_new:
                awaited.update([parent for parent in before if parent not in known])
            else:
                known.update(before)
                awaited.difference_update(before)
            if not awaited:
                break
        return found, not awaited

    def newest_by(self, client: str | None) -> Iterator[Recorded]:
        """Yield those of the newest events that a client caused, newest first; no other payload is read."""
        question = READ.replace("payload", "CASE WHEN client IS ? THEN payload END")
        rows = self.connection.execute(f"{question} ORDER BY seq DESC, id DESC LIMIT {CLIENT_EVENTS}", (client,))
        return (decode_row(row) for row in rows if row[7] == client)

    def newest(self, count: int) -> Iterator[Recorded]:
        """Yield the newest `count` events, newest first."""
        return map(decode_row, self.connection.execute(f"{READ} ORDER BY seq DESC, id DESC LIMIT ?", (count,)))

    def ids_of(self, types: Sequence[str] = ()) -> set[str]:
        """Return the ids of the events of these types; of all without any."""
        where = f" WHERE type IN ({', '.join('?' * len(types))})" if types else ""
        return {name for (name,) in self.connection.execute(f"SELECT id FROM event{where}", types)}

    def has_others(self, ids: set[str], types: Sequence[str]) -> bool:
        """Return whether some of these events are of other types."""
        return bool(ids - self.ids_of(types))

    def are_newest(self, types: Sequence[str], writer: str | None, count: int) -> bool:
        """Return whether the newest `count` events of a clone, by their time, are of these types; False for none."""
        question = "SELECT type FROM event WHERE writer = ? ORDER BY id DESC LIMIT ?"
        found = {kind for (kind,) in self.connection.execute(question, (writer, count))}
        return bool(found) and found <= {*types}

    def event_beginning(self, letters: str) -> Recorded | None:
        """Return the event whose id begins with these letters, the first one of several; None if there is none."""
        return self._one("id BETWEEN ? AND ? ORDER BY id LIMIT 1", letters, f"{letters}~")

    def start_of(self, session_id: str) -> Recorded | None:
        """Return the event that started a session, or None."""
        return self._one("type = 'session_started' AND session_id = ? ORDER BY seq, id", session_id)

    def starts_of(self, client: str | None) -> list[Recorded]:
        """Return the session starts of one client session id, newest first; none for None."""
        question = f"{READ} WHERE type = 'session_started' AND client = ? ORDER BY seq DESC, id DESC"
        return [decode_row(row) for row in self.connection.execute(question, (client,))]

    def first_start_of(self, client: str) -> Recorded | None:
        """Return the first session start of one client session id, or None."""
        return self._one("type = 'session_started' AND client = ? ORDER BY seq, id LIMIT 1", client)

    def course_of(self, client: str) -> Iterator[Recorded]:
        """Yield a client's session starts and ends, and what its responses cost, oldest first."""
        first = "SELECT min(seq) FROM event WHERE type = 'session_started' AND client = ?1"
        kinds = "'session_started', 'session_ended', 'usage_recorded'"
        question = f"{READ} WHERE seq >= ({first}) AND client = ?1 AND type IN ({kinds}) ORDER BY seq, id"
        return map(decode_row, self.connection.execute(question, (client,)))

    def usage(self) -> Iterator[Recorded]:
        """Yield what responses cost, oldest first."""
        return map(decode_row, self.connection.execute(f"{READ} WHERE type = 'usage_recorded' ORDER BY seq, id"))

    def last_start(self, *, before: Recorded | None, writer: str | None = None) -> Recorded | None:
        """Return the newest session start before an event (None: before now) by its time, of one clone or of any."""
        where = "type = 'session_started' AND id < ?1 AND writer = coalesce(?2, writer) ORDER BY id DESC LIMIT 1"
        return self._one(where, before["id"] if before else "~", writer)

    def _one(self, where: str, *values: object) -> Recorded | None:
        row = self.connection.execute(f"{READ} WHERE {where}", values).fetchone()
        return decode_row(row) if row else None

    def ends_of(self, start: Recorded) -> Iterator[Recorded]:
        """Yield the ends of the session of a start, newest first."""
        return self._of_session("session_ended", start)

    def checkout_after(self, start: Recorded) -> Recorded | None:
        """Return what was checked out when a session, of this start, ended; None if it has not, or that is unknown."""
        found = self._of_session("checkout_recorded", start)
        return next((one for one in found if dict(one["event"]).get("is_end") is True), None)

    def _of_session(self, kind: str, start: Recorded) -> Iterator[Recorded]:
        """Yield the events of one type that a session has after its start, newest first."""
        named = dict(start["event"]).get("session_id")
        question = f"{READ} WHERE type = ? AND session_id = ? AND seq > ? ORDER BY seq DESC, id DESC"
        return map(decode_row, self.connection.execute(question, (kind, named, start["seq"])))

    def compactions(self, *, not_by: str, before: Recorded | None) -> Iterator[Recorded]:
        """Yield compactions that other clients recorded before an event (None: before now), the newest first."""
        wanted = "type = 'compaction_completed' AND client <> ? AND +id < ?"
        newest = f"SELECT id FROM event WHERE {wanted} ORDER BY seq DESC LIMIT {COMPACTIONS}"
        question = f"{READ} WHERE id IN ({newest}) ORDER BY id DESC"
        return _decode_few_long(self.connection.execute(question, (not_by, before["id"] if before else "~")))

    def newest_loads(self, session_id: str) -> Iterator[Recorded]:
        """Yield the loads of a session, newest first, without those of an answer that was lost."""
        lost = "SELECT coalesce(max(seq), -1) FROM event WHERE type = 'answer_lost' AND session_id = ?1"
        wanted = f"type = 'artifact_loaded' AND session_id = ?1 AND seq > ({lost})"
        question = f"{READ} WHERE {wanted} ORDER BY seq DESC, id DESC"
        return map(decode_row, self.connection.execute(question, (session_id,)))

    def first_branch(self, *, besides: str | None) -> str | None:
        """Return the first branch, besides one, on which the run or a session of it started; None if there is none."""
        starts = "SELECT seq, session_id FROM event INDEXED BY event_session WHERE type = 'session_started'"
        starts = f"SELECT 1 AS seq, NULL AS session_id UNION ALL {starts}"  # the run's own, and sessions'
        next_to = "after.seq = start.seq + 1 AND after.session_id IS start.session_id AND type = 'checkout_recorded'"
        rows = self.connection.execute(
            f"SELECT payload FROM ({starts}) start CROSS JOIN event after ON {next_to} WHERE typeof(payload) = 'text'"
            " ORDER BY after.seq"
        )
        for (payload,) in rows:
            event = parse_payload(payload) or {}
            branch = event.get("branch")
            if event.get("has_run") is True and isinstance(branch, str) and branch != besides:
                return branch
        return None

    def machine_of(self, writer: str) -> str | None:
        """Return the machine of a clone's newest session whose start was not redacted; None if none says one."""
        known = "type = 'session_started' AND writer = ? AND payload IS NOT NULL"
        start = self._one(f"{known} ORDER BY seq DESC LIMIT 1", writer)
        environment = dict(start["event"]).get("environment") if start is not None else None
        machine = environment.get("hostname") if isinstance(environment, dict) else None
        return machine if isinstance(machine, str) and machine else None

    def newest_notes(self) -> Iterator[Recorded]:
        """Yield the newest notes, newest first, and few that are very long."""
        newest = f"SELECT id FROM event WHERE type = 'note_recorded' ORDER BY seq DESC LIMIT {NOTES}"
        question = f"{READ} WHERE id IN ({newest}) ORDER BY id DESC"
        return _decode_few_long(self.connection.execute(question))

    def is_checkpoint(self, projector: int, digest: bytes) -> bool:
        """Return whether this version of the projector folded the log, as it is now, to blocks of this digest."""
        return tuple(self.checkpoint or ()) == (projector, self.heads_text(), digest.hex())  # a note has a list

    def heads_text(self) -> str:
        """Return the hashes of the heads as one text, which is equal exactly if the heads are."""
        return "".join([digest.hex() for _, digest in self.heads()])


def _decode_few_long(rows: Iterable[Row]) -> Iterator[Recorded]:
    """Decode rows until some with a very long payload came, of which somebody may have put hundreds into a ledger."""
    count = 0
    for row in rows:
        yield decode_row(row)
        count += row[8] is not None and len(row[8]) > LONG
        if count == MOST_LONG:
            return


def is_too_long(payload: str) -> bool:
    """Return whether a payload is longer than `MAX_PAYLOAD_BYTES` of UTF-8."""
    return len(payload.encode("utf-8", "surrogatepass")) > MAX_PAYLOAD_BYTES


def make_row(draft: Draft, event: dict[str, Any], heads: list[tuple[int, bytes]], at: float, writer: str) -> Row:
    """Make the row of a draft that comes after these heads; `event` is the draft's event, cleaned.

    `at` is in seconds since 1970. Raises LedgerError for a payload that is too long.
    """
    payload = encoding.canonical({key: value for key, value in event.items() if key not in ("type", "session_id")})
    if 4 * len(payload) > MAX_PAYLOAD_BYTES and is_too_long(payload):  # hardly ever encoded for this
        raise LedgerError(
            f"the {event['type']} is larger than {LARGEST_PAYLOAD}, and no event may be",
            hint="make its content smaller: for a run that is adopted, the blocks in state.json",
        )
    salt = bytes.fromhex(draft["salt"]) if "salt" in draft else os.urandom(SALT_BYTES)
    parents = sorted([digest for _, digest in heads])
    seq = 1 + max([seq for seq, _ in heads], default=0)
    name = draft.get("id") or event_id(at, os.urandom(10))
    kind, version = event["type"], EVENT_TYPES[event["type"]].version
    envelope = (
        seq,
        name,
        kind,
        version,
        utc_text(draft.get("at", at)),
        writer,
        event.get("session_id"),
        draft.get("client"),
    )
    row = (*envelope, b"".join(parents), salt, payload, None)
    return (*row, encoding.compute_hash(row))
