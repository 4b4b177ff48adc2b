"""Open a ledger from elsewhere: a file that came with a clone, from git, or from another person.

It is read and never written: no journal beside it is played, no file is made beside it, nothing in it runs.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import file
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.file import HINT_RESTORE, UNREADABLE
from faber_ledger.ledger.log import Log


def open_untrusted(path: str) -> Log:
    """Open a ledger from elsewhere for reading; a value in it may have any type.

    Raises what `check_file` raises, and IntegrityError for another schema or damage.
    """
    if not file.check_file(path):
        raise LedgerError(f"there is no ledger at {path}", hint="name a ledger.db that is there")
    log = Log(file.connect(path, "ro&immutable=1"), path)
    try:
        log.connection.execute("PRAGMA cell_size_check = ON")
        file.check_schema(log.connection, path)
        (found,) = log.connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise IntegrityError(f"{path} is damaged: {found}", hint=HINT_RESTORE)
        pages, size = [log.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")]
        if os.stat(path).st_size < pages * size:  # SQLite reads zeros instead
            raise IntegrityError(f"{path} ends before its last page", hint=HINT_RESTORE)
        file.bound_steps(log.connection, path)
    except UNREADABLE as error:
        log.close()
        raise file.unreadable_error(error, path) from error
    except BaseException:
        log.close()
        raise
    return log


def missing_in_file(log: Log, path: str) -> set[str]:
    """Return the ids of a log's events that a ledger file lacks; all of them if it cannot be read."""
    return log.ids_of() - event_ids(path)


def event_ids(path: str) -> set[str]:
    """Return the ids of the events in a ledger file; none if it cannot be read."""
    try:
        with open_untrusted(path) as log:
            return {name for (name,) in log.connection.execute("SELECT id FROM event")}
    except (LedgerError, OSError, *UNREADABLE):
        return set()
