"""The mirror of a run's log: this clone's second copy of it, under the git directory, which no checkout touches.

Linked work trees share it; without git there is none. `run_log.py` unites it with the log.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.deadline import time_left
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked
from faber_ledger.ledger.file import DURABLE, is_busy, sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ROW
from faber_ledger.ledger.whole_file import OWN, make_private
from faber_ledger.runs.clone import mirror_path
from faber_ledger.runs.git import clone_folder
from faber_ledger.runs.private_files import make_kept_folder, set_folder_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from faber_ledger.ledger.log import Head
    from faber_ledger.ledger.union import Position
    from faber_ledger.runs.run import Run


VACUUM_SECONDS = 10.0
# Another work tree's append takes milliseconds, and what a longer one holds up is united later.
MIRROR_BUSY_SECONDS = 0.5

# The states of a mirror.
DISABLED = "disabled"  # there is none: the project has no git
NOT_BEGUN = "not begun"  # its file is made with the log's first event
IN_USE = "in use"  # open, and committed to together with the log
DIVERGED = "diverged"  # open, but the log is damaged and cannot be united with it: it gets new events only
REFUSED = "refused"  # it could not be opened or written: the next commit tries again


class Mirror:
    """The second copy of a run's log; `state` is one of the states above, and `log` is open in IN_USE and DIVERGED.

    A damaged mirror is moved aside and made again. One that cannot be used is left alone, and `warn` is called.
    """

    def __init__(self, run: Run, warn: Callable[[str], None]) -> None:
        path = mirror_path(run)
        self.path = path or ""
        self.state = NOT_BEGUN if path else DISABLED
        self.log: Log | None = None
        self.known_heads: list[Head] | None = None  # heads of a mirror that lacks only what was appended since
        self.diverged_at: int | None = None  # seq of the damaged log's newest event at that time
        self._lacked: tuple[Position, int | None] | None = None  # of the log: from where on, and its file's number
        self._run = run
        self._warn = warn
        self._retry_seconds = MIRROR_BUSY_SECONDS

    def open(self) -> Log:
        """Open the mirror, and make it if it does not exist; raises OSError and as `Log.open`."""
        make_kept_folder(self._run, os.path.dirname(self.path))
        log = self._open_file(MIRROR_BUSY_SECONDS)
        self._use(log)
        return log

    def _open_file(self, busy_seconds: float) -> Log:
        """Open the mirror's file, which SQLite would make readable for everybody; 0.1 let it."""
        try:
            if os.stat(self.path).st_mode & 0o177:
                make_private(self.path, self._run.ledger_path)
                set_folder_mode(clone_folder(self._run.root) or "")
        except FileNotFoundError:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), OWN)
            make_private(descriptor, self._run.ledger_path)
            os.close(descriptor)
        # It need not survive a power cut: it is there for what git does, and the log itself is durable.
        return Log.open(self.path, synchronous="OFF", busy_seconds=busy_seconds)

    def _use(self, log: Log) -> None:
        self.log = log
        self.state = IN_USE if self.diverged_at is None else DIVERGED

    def close(self) -> None:
        """Close the file if it is open; what was not committed is gone."""
        self._lacked = None
        if self.log is not None:
            self.log.close()
            self.log = None

    def copy_from(self, first: Position | None, inode: int | None) -> None:
        """Copy what the mirror lacks of the log from this position on once that is committed; None: it lacks nothing.

        `inode` is the number of the log's file, which has no redaction, and no event without a payload.
        """
        if first is not None:
            self._lacked = (first if self._lacked is None else min(first, self._lacked[0]), inode)

    def take_lacked(self) -> Position | None:
        """Return the position that `copy_from` was told, and forget it; None without one."""
        lacked, self._lacked = self._lacked, None
        return None if lacked is None else lacked[0]

    def has_events_of(self, log: Log) -> bool:
        """Return whether an open mirror has the log's events, but for those that `copy_from` was told of."""
        return self._lacked is not None or (self.log is not None and self.log.heads() == log.heads())

    def refuse(self, error: Exception) -> None:
        """Close the mirror after an error, and warn; the next commit tries it again."""
        self._warn(f"the mirror of this run under the git directory is not used: {error}")
        if isinstance(error, Locked) or (isinstance(error, sqlite3.Error) and is_busy(error)):
            self._retry_seconds = 0.0  # it was waited for
        self.close()
        self.state = REFUSED

    def diverge(self, heads: list[Head]) -> None:
        """Copy only what is appended after these heads of the log, which is damaged."""
        self.diverged_at = max([seq for seq, _ in heads], default=0)
        self.state = DIVERGED

    def is_log_to_blame(self, error: Exception) -> bool:
        """Return whether the mirror is open and sound, so that it is the log that cannot be united with it."""
        from faber_ledger.runs.recovery import is_sound

        return self.log is not None and isinstance(error, IntegrityError | sqlite3.DataError) and is_sound(self.path)

    def repair(self, error: Exception) -> bool:
        """Write a mirror again whose events are sound, or move it aside; return whether it can be tried again."""
        from faber_ledger.runs.recovery import is_sound, put_aside, put_refused_journal_aside

        path = self.path
        if isinstance(error, sqlite3.Error) and is_busy(error):
            return False
        if put_refused_journal_aside(path, error, self._warn):
            return True
        if is_sound(path):
            if self.log is not None:
                return False
            from faber_ledger.ledger.union import write_union
            from faber_ledger.runs.unaccepted import keep_back_from

            keep_back_from(self._run, [path])
            # Its events are sound, and only what the file says of itself is wrong: written again, it fits.
            write_union([path], path)
            return True
        self.close()
        put_aside(path)
        self._warn(f"the mirror of this run under the git directory was damaged and is made again: {error}")
        return True

    def begin(self) -> None:
        """Begin the next transaction, after a commit."""
        if self.log is None:
            return
        try:
            self.log.begin()
        except sqlite3.Error as error:
            self.refuse(error)

    def commit(self, log: Log) -> None:
        """Copy what was appended to the log, and commit it; a mirror that is not open is tried again."""
        if self.log is not None:
            try:
                self._copy(log, self.log)
            except (LedgerError, OSError, sqlite3.Error) as error:
                self.refuse(error)
        if self.log is None and self.state != DISABLED and log.heads():
            self._retry(log)

    def _copy(self, log: Log, mirror: Log) -> None:
        """Copy what was appended to the log to the mirror, and commit it; a diverged mirror gets only newer events."""
        if self._lacked is not None:
            from faber_ledger.ledger.copying import commit_with_lacked  # after many events from elsewhere

            (first, inode), self._lacked = self._lacked, None
            commit_with_lacked(mirror, log.path, inode, first)
            self.known_heads = mirror.heads()
            return
        if self.diverged_at is None:
            mirror.copy_newer(log)
        else:
            from faber_ledger.ledger.union import hash_in, insert_rows

            rows = log.connection.execute(f"{ROW} WHERE seq > ? ORDER BY seq, id", (self.diverged_at,)).fetchall()
            insert_rows(mirror, [row for row in rows if hash_in(mirror, row[1]) is None])
        mirror.commit()
        self.known_heads = mirror.heads()

    def _retry(self, log: Log) -> None:
        """Copy what was appended to a mirror that was refused or has not begun: until then git can take it away.

        If the two differ in more than that, the next append unites them, and removes redacted payloads from both.
        """
        mirror: Log | None = None
        try:
            make_kept_folder(self._run, os.path.dirname(self.path))
            mirror = self._open_file(self._retry_seconds)
            if mirror.heads() == self.known_heads:
                self._copy(log, mirror)
                self._use(mirror)
                return
        except (LedgerError, OSError, sqlite3.Error) as error:
            if not self.known_heads:  # it is tried for the first time
                self._warn(f"the mirror of this run under the git directory is not used: {error}")
        if mirror is not None:
            mirror.close()
        self.state = REFUSED
        self._warn(
            f"until the next append that reaches the mirror, {log.path} alone has the newest events: commit it before"
            " git takes the file back"
        )

    def strip(self, log: Log, gone: Collection[str]) -> None:
        """Copy what was appended to the log, and remove the payloads of these events from the mirror's file.

        Raises LedgerError, OSError and sqlite3.Error.
        """
        mirror = self.log
        if mirror is None:
            return
        with mirror.writing():
            mirror.copy_newer(log)
        strip_file(mirror, gone)
        self.close()
        self._use(self._open_file(MIRROR_BUSY_SECONDS))


def strip_file(log: Log, gone: Collection[str]) -> None:
    """Remove the payloads of these events from a log's file, which stays the same file, and commit."""
    from faber_ledger.ledger.redaction import strip_in_place

    with log.writing():
        strip_in_place(log.connection, gone)
        log.commit()
        log.connection.execute(f"PRAGMA synchronous = {DURABLE}")
        log.connection.execute(f"PRAGMA busy_timeout = {1000 * time_left(VACUUM_SECONDS):.0f}")
        log.connection.execute("VACUUM")
