"""A journal beside a log: what a killed writer left, or what git put a file of another time beside.

SQLite would play it into the file unseen. Into a file that git has replaced that destroys the log, so it is never
played there: whatever reads is united into a fresh file, and the journal goes. One that is refused is played nowhere.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile

from faber_ledger.ledger.errors import IntegrityError, JournalRefused, LedgerError
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.journal import find_refusal, put_aside, refusal_error
from faber_ledger.ledger.log import RECOVERED
from faber_ledger.ledger.union import merge_rows, rows_of, write_union
from faber_ledger.runs.copies import FILE, HEAD, INDEX, JOURNAL, LARGEST, MIRROR, RECOVERY, copies_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


SOURCES = (FILE, JOURNAL, RECOVERY, MIRROR, HEAD, INDEX)


def recover(run: Run, warn: Callable[[str], None]) -> list[str]:
    """Unite what can be read of a run's log whose recovery is due, put it in place, and give where it was read from.

    None are named if it had no event yet. The caller holds the run's lock. The file and the journal are kept beside it
    as backups; `warn` is told of a journal that is refused, which is not played. Raises IntegrityError if nothing
    reads.
    """
    journal, united_path = run.ledger_path + "-journal", run.ledger_path + RECOVERED
    if os.path.lexists(journal) and (os.path.islink(journal) or not os.path.isfile(journal)):
        raise IntegrityError(
            f"{run.shown('ledger.db-journal')} is not a regular file, and no ledger made it",
            hint="remove it, then run the command again",
        )
    if os.path.isfile(run.ledger_path) and os.path.getsize(run.ledger_path) > LARGEST:
        raise IntegrityError(
            f"{run.shown('ledger.db')} is too large to be recovered",
            hint="move it aside and restore ledger.db from git, or from another machine",
        )
    why = find_refusal(run.ledger_path)
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        names = [name for name in SOURCES if name != JOURNAL or why is None]
        written = {copy.name: copy.write_in(folder) for copy in copies_of(run, names)}
        candidates = {name: path for name, path in written.items() if path is not None}
        copies = {name: path for name, path in candidates.items() if _reads(path)}
        # One that a kill tore can open all the same: its last event is no witness beside copies that are sound.
        found = {name: path for name, path in copies.items() if is_sound(path)} or copies
        begun = not os.path.lexists(run.ledger_path) or any(
            [os.path.getsize(path) == 0 for path in candidates.values()]
        )
        if not found and not begun:
            raise IntegrityError(
                f"{run.shown('ledger.db')} and the journal beside it cannot be read, nor any other copy of them",
                hint="move both aside and restore ledger.db from git, or from another machine",
            )
        if why is not None:
            is_journal_put_aside(run.ledger_path, refusal_error(run.ledger_path, why), warn)
        for path in (run.ledger_path, journal):
            if os.path.isfile(path) and not os.path.islink(path):
                _keep_copy(path)
        if found:
            write_union(list(found.values()), united_path)
        elif os.path.lexists(run.ledger_path):
            os.unlink(run.ledger_path)  # killed in its very first transaction, it had no event yet
        # Before the union is put in place: whatever reads the two in between would play the journal into it.
        if os.path.lexists(journal):
            os.unlink(journal)
        # A kill here leaves a file without its journal; whoever writes next sees what was recovered, and goes on here.
        if found:
            os.replace(united_path, run.ledger_path)
        return list(found)


def _keep_copy(path: str) -> None:
    """Copy a file to its backup's name. A link there goes: it may have come with the repository, to anywhere."""
    backup = path + ".backup"
    if os.path.lexists(backup):
        os.unlink(backup)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb") as source, open(os.open(backup, flags, 0o600), "wb") as target:
        shutil.copyfileobj(source, target)


def is_sound(path: str) -> bool:
    """Tell whether a file is a log that can be read to its end, each event what its hash says."""
    try:
        with open_untrusted(path) as log:
            return all(True for _ in merge_rows([rows_of(log)]))
    except (LedgerError, OSError, sqlite3.Error):
        return False


def _reads(path: str) -> bool:
    try:
        open_untrusted(path).close()
    except (LedgerError, OSError, sqlite3.Error):
        return False
    return True


def is_journal_put_aside(path: str, error: Exception, warn: Callable[[str], None]) -> bool:
    """Move the journal beside `path` out of SQLite's way if it was refused, and warn; raises OSError."""
    if not isinstance(error, JournalRefused):
        return False
    warn(f"{error.message}; it was moved to {put_aside(path)}")
    return True
