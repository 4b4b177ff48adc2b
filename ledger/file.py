"""The ledger's file: its format, its header, and how SQLite opens it."""

from __future__ import annotations

import os
import stat
import sys

from faber_ledger.ledger.clock import time_left
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NewerFormat, NotALedger, NotWritable

TYPE_CHECKING = False

APPLICATION_ID = 0x46424C47  # "FBLG"
FORMAT = 1
REVISION = "0001"
HIGHEST_SEQ = 2**53  # every JSON reader reads it exactly; after SQLite's own maximum no event could be appended
# A payload is read at once, and parsing it takes some twenty times its size: this bounds what one event costs a reader.
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
LARGEST_PAYLOAD = f"{MAX_PAYLOAD_BYTES // 1024 // 1024} MB"  # as messages say it
MAX_VALUE_BYTES = MAX_PAYLOAD_BYTES + 1024 * 1024  # SQLite counts a row's other columns too

FORMAT_1 = """\
CREATE TABLE event (
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  version INTEGER NOT NULL,
  at TEXT NOT NULL,
  writer TEXT NOT NULL,
  session_id TEXT,
  client TEXT,
  parents BLOB NOT NULL,
  salt BLOB,
  payload TEXT,
  payload_hash BLOB,
  hash BLOB NOT NULL,
  PRIMARY KEY (seq, id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX event_id ON event (id);

CREATE INDEX event_client ON event (client, seq) WHERE type = 'session_started';

CREATE INDEX event_session ON event (session_id, seq) WHERE type = 'session_started';

CREATE INDEX event_compaction ON event (seq) WHERE type = 'compaction_completed';

CREATE INDEX event_note ON event (seq) WHERE type = 'note_recorded';

CREATE TABLE head (
  hash BLOB NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (hash)
) WITHOUT ROWID;

CREATE TABLE projection (
  projector INTEGER NOT NULL,
  heads BLOB NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (projector)
) WITHOUT ROWID;

CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TRIGGER event_is_never_updated BEFORE UPDATE ON event
BEGIN
  SELECT RAISE(ABORT, 'an event is never updated');
END;

CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
BEGIN
  SELECT RAISE(ABORT, 'an event is never deleted');
END;

CREATE TRIGGER event_id_is_new BEFORE INSERT ON event
WHEN EXISTS (SELECT 1 FROM event WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'an event with this id is known');
END;
"""


def statements(text: str) -> list[str]:
    """Split a format's text into its statements, each as SQLite keeps it in its schema."""
    return [part.strip().removesuffix(";") for part in text.split("\n\n")]


if TYPE_CHECKING:
    import sqlite3
else:
    # The package around `_sqlite3` loads `datetime`, a twelfth of what starting Python costs. `_sqlite3` itself takes
    # `lru_cache` from `functools`, which costs another tenth: unless it is loaded, the C function in it does.
    from _functools import _lru_cache_wrapper

    if "functools" not in sys.modules:
        sys.modules["functools"] = type(sys)("functools")
        sys.modules["functools"].lru_cache = lambda size: lambda made: _lru_cache_wrapper(made, size, False, tuple)
        try:
            import _sqlite3 as sqlite3
        finally:
            del sys.modules["functools"]
    import _sqlite3 as sqlite3

__all__ = ["sqlite3"]
BUSY_SECONDS = 5.0
# EXTRA syncs the folder after the journal's unlink too: else a power cut could bring the journal back, and with it roll
# back an event that was acknowledged.
DURABLE = "EXTRA"
# SQLite's steps between two looks at the time; and how many it may take to open a ledger, and for all that is asked of
# it then, beside those for each byte of its file. A sound file needs a small part; in a forged one a few pages can name
# each other so often that no question ends.
STEPS_AT_ONCE = 10_000
STEPS_TO_OPEN, STEPS_PER_BYTE_TO_OPEN = 50_000, 2
STEPS_TO_USE, STEPS_PER_BYTE_TO_USE = 1_000_000_000, 200
HINT_RESTORE = "get the file again from where it is intact"
ENDLESS = "takes more steps to read than any ledger of its size"
# SQLite quotes a broken schema's own bytes in its message, and they need not be text.
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)


def connect(path: str, mode: str, synchronous: str = DURABLE, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Connect to the database at `path`; `mode` is SQLite's: ro, rw, or rwc to create it.

    Raises IntegrityError if the file is torn, Locked, and LedgerError if it cannot be opened.
    """
    try:
        quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        name, seconds = f"file:{quoted}?mode={mode}", time_left(busy_seconds)
        connection = sqlite3.connect(name, uri=True, isolation_level=None, timeout=seconds)
        try:
            bound_steps(connection, path, STEPS_TO_OPEN, STEPS_PER_BYTE_TO_OPEN)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.execute("PRAGMA trusted_schema = OFF")
            if mode.startswith("rw"):
                connection.execute(f"PRAGMA synchronous = {synchronous}")
        except BaseException:
            connection.close()
            raise
    except UNREADABLE as error:
        if isinstance(error, sqlite3.OperationalError) and not (is_busy(error) or is_endless(error)):
            hint = "check the permissions of the file and its folder"
            raise LedgerError(f"cannot open {path}: {error}", hint=hint) from error
        raise unreadable_error(error, path) from error
    return connection


def bound_steps(
    connection: sqlite3.Connection, path: str, steps: int = STEPS_TO_USE, per_byte: int = STEPS_PER_BYTE_TO_USE
) -> None:
    """Bound the steps of all that is asked of a file from now on by its size, and by the time of a hook."""
    try:
        size = os.stat(path).st_size
    except OSError:
        size = 0
    left = iter(range((steps + per_byte * size) // STEPS_AT_ONCE))
    connection.set_progress_handler(lambda: next(left, None) is None or time_left(1.0) == 0.0, STEPS_AT_ONCE)


def is_endless(error: Exception) -> bool:
    """Return whether SQLite was stopped after too many steps, or after a hook's time."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def is_busy(error: Exception) -> bool:
    """Return whether SQLite refused because another process is using the file, which may be intact."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def unreadable_error(error: Exception, path: str) -> LedgerError:
    """Return the error for a file that SQLite cannot read now: Locked, or IntegrityError."""
    if is_busy(error):
        return locked_error(path)
    return IntegrityError(f"{path} {ENDLESS if is_endless(error) else f'cannot be read: {error}'}", hint=HINT_RESTORE)


def locked_error(path: str) -> Locked:
    """Return the error for a file that another process is writing."""
    return Locked(f"another process is writing {path}", hint="run the command again when it has ended")


class Writing:
    """A context for writing a log: SQLite's errors become errors that say what the user can do."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise Locked or NotWritable instead of SQLite's own error."""
        if not isinstance(error, sqlite3.OperationalError):
            return
        if is_busy(error):
            raise locked_error(self.path) from error
        hint = "check permissions and space of the folder"
        raise NotWritable(f"cannot write {self.path}: {error}", hint=hint) from error


SCHEMA = sorted(statements(FORMAT_1))
# Nearly every ledger has one head. To find the last event, SQLite compares no key: for a comparison it reads a whole
# row, with a payload that may have megabytes.
NEWEST_IS_HEAD = """\
SELECT (SELECT count(*) FROM (SELECT 1 FROM head LIMIT 2)) = 1
  AND (SELECT seq, hash FROM event ORDER BY seq DESC, id DESC LIMIT 1) IS (SELECT seq, hash FROM head)"""
# An event has a larger seq than its parents, so the newest is always a head. Each event that has the seq of a head is
# looked at once: any number of heads may have one seq. All rows of a table are counted in one step, which nothing can
# stop; those of a query with a limit are not.
ALL_HEADS = "SELECT count(*) FROM (SELECT 1 FROM head LIMIT -1)"
HEADS_FIT = f"""\
SELECT (SELECT max(seq) FROM head) IS (SELECT max(seq) FROM event)
  AND ({ALL_HEADS}) = (
  SELECT count(*) FROM event CROSS JOIN head USING (seq, hash) WHERE event.seq IN (SELECT seq FROM head))"""


def check_file(path: str) -> bool:
    """Return whether a ledger of this format is at `path`; False if there is none, or an empty file.

    Reads the header's bytes alone. Raises NotALedger for a link, another kind of file, another program's database,
    IntegrityError for a format that does not exist, NewerFormat, and LedgerError if it cannot be read.
    """
    header = _header(path)
    if not header:
        return False
    if len(header) < 100 and header[:16] == b"SQLite format 3\0"[: len(header)]:
        raise NotALedger(f"{path} is truncated: it has {len(header)} bytes", hint=HINT_RESTORE)
    if header[:16] != b"SQLite format 3\0":
        raise NotALedger(f"{path} is not a SQLite database", hint=HINT_RESTORE)
    application, version = int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    if application != APPLICATION_ID:
        raise NotALedger(f"{path} is another program's database", hint=HINT_RESTORE)
    if header[18:20] != b"\1\1":
        raise NotALedger(f"{path} is in WAL mode, which no ledger is", hint=HINT_RESTORE)
    if version < 1:
        raise IntegrityError(f"{path} has format {version}, which does not exist", hint=HINT_RESTORE)
    if version > FORMAT:
        raise NewerFormat(
            f"{path} has format {version}, and this program knows formats up to {FORMAT}",
            hint="upgrade faber-ledger on this machine, then run the command again",
        )
    return True


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Compare the schema's text with the format's; raises IntegrityError if one character differs, and Locked.

    A forged schema may hold values that are not text: their representation is compared, which no format has.
    """
    try:
        found = [str(text) for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    except UNREADABLE as error:
        raise unreadable_error(error, path) from error
    if sorted(found) != SCHEMA:
        raise IntegrityError(f"{path} does not have the schema of a ledger", hint=HINT_RESTORE)


def check_whole(connection: sqlite3.Connection, path: str) -> None:
    """Check, in constant time, that a ledger's heads are its newest events, and that the file ends where it says.

    The caller's transaction keeps writers away. Raises IntegrityError.
    """
    try:
        fault = _first_fault(connection, path)
    except UNREADABLE as error:
        raise unreadable_error(error, path) from error
    if fault is not None:
        hint = "run `faber-ledger verify`, which names everything that is wrong, and what to run"
        raise IntegrityError(f"{path} {fault}", hint=hint)


def check_heads_end(connection: sqlite3.Connection, path: str) -> None:
    """Raise IntegrityError if to read the heads takes more steps than any ledger of a file's size."""
    try:
        connection.execute(ALL_HEADS).fetchone()
    except UNREADABLE as error:
        if is_endless(error):
            raise unreadable_error(error, path) from error


def _first_fault(connection: sqlite3.Connection, path: str) -> str | None:
    if connection.execute(NEWEST_IS_HEAD).fetchone() != (1,) and connection.execute(HEADS_FIT).fetchone() != (1,):
        return "does not end with the events that its table of heads names"
    if connection.execute("SELECT version_num FROM alembic_version").fetchmany(2) != [(REVISION,)]:
        return "names another revision of its schema than it has"
    extra = surplus_bytes(connection, path)
    return f"goes on for {extra:,} bytes after its last page" if extra else None


def surplus_bytes(connection: sqlite3.Connection, path: str) -> int:
    """Return how many bytes a file has after its last page; the caller's transaction keeps writers away."""
    (pages,), (size,) = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")]
    return max(os.stat(path).st_size - int(pages) * int(size), 0)


def _header(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return b""
    except OSError as error:
        if os.path.islink(path):
            raise NotALedger(
                f"{path} is a link, and a ledger is never opened through one", hint=HINT_RESTORE
            ) from error
        raise LedgerError(f"cannot read {path}: {error.strerror}", hint="check the file's permissions") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotALedger(f"{path} is not a regular file", hint=HINT_RESTORE)
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def no_ledger_error(path: str) -> LedgerError:
    """Return the error for a path at which no event was ever recorded."""
    return LedgerError(f"there is no ledger at {path}", hint="run `faber-ledger run list` to see the runs")
