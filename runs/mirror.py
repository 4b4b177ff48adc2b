"""A run's log together with this clone's memory of it, under the git directory, which no checkout touches.

`stash`, `reset --hard`, `checkout` and `clean` roll a tracked file back: the events they took away come back here, the
next time anything is written. Linked worktrees share the mirror; without git there is none.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NotWritable
from faber_ledger.ledger.file import BUSY_SECONDS as LOG_BUSY_SECONDS
from faber_ledger.ledger.file import DURABLE, is_busy, sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ROW
from faber_ledger.runs.clone import is_empty, is_recovery_due, make_kept_folder, mirror_path
from faber_ledger.runs.git import is_at_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from faber_ledger.ledger.log import Head
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


HINT = "check permissions and space of the run's folder"
VACUUM_MILLISECONDS = 10_000
BUSY_SECONDS = 0.5  # another worktree's append takes milliseconds, and what a longer one holds up is united later


class MirroredLog:
    """A log open for appending, united with its mirror; `returned` counts the events that came back from there.

    `restored` counts the payloads that came back: a forged redaction had taken them out of one of the two.

    `redacted` tells that a payload was taken out of a file here, so that older copies of it have to go too.

    A damaged mirror is moved aside and made anew; one that cannot be used is left alone: the log is what counts. Both
    are told to `warn`.
    """

    def __init__(self, run: Run, warn: Callable[[str], None], busy_seconds: float = LOG_BUSY_SECONDS) -> None:
        """Open and unite; raises as `Log.open` and `recover`. The caller holds the run's lock."""
        path = mirror_path(run)
        self.redacted = is_recovered = False
        if path is not None and is_recovery_due(run.ledger_path):
            is_recovered = True
            from faber_ledger.runs.recovery import recover  # only after a kill, or git at the wrong moment

            what = "a journal" if os.path.lexists(run.ledger_path + "-journal") else "an unfinished recovery"
            sources = ", ".join(recover(run, warn)) or "nothing: it had no event yet"
            warn(f"{what} stood beside {run.shown('ledger.db')}; recovered from {sources}")
        self._run = run
        if is_empty(run.ledger_path):
            self._check_git()  # before the file is made, which would be in git's way
        try:
            self.log = Log.open(run.ledger_path, busy_seconds=busy_seconds)
        except IntegrityError as error:  # without git, where no recovery has looked at it
            if not is_journal_put_aside(run.ledger_path, error, warn):
                raise
            self.log = Log.open(run.ledger_path, busy_seconds=busy_seconds)
        if is_recovered:  # and so is what was recovered from, as a backup
            self.redacted = bool(self.log.connection.execute("SELECT 1 FROM event WHERE payload IS NULL").fetchone())
        self.returned = self.restored = 0
        self._warn = warn
        self._mirror: Log | None = None
        self._apart_from: int | None = None
        self._path, self._busy_seconds = path, BUSY_SECONDS
        self._last: list[Head] | None = None  # heads of a mirror that lacks nothing but what was appended since
        try:
            self._last = heads = self.log.heads()  # a log that cannot be read is not the mirror's fault
            if not heads:
                self._check_git()  # it may have begun in between, and what we wrote would stand in its file
            if path is not None and (heads or not is_empty(path)):  # a mirror begins with its first event: see `commit`
                self._try_to_unite(path, heads)
        except BaseException:
            self.close()
            raise

    def _check_git(self) -> None:
        """Raise Locked if git is at work on a log without an event: it takes a file away, and writes it in pieces."""
        if is_at_work(self._run.root):
            raise Locked(
                "git is at work here, and has taken ledger.db away or not written it yet",
                hint="run the command again when git is done; if no git is, remove index.lock from the git directory",
            )

    def _try_to_unite(self, path: str, heads: list[Head]) -> None:
        try:
            try:
                self._unite(path, heads)
            except (IntegrityError, sqlite3.DatabaseError) as error:
                if self._is_the_logs_fault(path, error):
                    self._apart_from = max([seq for seq, _ in heads], default=0)
                    self._warn(f"the ledger is damaged, so that what git took back is not united with it: {error}")
                    return
                if not self._is_mended(path, error):
                    raise
                self._unite(path, heads)
        except (LedgerError, OSError, sqlite3.Error) as error:
            if not self.log.connection.in_transaction:  # what a full disk refuses, SQLite takes back as a whole
                raise NotWritable(f"cannot write {self.log.path}: {error}", hint=HINT) from error
            self._forsake(error)

    def _is_the_logs_fault(self, path: str, error: Exception) -> bool:
        """Tell whether the mirror is open and whole, so that it is the log that cannot be united with it."""
        from faber_ledger.runs.recovery import is_sound

        return self._mirror is not None and isinstance(error, IntegrityError | sqlite3.DataError) and is_sound(path)

    def _is_mended(self, path: str, error: Exception) -> bool:
        """Write a mirror anew whose events hold, move any other out of the way; tell whether it can be tried again."""
        from faber_ledger.runs.recovery import is_sound

        if isinstance(error, sqlite3.Error) and is_busy(error):
            return False
        if is_journal_put_aside(path, error, self._warn):
            return True
        if is_sound(path):
            if self._mirror is not None:
                return False
            from faber_ledger.ledger.union import write_union

            # Its events hold, and what the file says of itself does not: written anew, it fits.
            write_union([path], path)
            return True
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None
        os.replace(path, path + ".backup")
        if os.path.lexists(path + "-journal"):
            os.replace(path + "-journal", path + "-journal.backup")
        self._warn(f"the mirror of this run under the git directory was damaged and is made anew: {error}")
        return True

    def _unite(self, path: str, heads: list[Head]) -> None:
        make_kept_folder(self._run, os.path.dirname(path))
        # It need not outlive a power cut: it is there for what git does, and the log itself is durable.
        self._mirror = mirror = Log.open(path, synchronous="OFF", busy_seconds=BUSY_SECONDS)
        if mirror.heads() != heads:
            from faber_ledger.ledger.union import missing_rows, take_in  # only after git, or another clone, was at work

            lost = list(missing_rows(self.log, mirror))
            take_in(mirror, missing_rows(mirror, self.log))
            take_in(self.log, lost)
            self.returned = len(lost)
            self.settle()

    def commit(self) -> None:
        """Make what was appended durable in the log, and keep it in the mirror; raises as `Log.commit`."""
        with self.log.writing():
            self.log.commit()
        if self._mirror is not None:
            try:
                self._keep_in(self._mirror)
            except (LedgerError, OSError, sqlite3.Error) as error:
                self._forsake(error)
        if self._mirror is None and self._path is not None and self.log.heads():
            self._try_again(self._path)

    def _keep_in(self, mirror: Log) -> None:
        """Commit to the mirror what was appended to the log: to a damaged one's whatever else the two hold."""
        if self._apart_from is None:
            mirror.copy_newer(self.log)
        else:
            from faber_ledger.ledger.union import hash_in, take_in

            rows = self.log.connection.execute(f"{ROW} WHERE seq > ? ORDER BY seq, id", (self._apart_from,)).fetchall()
            take_in(mirror, [row for row in rows if hash_in(mirror, row[1]) is None])
        mirror.commit()
        self._last = mirror.heads()

    def _try_again(self, path: str) -> None:
        """Keep in a mirror that was refused, or has yet to begin, what was appended: until then git can take it away.

        Where more came in than that, the two are left unlike: the next append sees it, unites them and strips both.
        """
        mirror: Log | None = None
        try:
            make_kept_folder(self._run, os.path.dirname(path))
            mirror = Log.open(path, synchronous="OFF", busy_seconds=self._busy_seconds)
            if mirror.heads() == self._last:
                self._keep_in(mirror)
                self._mirror = mirror
                return
        except (LedgerError, OSError, sqlite3.Error) as error:
            if not self._last:  # it is tried for the first time
                self._warn(f"the mirror of this run under the git directory is not used: {error}")
        if mirror is not None:
            mirror.close()
        told = f"until the next append that reaches the mirror, {self.log.path} alone has the newest events"
        self._warn(f"{told}: commit it before git takes the file back")

    def begin(self) -> None:
        """Begin the next transaction of both, after a commit; raises as `Log.open`."""
        with self.log.writing():
            self.log.begin()
        if self._mirror is not None:
            try:
                self._mirror.begin()
            except sqlite3.Error as error:
                self._forsake(error)

    def take_in(self, missing_in: Callable[[Log], Iterable[Row]], source: sqlite3.Connection) -> None:
        """Put rows of `source`, as `missing_in` gives those that a log lacks, where they belong; raises sqlite3.Error.

        They may stand below the newest event, where `commit` does not look for what is new.
        """
        from faber_ledger.ledger.union import take_in

        if self._mirror is None and self._path is not None and self._last == []:
            self._try_to_unite(self._path, self._last)  # it has yet to begin
        self._last = None
        take_in(self.log, missing_in(self.log))
        if self._mirror is not None:
            try:
                take_in(self._mirror, missing_in(self._mirror))
            except (LedgerError, OSError, sqlite3.Error) as error:
                self._forsake(error)
        self.settle(source)

    @property
    def copies(self) -> list[sqlite3.Connection]:
        """The log and, where it is used, its mirror."""
        return [log.connection for log in (self.log, self._mirror) if log is not None]

    def settle(self, *sources: sqlite3.Connection) -> None:
        """Make log and mirror have the same payloads: all that one of the copies has and no redaction takes out.

        Where one has to go, both are written without it, and opened again.
        """
        from faber_ledger.ledger.effective import effective_redactions, lost_rows
        from faber_ledger.ledger.redaction import give_back, holds_any

        if self._apart_from is not None:
            return  # the log is damaged
        every = [*self.copies, *sources]
        gone = effective_redactions(*every).gone
        for copy in self.copies:
            rows = lost_rows(copy, every, gone)
            if rows:
                give_back(copy, rows)
                self.log.forget_redactions()
                self.restored += len(rows)
        if any([holds_any(copy, gone) for copy in self.copies]):
            self.rewrite(gone)

    def rewrite(self, gone: Collection[str], *, strict: bool = False) -> None:
        """Write log and mirror anew, as they are in the open transactions but without these events' payloads.

        The mirror first: whoever is killed between the two leaves the rest to the next append, which unites them. It
        keeps its file, since other worktrees may have it open. Raises NotWritable, and the log stands as it was; with
        `strict` whatever keeps the mirror from being written, else that is left alone.
        """
        from faber_ledger.ledger.union import remove_database, rows_of, united, write_rows
        from faber_ledger.ledger.whole_file import put_in_place

        self._last = None
        path, temporary = self.log.path, self.log.path + ".tmp"
        try:
            remove_database(temporary)
            write_rows(united([rows_of(self.log)], gone), temporary)
            try:
                self._strip_mirror(gone)
            except (LedgerError, OSError, sqlite3.Error) as error:
                if strict:
                    raise
                self._forsake(error)
            self.log.close()  # first, since what it rolls back stands in a journal beside the file
            try:
                put_in_place(temporary, path)
            finally:
                self.log = Log.open(path)
        except OSError as error:
            raise NotWritable(f"cannot write {path} anew: {error.strerror}", hint=HINT) from error
        finally:
            remove_database(temporary)
        self.redacted = True

    def _strip_mirror(self, gone: Collection[str]) -> None:
        from faber_ledger.ledger.redaction import strip_in_place

        mirror = self._mirror
        if mirror is None:
            return
        with mirror.writing():
            mirror.copy_newer(self.log)
            strip_in_place(mirror.connection, gone)
            mirror.commit()
            mirror.connection.execute(f"PRAGMA synchronous = {DURABLE}")
            mirror.connection.execute(f"PRAGMA busy_timeout = {VACUUM_MILLISECONDS}")
            mirror.connection.execute("VACUUM")
        mirror.close()
        self._mirror = None
        self._mirror = Log.open(mirror.path, synchronous="OFF", busy_seconds=BUSY_SECONDS)

    def close(self) -> None:
        """Close both; what was not committed is gone, and with it the file of a log that got no event."""
        self.log.close()
        if self._mirror is not None:
            self._mirror.close()
        try:
            if is_empty(self.log.path) and not is_at_work(self._run.root):
                os.unlink(self.log.path)
        except FileNotFoundError:
            pass  # git, or somebody, took it away meanwhile

    @property
    def has_mirror(self) -> bool:
        """Tell whether the mirror is there and written with the log."""
        return self._mirror is not None

    def __enter__(self) -> MirroredLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forsake(self, error: Exception) -> None:
        self._warn(f"the mirror of this run under the git directory is not used: {error}")
        if isinstance(error, Locked) or (isinstance(error, sqlite3.Error) and is_busy(error)):
            self._busy_seconds = 0.0  # it was waited for
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None


def is_journal_put_aside(path: str, error: Exception, warn: Callable[[str], None]) -> bool:
    """Move the journal beside `path` out of SQLite's way if it was refused, and name it; raises OSError."""
    from faber_ledger.ledger.journal import JournalRefused, put_aside  # hardly ever

    if not isinstance(error, JournalRefused):
        return False
    warn(f"{error.message}; it was moved to {put_aside(path)}")
    return True
