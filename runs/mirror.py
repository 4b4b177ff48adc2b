"""A run's log and its mirror: this clone's second copy of it, under the git directory, which no checkout touches.

`stash`, `reset --hard`, `checkout` and `clean` roll a tracked file back: the events that they removed come back from
the mirror the next time the log is opened for writing. Linked work trees share the mirror; without git there is none.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NotWritable
from faber_ledger.ledger.file import BUSY_SECONDS, DURABLE, is_busy, sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ROW
from faber_ledger.runs.clone import is_empty, is_recovery_due, make_kept_folder, mirror_path
from faber_ledger.runs.git import is_git_at_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from faber_ledger.ledger.log import Head
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


HINT = "check permissions and space of the run's folder"
VACUUM_MILLISECONDS = 10_000
# Another work tree's append takes milliseconds, and what a longer one holds up is united later.
MIRROR_BUSY_SECONDS = 0.5

# The states of a mirror.
DISABLED = "disabled"  # there is none: the project has no git
NOT_BEGUN = "not begun"  # its file is made with the log's first event
IN_USE = "in use"  # open, and committed to together with the log
DIVERGED = "diverged"  # open, but the log is damaged and cannot be united with it: it gets new events only
REFUSED = "refused"  # it could not be opened or written: the next commit tries again


def open_log(
    run: Run, warn: Callable[[str], None], busy_seconds: float = BUSY_SECONDS, *, compare: bool = False
) -> RunLog:
    """Recover a run's log where a writer was killed, open it for appending, and unite it with its mirror.

    With `compare`, payloads are compared too if both have the same events. The caller holds the run's lock. `warn` is
    called with what was recovered, and if the mirror cannot be used: then the log is opened without it. Raises as
    `recover` and `Log.open`, and Locked or NotWritable.
    """
    mirror = Mirror(run, warn)
    is_recovered = mirror.state != DISABLED and is_recovery_due(run)
    if is_recovered:
        _recover(run, warn)
    if is_empty(run.ledger_path):
        _check_git(run)  # before the file is made, which would be in git's way
    opened = RunLog(run, _open_file(run, warn, busy_seconds), mirror, warn)
    try:
        if is_recovered:
            opened.expect_payloads_in_backup()
        opened.unite(compare=compare)
    except BaseException:
        opened.close()
        raise
    return opened


def _recover(run: Run, warn: Callable[[str], None]) -> None:
    from faber_ledger.runs.recovery import recover  # only after a kill, or git at the wrong moment

    what = "a journal" if os.path.lexists(run.journal_path) else "an unfinished recovery"
    sources = ", ".join(recover(run, warn)) or "nothing: it had no event yet"
    warn(f"{what} stood beside {run.shown(run.ledger_path)}; recovered from {sources}")


def _check_git(run: Run) -> None:
    """Raise Locked if git is at work on a log without an event: it takes a file away, and writes it in pieces."""
    if is_git_at_work(run.root):
        raise Locked(
            "git is at work here, and has taken ledger.db away or not written it yet",
            hint="run the command again when git is done; if no git is, remove index.lock from the git directory",
        )


def _open_file(run: Run, warn: Callable[[str], None], busy_seconds: float) -> Log:
    try:
        return Log.open(run.ledger_path, busy_seconds=busy_seconds)
    except IntegrityError as error:  # without git, where no recovery has looked at it
        from faber_ledger.runs.recovery import put_refused_journal_aside

        if not put_refused_journal_aside(run.ledger_path, error, warn):
            raise
        return Log.open(run.ledger_path, busy_seconds=busy_seconds)


class RunLog:
    """A run's log, open for appending, and its mirror.

    `returned` counts the events that came back from the mirror, `restored` the payloads: a forged redaction had removed
    them from one of the two. `redacted` is set where a payload was removed from a file here, so that older copies of it
    have to go too.
    """

    def __init__(self, run: Run, log: Log, mirror: Mirror, warn: Callable[[str], None]) -> None:
        self.log = log
        self.mirror = mirror
        self.returned = self.restored = 0
        self.redacted = False
        self._run = run
        self._warn = warn

    def expect_payloads_in_backup(self) -> None:
        """Set `redacted` after a recovery of a log with redactions: the backup that it made holds what they removed."""
        question = "SELECT 1 FROM event WHERE payload IS NULL"
        self.redacted = self.log.connection.execute(question).fetchone() is not None

    def unite(self, *, compare: bool = False) -> None:
        """Copy to log and mirror what each of them lacks; raises Locked, NotWritable, and as `Log.heads`.

        With `compare`, do so for the payloads of events that both have, too.
        """
        heads = self.log.heads()  # a log that cannot be read is not the mirror's fault
        self.mirror.known_heads = heads
        if not heads:
            _check_git(self._run)  # it may have begun meanwhile, and our events would be in the file that it writes
        if self.mirror.state != DISABLED and (heads or not is_empty(self.mirror.path)):
            self._unite(heads, compare)
        if compare and self.mirror.log is None:
            with self.log.writing():
                self.settle()

    def _unite(self, heads: list[Head], compare: bool = False) -> None:
        mirror = self.mirror
        try:
            try:
                self._exchange(heads, compare)
            except (IntegrityError, sqlite3.DatabaseError) as error:
                if mirror.is_log_to_blame(error):
                    mirror.diverge(heads)
                    self._warn(f"the ledger is damaged, so that what git took back is not united with it: {error}")
                    return
                if not mirror.repair(error):
                    raise
                self._exchange(heads, compare)
        except (LedgerError, OSError, sqlite3.Error) as error:
            if not self.log.connection.in_transaction:  # after a full disk SQLite rolls the transaction back
                raise NotWritable(f"cannot write {self.log.path}: {error}", hint=HINT) from error
            mirror.refuse(error)

    def _exchange(self, heads: list[Head], compare: bool) -> None:
        mirror = self.mirror.open()
        if mirror.heads() != heads:
            from faber_ledger.ledger.union import (  # only after git, or another clone, was at work
                insert_rows,
                missing_rows,
            )

            lost = list(missing_rows(self.log, mirror))
            insert_rows(mirror, missing_rows(mirror, self.log))
            insert_rows(self.log, lost)
            self.returned = len(lost)
        elif not compare:
            return
        self.settle()

    def commit(self) -> None:
        """Make what was appended durable in the log, and copy it to the mirror; raises as `Log.commit`."""
        with self.log.writing():
            self.log.commit()
        self.mirror.commit(self.log)

    def begin(self) -> None:
        """Begin the next transaction of both, after a commit; raises as `Log.open`."""
        with self.log.writing():
            self.log.begin()
        self.mirror.begin()

    def insert_rows(self, missing_in: Callable[[Log], Iterable[Row]], source: sqlite3.Connection) -> None:
        """Insert rows of `source` into log and mirror; `missing_in` returns those that a log lacks.

        They may stand below the newest event, where `commit` does not look for what is new. Raises sqlite3.Error.
        """
        from faber_ledger.ledger.union import insert_rows

        mirror = self.mirror
        if mirror.state != DISABLED and mirror.log is None and mirror.known_heads == []:
            self._unite([])  # it has not begun
        mirror.known_heads = None
        insert_rows(self.log, missing_in(self.log))
        if mirror.log is not None:
            try:
                insert_rows(mirror.log, missing_in(mirror.log))
            except (LedgerError, OSError, sqlite3.Error) as error:
                mirror.refuse(error)
        self.settle(source)

    @property
    def copies(self) -> list[sqlite3.Connection]:
        """The log and, where it is used, its mirror."""
        return [log.connection for log in (self.log, self.mirror.log) if log is not None]

    def settle(self, *sources: sqlite3.Connection) -> None:
        """Make log and mirror hold the same payloads: all that one of the copies has and no redaction removes.

        Where a payload has to go, both files are rewritten without it, and opened again.
        """
        from faber_ledger.ledger.effective import effective_redactions, lost_rows
        from faber_ledger.ledger.redaction import restore_payloads, still_holds_payload

        if self.mirror.diverged_at is not None:
            return  # the log is damaged
        every = [*self.copies, *sources]
        gone = effective_redactions(*every).gone
        for copy in self.copies:
            rows = lost_rows(copy, every, gone)
            if rows:
                restore_payloads(copy, rows)
                self.log.forget_redactions()
                self.restored += len(rows)
        if any([still_holds_payload(copy, gone) for copy in self.copies]):
            self.rewrite(gone)

    def rewrite(self, gone: Collection[str], *, strict: bool = False) -> None:
        """Rewrite log and mirror as they are in the open transactions, but without the payloads of these events.

        The mirror first: whoever is killed between the two leaves the rest to the next append, which unites them. It
        keeps its file, since other work trees may have it open; so does a kept run's log, which is the mirror. Raises
        NotWritable, and the log stays as it was; with `strict` also whatever keeps the mirror from being written, which
        is otherwise refused.
        """
        if self._run.is_kept:
            _strip_in_place(self.log, gone)
            self.log.close()
            self.log = Log.open(self.log.path)
            self.redacted = True
            return
        from faber_ledger.ledger.union import merge_rows, remove_database, rows_of, write_rows

        self.mirror.known_heads = None
        path, temporary = self.log.path, self.log.path + ".tmp"
        try:
            remove_database(temporary)
            write_rows(merge_rows([rows_of(self.log)], gone), temporary)
            try:
                self.mirror.strip(self.log, gone)
            except (LedgerError, OSError, sqlite3.Error) as error:
                if strict:
                    raise
                self.mirror.refuse(error)
            self.log.close()  # first, since what it rolls back stands in a journal beside the file
            try:
                whole_file.move_into_place(temporary, path)
            finally:
                self.log = Log.open(path)
        except OSError as error:
            raise NotWritable(f"cannot rewrite {path}: {error.strerror}", hint=HINT) from error
        finally:
            remove_database(temporary)
        self.redacted = True

    def close(self) -> None:
        """Close both files. What was not committed is gone, and with it the file of a log that got no event."""
        self.log.close()
        self.mirror.close()
        try:
            if is_empty(self.log.path) and not is_git_at_work(self._run.root):
                os.unlink(self.log.path)
        except FileNotFoundError:
            pass  # git, or another program, removed it meanwhile

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        # It need not survive a power cut: it is there for what git does, and the log itself is durable.
        return Log.open(self.path, synchronous="OFF", busy_seconds=busy_seconds)

    def _use(self, log: Log) -> None:
        self.log = log
        self.state = IN_USE if self.diverged_at is None else DIVERGED

    def close(self) -> None:
        """Close the file if it is open; what was not committed is gone."""
        if self.log is not None:
            self.log.close()
            self.log = None

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
        _strip_in_place(mirror, gone)
        self.close()
        self._use(self._open_file(MIRROR_BUSY_SECONDS))


def _strip_in_place(log: Log, gone: Collection[str]) -> None:
    """Remove the payloads of these events from a log's file, which stays the same file, and commit."""
    from faber_ledger.ledger.redaction import strip_in_place

    with log.writing():
        strip_in_place(log.connection, gone)
        log.commit()
        log.connection.execute(f"PRAGMA synchronous = {DURABLE}")
        log.connection.execute(f"PRAGMA busy_timeout = {VACUUM_MILLISECONDS}")
        log.connection.execute("VACUUM")
