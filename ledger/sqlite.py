"""SQLite as a ledger uses it: loaded without dates, opened within bounds, its refusals in words that help."""

from __future__ import annotations

from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NotWritable, Replaced
from faber_ledger.ledger.formats import LONGEST_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    # The package around `_sqlite3` loads `datetime`, a twelfth of what starting Python costs.
    try:
        import _sqlite3 as sqlite3
    except ImportError:  # another Python than CPython
        import sqlite3

__all__ = ["sqlite3"]
BUSY_SECONDS = 5.0
# EXTRA syncs the folder after the journal's unlink too: else a power cut could bring the journal back, and with it roll
# back an event that was acknowledged.
DURABLE = "EXTRA"
# For any file that is not the ledger it should be, be it a mirror or from elsewhere: nothing is projected from it. A
# run's own log is brought back where nothing stands in its place.
RESTORE = (
    "move it aside and restore it from git, or from another machine; a run's own log, once it is moved aside, comes"
    " back by `faber-ledger project` if this clone's mirror has it"
)
# SQLite tells what is wrong with a schema in the schema's own bytes, and they need not be text.
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)


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
        raise IntegrityError(f"{path} cannot be read: {error}", hint=RESTORE) from error
    return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether SQLite refused because another process is at work on the file, which may be quite sound."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def locked(path: str) -> Locked:
    """Word what `is_busy` tells."""
    return Locked(f"another process is writing {path}", hint="run the command again when it has ended")


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
