"""The journal that a killed writer left beside a log: SQLite plays it, into the file itself or into a copy.

SQLite trusts a journal. One that came with a repository could make it delete any of the user's files, write a ledger of
many gigabytes, or take events back. So SQLite sees only the journal that a writer of this clone left: a private note is
made before such a journal can exist, and removed when it is gone. Each is checked besides.
"""

from __future__ import annotations

import os
import stat

from faber_ledger import ledger
from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING, WRITING_ENDING
from faber_ledger.ledger.aside import free_name
from faber_ledger.ledger.errors import IntegrityError, JournalRefused, LedgerError
from faber_ledger.ledger.file import (
    HINT_RESTORE,
    MAX_VALUE_BYTES,
    bound_steps,
    connect,
    no_ledger_error,
    sqlite3,
)

MAX_COPY_BYTES = 1 << 32  # bytes
MAGIC = bytes.fromhex("d9d505f920a163d7")
HEADER = 28  # bytes: magic, number of records, nonce, pages of the database before, size of a sector, size of a page
MAX_PAGE_BYTES = 65536


def find_refusal(path: str) -> str | None:
    """Return why the journal beside the database at `path` must not be played, as the end of a sentence, else None."""
    fault = find_fault(path)
    if fault is not None or not os.path.lexists(path + JOURNAL_ENDING):
        return fault
    if ledger.tracking_query(path + JOURNAL_ENDING) is True:
        return "is tracked by git, or git cannot say"
    stem = ledger.private_stem(path)
    if stem is not None and not os.path.lexists(stem + WRITING_ENDING):
        return "was not left by a writer of this clone"
    return None


def find_fault(path: str) -> str | None:
    """Return what is wrong with the journal beside the database at `path`, tracked or not, or None.

    The rules are those of SQLite's pager.c. A journal that ends with the magic names a super-journal before it
    (`readSuperJournal`), which SQLite opens, and deletes unless a journal that is named in it exists; only a
    transaction on several databases has one. The first of its headers says how many pages the database had, and
    `pager_playback` makes the file as long; a transaction that was killed never left the file shorter than that.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path + JOURNAL_ENDING, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    try:
        return _fault_in(descriptor, path)
    finally:
        os.close(descriptor)


def _fault_in(descriptor: int, path: str) -> str | None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if hasattr(os, "geteuid") and found.st_uid not in _owners(path):
        return "belongs to another user"
    header = os.read(descriptor, HEADER)
    os.lseek(descriptor, max(found.st_size - len(MAGIC), 0), os.SEEK_SET)
    if os.read(descriptor, len(MAGIC)) == MAGIC:
        return "names another file, which SQLite would delete"
    if len(header) < HEADER or not header.startswith(MAGIC):
        return None  # SQLite plays nothing of it
    page = int.from_bytes(header[24:28], "big") or MAX_PAGE_BYTES
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    # A writer that committed meanwhile has removed its journal, and may have made the file shorter.
    if int.from_bytes(header[16:20], "big") > -(-size // page) and os.fstat(descriptor).st_nlink:
        return "claims more pages than the file has"
    return None


def _owners(path: str) -> list[int]:
    """Return the users whose journal is a writer's own: SQLite run by root gives it to the database's owner."""
    user = os.geteuid()
    return [user, os.stat(path).st_uid] if user == 0 and os.path.lexists(path) else [user]


def check_journal(path: str) -> None:
    """Raise JournalRefused if the journal beside the database at `path` must not be played."""
    why = find_refusal(path)
    if why is not None:
        raise refusal_error(path, why)


def refusal_error(path: str, why: str) -> JournalRefused:
    """Return the error for a journal beside `path` that is not played."""
    return JournalRefused(
        f"{path}{JOURNAL_ENDING} {why}: it is never played", hint="run `faber-ledger project`, or move it aside"
    )


def move_aside(path: str) -> str:
    """Move the journal beside `path` out of SQLite's way, and return its new path; raises OSError.

    The name is a backup's: git ignores it, and a redaction removes it.
    """
    aside = free_name(f"{path}{JOURNAL_ENDING}.malformed", BACKUP_ENDING)
    os.replace(path + JOURNAL_ENDING, aside)
    return aside


def copy_and_play(path: str, copy: str) -> None:
    """Copy the database at `path` and the journal beside it, and let SQLite play the journal into the copy.

    Raises LedgerError and sqlite3.Error if the two do not belong together, and JournalRefused.
    """
    check_journal(path)
    _check_size(path, path + JOURNAL_ENDING)
    for suffix in ("", JOURNAL_ENDING):
        with open(path + suffix, "rb") as source, open(copy + suffix, "wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
    fault = find_fault(copy)  # it may have been replaced meanwhile
    if fault is not None:
        raise refusal_error(path, fault)
    _roll_back(copy)


def _check_size(*paths: str) -> None:
    for path in paths:
        if os.path.getsize(path) > MAX_COPY_BYTES:
            raise LedgerError(f"{path} is too large to be copied", hint=HINT_RESTORE)


def play_journal(path: str) -> None:
    """Let SQLite roll back what a killed writer left in its journal; raises JournalRefused and sqlite3.Error."""
    check_journal(path)
    _roll_back(path)


def _roll_back(path: str) -> None:
    connection = connect(path, "rw")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def open_with_journal(path: str) -> sqlite3.Connection:
    """Read a database as it is once the journal beside it is played; neither file changes.

    A journal that is refused is not played: the database is read alone. Raises IntegrityError if the two do not belong
    together, and LedgerError if nothing was ever recorded in them.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        copy = os.path.join(folder, "ledger.db")
        try:
            if find_refusal(path) is None:
                copy_and_play(path, copy)
            else:
                _check_size(path)
                copy = path
        except sqlite3.DatabaseError as error:
            raise IntegrityError(
                f"{path} and the journal beside it do not belong together: {error}",
                hint="run `faber-ledger project` to recover what can be read",
            ) from error
        with open(copy, "rb") as file:
            content = file.read()
    if not content:  # killed in its first transaction; SQLite would report zero bytes as out of memory
        raise no_ledger_error(path)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    bound_steps(connection, path)
    connection.deserialize(content)
    return connection
