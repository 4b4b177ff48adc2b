"""The clone's log of a run: opened under the run's lock, with what the work tree's `ledger.db` has absorbed first.

The log is one SQLite file below the git directory, which nobody else writes. Every command and hook opens it here.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import JOURNAL_ENDING, disk
from faber_ledger.ledger.disk import OWN, make_private
from faber_ledger.ledger.errors import IntegrityError, Locked, NewerFormat, NotWritable
from faber_ledger.ledger.file import BUSY_SECONDS, DURABLE, is_busy, no_ledger_error, sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.runs.clone import is_empty, lock_run, make_private_folder
from faber_ledger.runs.layouts import keep_place
from faber_ledger.runs.run import STRIPPED
from faber_ledger.runs.seen import TreeNote, shape_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.runs.run import Run


READER_SECONDS = 3.0  # how long a reader waits for the lock under which it absorbs


def has_log(run: Run) -> bool:
    """Return whether this clone has a log of a run."""
    return not is_empty(run.log_path)


def lacks_ledger(run: Run) -> bool:
    """Return whether a run has neither a log in this clone nor a published file that may have events."""
    return not has_log(run) and (run.is_kept or not os.path.isfile(run.ledger_path) or is_empty(run.ledger_path))


def open_run_log(run: Run, warn: Callable[[str], None], busy_seconds: float = BUSY_SECONDS) -> RunLog:
    """Open a run's log for appending, and absorb the work tree's file; the caller holds the run's lock.

    `warn` is called with what was set aside. Raises Locked and NotWritable.
    """
    log = _open_file(run, warn, busy_seconds)
    opened = RunLog(run, log, warn)
    try:
        opened.absorb()
    except BaseException:
        opened.close()
        raise
    return opened


def read_log(run: Run, warn: Callable[[str], None] = lambda message: None) -> Log:
    """Open a run's log for reading, with what the work tree's file has absorbed; raises LedgerError.

    Where the clone cannot be written, or its lock is held for long, the two are united in memory.
    """
    if lacks_ledger(run):
        raise no_ledger_error(run.ledger_path)
    note = TreeNote(run)
    try:
        if not has_log(run) or not is_seen(run, note) or has_journal(run):
            with lock_run(run, READER_SECONDS), open_run_log(run, warn, READER_SECONDS):
                pass  # which absorbs the file, and rolls back what a killed writer left
            note = TreeNote(run)
            if not has_log(run):
                check_published(run)
                return read_in_memory(run, warn)
        return _read_file(run, note)
    except (Locked, NotWritable):
        return read_in_memory(run, warn)
    except IntegrityError:
        if not has_log(run):
            raise
        with lock_run(run, READER_SECONDS), open_run_log(run, warn, READER_SECONDS):
            pass  # a log that cannot be read is made again
        return _read_file(run, TreeNote(run))


def check_published(run: Run) -> None:
    """Raise what is wrong with a published file if nothing of it entered the log."""
    from faber_ledger.ledger.foreign import open_untrusted  # only after a file from which nothing passed

    with open_untrusted(run.ledger_path) as published:
        if not published.connection.execute("SELECT 1 FROM event LIMIT 1").fetchone():
            return
        hint = "get the file again from where it is intact; `faber-ledger doctor` names the copy that was set aside"
        raise IntegrityError(f"no event of {run.ledger_path} can be used", hint=hint)


def is_seen(run: Run, note: TreeNote) -> bool:
    """Return whether the work tree's file is as this work tree last published or absorbed it."""
    return run.is_kept or note.shape == shape_of(run.ledger_path)


def has_journal(run: Run) -> bool:
    """Return whether a writer of a run's log is at work, or was killed."""
    return os.path.lexists(run.log_path + JOURNAL_ENDING)


def _read_file(run: Run, note: TreeNote) -> Log:
    log = Log.read(run.log_path)
    log.checkpoint = note.checkpoint
    return log


def read_in_memory(run: Run, warn: Callable[[str], None]) -> Log:
    """Return a copy of a run's log in memory, united with the work tree's file: nothing is written."""
    from faber_ledger.runs.absorb import copy_to_memory, take_file  # only where the clone cannot be written

    note, log = TreeNote(run), copy_to_memory(run)
    log.checkpoint = note.checkpoint
    take_file(run, log, note, warn, may_write=False)
    log.connection.execute("COMMIT")
    return log


def _open_file(run: Run, warn: Callable[[str], None], busy_seconds: float) -> Log:
    """Open the log's file, which SQLite would make readable for everybody; one that cannot be read is made again."""
    path = run.log_path
    try:
        if is_empty(path):
            make_private_folder(run, run.private_folder)
            careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # it may be a link, or a pipe
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | careful, OWN)
            make_private(descriptor, path)
            os.close(descriptor)
            keep_place(run)
        return Log.open(path, busy_seconds=busy_seconds)
    except (IntegrityError, sqlite3.DatabaseError) as error:
        if isinstance(error, NewerFormat) or (isinstance(error, sqlite3.Error) and is_busy(error)):
            raise
        from faber_ledger.runs.absorb import make_log_again  # hardly ever

        return make_log_again(run, error, warn)
    except OSError as error:
        hint = "check permissions and space of the git directory"
        raise NotWritable(f"cannot write {path}: {error.strerror or error}", hint=hint) from error


class RunLog:
    """A run's log, open for appending, in a transaction.

    `absorbed` counts the events that came from the work tree's file, `restored` the payloads that came back, a
    fetched ledger's among them. `redacted` is set where a payload was removed from the log, so that older copies of it
    have to go too.
    """

    def __init__(self, run: Run, log: Log, warn: Callable[[str], None]) -> None:
        self.run = run
        self.log = log
        self.note = TreeNote(run)
        self.absorbed = self.restored = 0
        self.redacted = os.path.lexists(os.path.join(run.private_folder, STRIPPED))
        self._warn = warn
        log.checkpoint = self.note.checkpoint

    def absorb(self) -> None:
        """Insert what passes of the work tree's file if it is not as it was last seen, or the log is new.

        A new log without such a file gets what passes of the one in git's last commit.
        """
        if not self.log.is_new and is_seen(self.run, self.note):
            return
        takes_head = self.log.is_new and shape_of(self.run.ledger_path) is None
        if takes_head:
            from faber_ledger.runs.copies import is_in_head  # once in a run's life

            if not is_in_head(self.run):
                return  # as nearly always: what takes a ledger is loaded where there is one
        from faber_ledger.runs.absorb import take_file, take_head

        with self.log.writing():
            before = self.log.count_events()
            if takes_head:
                take_head(self.run, self.log)
            self.restored = take_file(self.run, self.log, self.note, self._warn)
            self.absorbed = self.log.count_events() - before
            self.strip_redacted()
            if self.absorbed or self.restored or self.redacted:
                self.log.commit()
                self.log.begin()
        self.note.save()
        self.log.checkpoint = self.note.checkpoint

    def absorb_fetched(self, path: str) -> str:
        """Insert what passes of a ledger that a fetch brought into a private file, and commit it.

        Return its heads if the log now holds all of its events, else an empty text.
        """
        from faber_ledger.runs.absorb import take_fetched

        with self.log.writing():
            heads, restored = take_fetched(self.run, self.log, path, self._warn)
            self.restored += restored
            self.strip_redacted()
            self.log.commit()
            self.log.begin()
        return heads

    def insert_rows(self, rows: Iterable[Row], payloads: Iterable[Row] = ()) -> None:
        """Insert rows that passed the gate, and payloads that the log lacks; raises sqlite3.Error."""
        from faber_ledger.runs.absorb import insert

        self.restored += insert(self.run, self.log, rows, payloads)
        self.strip_redacted()

    def strip_redacted(self) -> None:
        """Remove the payloads that are redacted, after a private copy of them was set aside."""
        from faber_ledger.ledger.redaction import rows_to_strip

        rows = rows_to_strip(self.log.connection)
        if rows:
            from faber_ledger.runs.absorb import keep_redacted

            keep_redacted(self.run, self.log, rows, self._warn)
            self.strip([row[1] for row in rows])

    def strip(self, names: Collection[str]) -> None:
        """Remove the payloads of these events, commit, and write the file again, so that no freed page holds one."""
        from faber_ledger.ledger.redaction import strip_in_place

        disk.put(os.path.join(self.run.private_folder, STRIPPED), b"", mode=OWN, durable=False)
        strip_in_place(self.log.connection, names)
        self.log.commit()
        self.log.connection.execute(f"PRAGMA synchronous = {DURABLE}")
        self.log.connection.execute("VACUUM")
        self.log.begin()
        self.redacted = True

    def commit(self) -> None:
        """Make what was appended durable; raises NotWritable."""
        with self.log.writing():
            self.log.commit()

    def begin(self) -> None:
        """Begin the next transaction, after a commit; raises as `open_run_log`."""
        with self.log.writing():
            self.log.begin()

    def close(self) -> None:
        """Close the log; what was not committed is gone."""
        self.log.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
