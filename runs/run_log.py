"""A run's log, open for appending: recovered, united with its mirror, and committed to together with it.

`stash`, `reset --hard`, `checkout` and `clean` roll a tracked file back: the events that they removed come back from
the mirror the next time the log is opened for writing.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import whole_file
from faber_ledger.ledger.errors import IntegrityError, LedgerError, Locked, NotWritable
from faber_ledger.ledger.file import BUSY_SECONDS, DURABLE, sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import PAYLOAD
from faber_ledger.runs.clone import is_empty, is_recovery_due
from faber_ledger.runs.git import is_git_at_work, project_key
from faber_ledger.runs.ledger_notes import ALL, NOTHING, end_writing, find_judged, inode_of, note_judged, note_writing
from faber_ledger.runs.mirror import DISABLED, IN_USE, Mirror, strip_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from faber_ledger.ledger.effective import Effective
    from faber_ledger.ledger.log import Head
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


HINT = "check permissions and space of the run's folder"
PIECE = 8 * 1024 * 1024  # characters that go to the mirror at once
ROW_SIZE = 500  # of them, about, for an event besides its payload


def open_log(
    run: Run, warn: Callable[[str], None], busy_seconds: float = BUSY_SECONDS, *, compare: bool = False
) -> RunLog:
    """Recover a run's log where a writer was killed, open it for appending, and unite it with its mirror.

    With `compare`, payloads are compared too if both have the same events. The caller holds the run's lock. `warn` is
    called with what was recovered, and if the mirror cannot be used: then the log is opened without it. A file that is
    no sound log is left as it is, and the mirror is opened alone. Raises as `recover` and `Log.open`, and Locked or
    NotWritable.
    """
    take_over_older_place(run)
    mirror = Mirror(run, warn)
    is_recovered = mirror.state != DISABLED and is_recovery_due(run)
    if is_recovered:
        _recover(run, warn)
    if is_empty(run.ledger_path):
        _check_git(run)  # before the file is made, which would be in git's way
    inode = inode_of(run.ledger_path)
    try:
        log = _open_file(run, warn, busy_seconds)
        opened = RunLog(run, log, mirror, warn, inode)
        try:
            if is_recovered:
                opened.expect_payloads_in_backup()
            opened.unite(compare=compare)
        except BaseException:
            opened.close()
            raise
    except IntegrityError as error:  # as a peer may have pushed it
        alone = _open_mirror_alone(run, mirror, error, warn)
        if alone is None:
            raise
        return alone
    return opened


def take_over_older_place(run: Run) -> None:
    """Move what an earlier version kept of a run to the folder of its project, which is below the repository's top."""
    if not run.is_kept and project_key(run.root):
        from faber_ledger.runs.older_place import take_over  # not for a project at the top

        take_over(run)


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
        return _open_noted(run, busy_seconds)
    except IntegrityError as error:  # without git, where no recovery has looked at it
        from faber_ledger.runs.recovery import put_refused_journal_aside

        if not put_refused_journal_aside(run.ledger_path, error, warn):
            raise
        return _open_noted(run, busy_seconds)


def _open_noted(run: Run, busy_seconds: float) -> Log:
    """Note that a writer of this clone is at work before SQLite can make a journal, and open the log."""
    if not os.path.lexists(run.journal_path):
        note_writing(run.ledger_path)
    try:
        log = Log.open(run.ledger_path, busy_seconds=busy_seconds)
    except BaseException:
        end_writing(run.ledger_path)
        raise
    if log.is_new:
        _narrow(run)
    return log


def _narrow(run: Run) -> None:
    """Let nobody read a new ledger who may not read the run's state."""
    try:
        mode, allowed = [os.stat(path).st_mode & 0o777 for path in (run.ledger_path, run.state_path)]
        if mode != mode & (allowed | 0o700):
            os.chmod(run.ledger_path, mode & (allowed | 0o700))
    except OSError:
        return  # there is no state, or the file system has no permissions


def _open_mirror_alone(run: Run, mirror: Mirror, error: IntegrityError, warn: Callable[[str], None]) -> RunLog | None:
    """Open a run's mirror, with what passes of its file, which is no sound log; None if that is nothing.

    Nor where a folder is in the file's place: until it is gone, what happens waits in the spool.
    """
    if mirror.state == DISABLED or (os.path.isdir(run.ledger_path) and not os.path.islink(run.ledger_path)):
        return None
    from faber_ledger.runs.refusals import take_passing

    opened: RunLog | None = None
    try:
        log = mirror.open()
        take_passing(run, log)
        if log.heads():
            opened = RunLog(run, log, mirror, warn, None)
            opened.stay_in_mirror(log, f"{error.message}, and is left as it is")
            opened.settle()
            return opened
    except (IntegrityError, OSError, sqlite3.Error) as refusal:
        warn(f"the mirror of this run under the git directory is not used: {refusal}")
    except BaseException:
        mirror.close()
        if opened is not None:
            opened.close()
        raise
    mirror.close()
    if opened is not None:
        opened.close()
    return None


class RunLog:
    """A run's log, open for appending, and its mirror.

    `returned` counts the events that came back from the mirror, `restored` the payloads: a forged redaction had removed
    them from one of the two. `redacted` is set where a payload was removed from a file here, so that older copies of it
    have to go too. `refused` has the rows of the run's file that the gate refuses: while there are any, the file is
    left as it is, and `log` is the mirror's, `is_alone`, which has all that passes.
    """

    def __init__(
        self, run: Run, log: Log, mirror: Mirror, warn: Callable[[str], None], inode: int | None = None
    ) -> None:
        self.log = log
        self.mirror = mirror
        self.returned = self.restored = 0
        self.redacted = self.is_alone = False
        self.refused: list[Row] = []
        self._has_begun = False  # the mirror: it had no event before
        self._judged = NOTHING  # of the file, as it was opened
        self._is_judged = False  # once this transaction is committed, all of the file passes, and the mirror has it
        self._inode = inode  # the number of the file that is open
        self._run = run
        self._warn = warn

    def expect_payloads_in_backup(self) -> None:
        """Set `redacted` after a recovery of a log with redactions: the backup that it made holds what they removed."""
        question = "SELECT 1 FROM event WHERE payload IS NULL"
        self.redacted = self.log.connection.execute(question).fetchone() is not None

    def unite(self, *, compare: bool = False) -> None:
        """Copy to log and mirror what each of them lacks; raises Locked, NotWritable, and as `Log.heads`.

        With `compare`, do so for the payloads of events that both have, too. Where a mirror is used, raises
        IntegrityError for a file of others whose indexes or order lie.
        """
        heads = self.log.heads()  # a log that cannot be read is not the mirror's fault
        self.mirror.known_heads = heads
        if not heads:
            _check_git(self._run)  # it may have begun meanwhile, and our events would be in the file that it writes
            self._inode = inode_of(self.log.path)  # SQLite may have made it
            self._is_judged = True  # all that it will have is recorded here, or comes from the mirror
        elif self.mirror.state != DISABLED:
            self._look_at_file()
        if self.mirror.state != DISABLED and (heads or not is_empty(self.mirror.path)):
            self._unite(heads, compare)
        if compare and self.mirror.log is None:
            with self.log.writing():
                self.settle()

    def _look_at_file(self) -> None:
        """Check a file that git or another program has written, whose checkpoint proves nothing."""
        self._judged = find_judged(self.log.path)
        if self._judged == ALL:
            return
        self.log.has_own_checkpoint = False
        if self._judged == NOTHING:
            from faber_ledger.ledger.table import check_indexes  # only then

            check_indexes(self.log)

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
        known = mirror.heads()
        self._has_begun = not known
        if known == heads and self._judged != NOTHING:
            self._is_judged = True
            if not compare:
                return
        elif self._is_as_mirror(mirror):
            self._is_judged = True
            note_judged(self.log.path, self._inode, has_own_checkpoint=self.log.has_own_checkpoint)
            if not compare:
                return
        else:
            self._exchange_rows(mirror)
        self.settle()

    def _is_as_mirror(self, mirror: Log) -> bool:
        """Return whether the file, which git or another program has written, has the mirror's events and no others."""
        from faber_ledger.ledger.union import has_same_rows  # only after that

        return has_same_rows(self.log, mirror)

    def _exchange_rows(self, mirror: Log) -> None:
        from faber_ledger.ledger.union import insert_rows, missing_rows  # only after git, or another clone, was at work
        from faber_ledger.runs.refusals import find_refused

        passing = missing_rows(mirror, self.log, keeps=True)
        pieces = _in_pieces(passing)
        insert_rows(mirror, next(pieces, []))
        for rows in pieces:
            insert_rows(mirror, rows)
            mirror.commit()  # a hook whose time is over in the middle of a very large log goes on here the next time
            mirror.begin()
        self.refused = find_refused(self.log, mirror, passing)
        if self.refused:
            shown = self._run.shown(self._run.ledger_path)
            self.stay_in_mirror(mirror, f"{shown} has refused events ({len(self.refused)}), and is left as it is")
        else:
            lost = list(missing_rows(self.log, mirror))
            insert_rows(self.log, lost)
            self.returned = len(lost)
            self._is_judged = True

    def stay_in_mirror(self, mirror: Log, why: str) -> None:
        """Leave the run's file as it is, and append to the mirror alone."""
        mirror.commit()
        mirror.connection.execute(f"PRAGMA synchronous = {DURABLE}")
        mirror.begin()
        if self.log is not mirror:
            self.log.close()
            end_writing(self.log.path)
        self.log, self.mirror.log = mirror, None
        self.mirror.state = DISABLED
        self.is_alone = True
        self._warn(
            f"{why}: this is recorded below the git directory alone; run `faber-ledger quarantine {self._run.run_id}`"
        )

    def commit(self) -> None:
        """Make what was appended durable in the log, and copy it to the mirror; raises as `Log.commit`."""
        with self.log.writing():
            self.log.commit()
        self.mirror.commit(self.log)
        if self._is_judged and self.mirror.state == IN_USE:
            note_judged(self.log.path, self._inode, has_own_checkpoint=self.log.has_own_checkpoint)

    def begin(self) -> None:
        """Begin the next transaction of both, after a commit; raises as `Log.open`."""
        with self.log.writing():
            self.log.begin()
        self.mirror.begin()

    def insert_rows(self, missing_in: Callable[[Log], Iterable[Row]], source: sqlite3.Connection) -> None:
        """Insert rows of `source` into log and mirror; `missing_in` returns those that a log lacks.

        They may stand below the newest event, where `commit` does not look for what is new. Raises sqlite3.Error.
        """
        from faber_ledger.ledger.union import RememberFirst, insert_rows, lacked_rows

        mirror = self.mirror
        if mirror.state != DISABLED and mirror.log is None and mirror.known_heads == []:
            self._unite([])  # it has not begun
        mirror.known_heads = None
        is_same = mirror.has_events_of(self.log)
        inserted = RememberFirst(missing_in(self.log))
        insert_rows(self.log, inserted)
        has_less = any(map(_has_less, self.copies))
        if mirror.log is not None:
            try:
                # What has passed once is not judged again.
                if is_same and not has_less:
                    mirror.copy_from(inserted.position, self._inode)
                elif is_same:
                    first = min(filter(None, (mirror.take_lacked(), inserted.position)), default=None)
                    insert_rows(mirror.log, lacked_rows(mirror.log, self.log, first))
                else:
                    insert_rows(mirror.log, missing_in(mirror.log))
            except (LedgerError, OSError, sqlite3.Error) as error:
                mirror.refuse(error)
        if has_less or not is_same:
            self.settle(source)  # else there is nothing to settle: a redaction of `source` that passed is in the log

    @property
    def copies(self) -> list[sqlite3.Connection]:
        """The log and, where it is used, its mirror."""
        return [log.connection for log in (self.log, self.mirror.log) if log is not None]

    def settle(self, *sources: sqlite3.Connection) -> None:
        """Make log and mirror hold the same payloads: all that one of the copies has and no redaction removes.

        Where a payload has to go, both files are rewritten without it, and opened again.
        """
        from faber_ledger.ledger.effective import effective_redactions, lost_rows
        from faber_ledger.ledger.redaction import restore_rows, still_holds_payload

        if self.mirror.diverged_at is not None:
            return  # the log is damaged
        every = [*self.copies, *sources]
        found = self._find_removed(every) if sources else effective_redactions(*every)
        gone = found.gone
        for copy in self.copies:
            rows = lost_rows(copy, every, gone)
            if rows:
                restore_rows(copy, rows)
                self.log.forget_redactions()
                self.restored += len(rows)
        if any([still_holds_payload(copy, gone) for copy in self.copies]):
            self._keep_back(found)
            self.rewrite(gone)

    def _find_removed(self, copies: Iterable[sqlite3.Connection]) -> Effective:
        from faber_ledger.ledger.union import find_removed  # a source may have what is refused

        return find_removed([Log(copy, self.log.path) for copy in copies], self.log)

    def _keep_back(self, found: Effective) -> None:
        """Keep what the mirror loses to redactions from elsewhere; where that fails, the mirror is left alone."""
        from faber_ledger.runs.unaccepted import keep_back

        mirror = self.log if self._run.is_kept or self.is_alone else self.mirror.log
        if mirror is None or self._has_begun:
            return
        try:
            keep_back(self._run, mirror.connection, found)
        except (LedgerError, OSError, sqlite3.Error) as error:
            if mirror is self.log:
                raise NotWritable(f"cannot keep what a redaction removes: {error}", hint=HINT) from error
            self.mirror.refuse(error)

    def rewrite(self, gone: Collection[str], *, strict: bool = False) -> None:
        """Rewrite log and mirror as they are in the open transactions, but without the payloads of these events.

        The mirror first: whoever is killed between the two leaves the rest to the next append, which unites them. It
        keeps its file, since other work trees may have it open; so does a kept run's log, which is the mirror. Raises
        NotWritable, and the log stays as it was; with `strict` also whatever keeps the mirror from being written, which
        is otherwise refused.
        """
        if self._run.is_kept or self.is_alone:
            strip_file(self.log, gone)
            self.log.close()
            self.log = Log.open(self.log.path)
            self.redacted = True
            return
        from faber_ledger.ledger.union import merge_rows, remove_database, write_rows

        self.mirror.known_heads = None
        path, temporary = self.log.path, self.log.path + ".tmp"
        try:
            remove_database(temporary)
            write_rows(merge_rows([self.log], gone), temporary)
            try:
                self.mirror.strip(self.log, gone)
            except (LedgerError, OSError, sqlite3.Error) as error:
                if strict:
                    raise
                self.mirror.refuse(error)
            self.log.close()  # first, since what it rolls back stands in a journal beside the file
            self._inode = inode_of(temporary)
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
        end_writing(self.log.path)
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


def _in_pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows in lists of some MB."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += ROW_SIZE + len(row[PAYLOAD] or "")
        if size >= PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _has_less(copy: sqlite3.Connection) -> bool:
    """Return whether a log has a redaction, or an event without a payload."""
    question = "SELECT 1 FROM event WHERE type = 'event_redacted' OR payload IS NULL LIMIT 1"
    return copy.execute(question).fetchone() is not None
