"""Recover a log with a journal or an unfinished recovery beside it, as a killed writer leaves.

Used only where a journal or an unfinished recovery stands there. If git replaced the file and left neither,
`run_log.open_log` brings the events back.

SQLite would play the journal into the file unseen. If git has replaced the file, that destroys the log. So it is played
into a copy only: all copies that can be read are united into a fresh file, and the journal is removed. A journal that
is refused is not played at all.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile

from faber_ledger.ledger import BACKUP_ENDING, JOURNAL_ENDING
from faber_ledger.ledger.aside import copy_private, free_name
from faber_ledger.ledger.errors import IntegrityError, JournalRefused, LedgerError
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.journal import find_refusal, move_aside, refusal_error
from faber_ledger.ledger.union import merge_rows, remove_database, write_union
from faber_ledger.ledger.whole_file import move_into_place, remove
from faber_ledger.runs.clone import is_older_recovery, recovered_path
from faber_ledger.runs.copies import FILE, HEAD, INDEX, JOURNAL, LARGEST, MIRROR, OLDER_RECOVERY, RECOVERY, copies_of
from faber_ledger.runs.ledger_notes import make_stems_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


SOURCES = (FILE, JOURNAL, RECOVERY, MIRROR, HEAD, INDEX)


def recover(run: Run, warn: Callable[[str], None]) -> list[str]:
    """Unite all readable copies of a run's log, replace its file by the union, and return the names of the copies.

    The list is empty if the log had no event yet. The caller holds the run's lock. The file and the journal are kept as
    backups beside it; `warn` is called for a journal that is refused. Raises IntegrityError if no copy is readable.
    """
    if os.path.lexists(run.journal_path) and (os.path.islink(run.journal_path) or not os.path.isfile(run.journal_path)):
        raise IntegrityError(
            f"{run.shown(run.journal_path)} is not a regular file, and no ledger made it",
            hint="remove it, then run the command again",
        )
    if os.path.isfile(run.ledger_path) and os.path.getsize(run.ledger_path) > LARGEST:
        raise IntegrityError(
            f"{run.shown(run.ledger_path)} is too large to be recovered",
            hint="move it aside and restore ledger.db from git, or from another machine",
        )
    if is_older_recovery(run) and is_sound(run.ledger_path):
        # It lies where a checkout can leave a file. Its events count only where the log is lost without them.
        os.replace(run.recovered_path, free_name(run.recovered_path, BACKUP_ENDING))
    why = find_refusal(run.ledger_path)
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder:
        names = [name for name in SOURCES if name != JOURNAL or why is None]
        written = {copy.name: copy.write_in(folder) for copy in copies_of(run, names)}
        candidates = {name: path for name, path in written.items() if path is not None}
        copies = {name: path for name, path in candidates.items() if _is_readable(path)}
        # A file that a kill tore may open all the same: it does not count beside copies that are sound.
        found = {name: path for name, path in copies.items() if is_sound(path)} or copies
        begun = not os.path.lexists(run.ledger_path) or any(
            [os.path.getsize(path) == 0 for path in candidates.values()]
        )
        if not found and not begun:
            raise IntegrityError(
                f"{run.shown(run.ledger_path)} and the journal beside it cannot be read, nor any other copy of them",
                hint="move both aside and restore ledger.db from git, or from another machine",
            )
        if why is not None:
            put_refused_journal_aside(run.ledger_path, refusal_error(run.ledger_path, why), warn)
        for path in (run.ledger_path, run.journal_path):
            if os.path.isfile(path) and not os.path.islink(path):
                remove(path + BACKUP_ENDING)  # a link there may lead anywhere
                copy_private(path, path + BACKUP_ENDING)
        recovered = recovered_path(run) or run.recovered_path
        if found:
            make_stems_folder(recovered)
            write_union(list(found.values()), recovered, keeps=found.get(MIRROR))
        elif os.path.lexists(run.ledger_path):
            os.unlink(run.ledger_path)  # killed in its very first transaction, it had no event yet
        # Before the union is put in place: a reader that finds both would play the journal into it.
        if os.path.lexists(run.journal_path):
            os.unlink(run.journal_path)
        # A kill here leaves a file without its journal; the next writer finds the recovered file, and continues here.
        if found:
            _replace(run.ledger_path, recovered)
        if OLDER_RECOVERY in written:
            remove(run.recovered_path)
        return list(found)


def _replace(path: str, recovered: str) -> None:
    """Replace a log by its recovery, which may be on another disk, and remove that."""
    temporary = path + ".tmp"
    remove_database(temporary)
    with open(recovered, "rb") as source, open(temporary, "xb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    move_into_place(temporary, path)
    os.unlink(recovered)


def is_sound(path: str) -> bool:
    """Return whether a file is a log that can be read to its end, and each event passes as it is."""
    try:
        with open_untrusted(path) as log:
            passing = merge_rows([log])
            for _ in passing:
                pass
            return not passing.dropped and not any([one.is_new for one in passing.refused])
    except (LedgerError, OSError, sqlite3.Error):
        return False


def _is_readable(path: str) -> bool:
    try:
        open_untrusted(path).close()
    except (LedgerError, OSError, sqlite3.Error):
        return False
    return True


def put_aside(path: str) -> None:
    """Rename a log, and a journal beside it, to their backups; raises OSError."""
    os.replace(path, path + BACKUP_ENDING)
    if os.path.lexists(path + JOURNAL_ENDING):
        os.replace(path + JOURNAL_ENDING, path + JOURNAL_ENDING + BACKUP_ENDING)


def put_refused_journal_aside(path: str, error: Exception, warn: Callable[[str], None]) -> bool:
    """Move the journal beside `path` aside if `error` is its refusal; return whether it is. Raises OSError."""
    if not isinstance(error, JournalRefused):
        return False
    warn(f"{error.message}; it was moved to {move_aside(path)}")
    return True
