"""What a file must be before it is opened as a ledger: asked of its bytes and of its schema, never assumed."""

from __future__ import annotations

import os
import stat

from faber_ledger.ledger import formats
from faber_ledger.ledger.errors import IntegrityError, LedgerError, NewerFormat, NotALedger
from faber_ledger.ledger.sqlite import RESTORE, UNREADABLE, is_busy, locked, sqlite3

SCHEMA = sorted(formats.statements(formats.FORMAT_1))
VERIFY = "run `faber-ledger verify`, which names all that is wrong, and what to run"
# An event has a larger seq than its parents, so the newest is always a head.
HEADS_FIT = """\
SELECT (SELECT max(seq) FROM head) IS (SELECT max(seq) FROM event) AND NOT EXISTS (
  SELECT 1 FROM head WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.seq = head.seq AND event.hash = head.hash))"""


def check_file(path: str) -> bool:
    """Tell whether a ledger of this format is at `path`; False if there is none, or an empty file.

    Reads the header's bytes alone. Raises NotALedger for a link, another kind of file, another program's database,
    IntegrityError for a format that never was, NewerFormat, and LedgerError if it cannot be read.
    """
    header = _header(path)
    if not header:
        return False
    if len(header) < 100 and header[:16] == b"SQLite format 3\0"[: len(header)]:
        raise NotALedger(f"{path} is truncated: it has {len(header)} bytes", hint=RESTORE)
    if header[:16] != b"SQLite format 3\0":
        raise NotALedger(f"{path} is not a SQLite database", hint=RESTORE)
    application, version = int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    if application != formats.APPLICATION_ID:
        raise NotALedger(f"{path} is another program's database", hint=RESTORE)
    if header[18:20] != b"\1\1":
        raise NotALedger(f"{path} is in WAL mode, which no ledger is", hint=RESTORE)
    if version < 1:
        raise IntegrityError(f"{path} has format {version}, which never was", hint=RESTORE)
    if version > formats.FORMAT:
        raise NewerFormat(
            f"{path} has format {version}, and this program knows formats up to {formats.FORMAT}",
            hint="upgrade faber-ledger on this machine, then run the command again",
        )
    return True


def format_of(path: str) -> int:
    """Give the format of the ledger at `path`; raises what `check_file` raises."""
    check_file(path)
    return int.from_bytes(_header(path)[60:64], "big")


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Compare the schema's text with the format's; raises IntegrityError if one letter differs, and Locked.

    A forged schema may hold what is no text at all: it is compared as its representation, which no format has.
    """
    try:
        found = [str(text) for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    except UNREADABLE as error:
        if isinstance(error, sqlite3.DatabaseError) and is_busy(error):
            raise locked(path) from error
        raise IntegrityError(f"{path} cannot be read: {error}", hint=RESTORE) from error
    if sorted(found) != SCHEMA:
        raise IntegrityError(f"{path} does not have the schema of a ledger", hint=RESTORE)


def check_whole(connection: sqlite3.Connection, path: str | None) -> None:
    """Ask, in constant time, whether a ledger's heads are its newest events, and the file ends where it says.

    The caller's transaction keeps writers away; `path` is None for a file in memory. Raises IntegrityError.
    """
    try:
        told = _first_fault(connection, path)
    except UNREADABLE as error:
        if isinstance(error, sqlite3.DatabaseError) and is_busy(error):
            raise locked(path or "the ledger") from error
        told = f"cannot be read: {error}"
    if told is not None:
        raise IntegrityError(f"{path or 'the ledger'} {told}", hint=VERIFY)


def _first_fault(connection: sqlite3.Connection, path: str | None) -> str | None:
    (fits,) = connection.execute(HEADS_FIT).fetchone()
    if not fits:
        return "does not end with the events that its table of heads names"
    if connection.execute("SELECT version_num FROM alembic_version").fetchmany(2) != [(formats.REVISION,)]:
        return "names another revision of its schema than it has"
    extra = surplus(connection, path) if path is not None else 0
    return f"goes on for {extra:,} bytes after its last page" if extra else None


def surplus(connection: sqlite3.Connection, path: str) -> int:
    """Give how many bytes a file has after its last page; the caller's transaction keeps writers away."""
    (pages,), (size,) = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")]
    return max(os.stat(path).st_size - int(pages) * int(size), 0)


def check_companions(path: str) -> bool:
    """See that SQLite can open what it finds beside a ledger: at a pipe it would wait for ever. Raises NotALedger.

    Returns whether a journal is there: `journal.refusal` says whether SQLite may play it.
    """
    has_journal = False
    for suffix, what in (("-journal", "is not a regular file, and no ledger made it"), ("-wal", "is no ledger's")):
        try:
            is_regular = stat.S_ISREG(os.lstat(path + suffix).st_mode)
        except FileNotFoundError:
            continue
        if suffix == "-wal" or not is_regular:
            raise NotALedger(f"{path}{suffix} {what}", hint="remove it, then run the command again")
        has_journal = True
    return has_journal


def _header(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return b""
    except OSError as error:
        if os.path.islink(path):
            raise NotALedger(f"{path} is a link, and a ledger is never followed through one", hint=RESTORE) from error
        raise LedgerError(f"cannot read {path}: {error.strerror}", hint="check the file's permissions") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotALedger(f"{path} is not a regular file", hint=RESTORE)
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)
