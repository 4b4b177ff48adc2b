"""One recording: under the run's lock, what the log says, what is appended to it, and `state.json` after it."""

from __future__ import annotations

import os

from faber_ledger.files.json_text import TOO_DEEP
from faber_ledger.ledger.errors import ForeignState, LedgerError, Replaced, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import BUSY_SECONDS, sqlite3
from faber_ledger.ledger.lock import RunLock
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.fold import PROJECTOR, fold
from faber_ledger.recording.sessions import View
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.clone import spool_path, writer_of
from faber_ledger.runs.mirror import open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.recording.spooled import Spooled
    from faber_ledger.runs.run import Run

AT_ONCE = 100  # deliveries a transaction, so that a hook which is killed meanwhile has not worked for nothing


class Recording:
    """A run held open for appending: `state` and `view` are what is known, `append` turns drafts into facts.

    A run without a log gets one with its first append: `first` is its first event, else the run is adopted and its
    blocks become that event. With `tolerant`, a state that is missing or broken does not stop a run that has a log:
    `problem` tells it then, and `state` is the newest backup's. Deliveries that wait in the spool are recorded first.
    """

    def __init__(
        self,
        run: Run,
        *,
        at: float,
        writer: str,
        warn: Callable[[str], None],
        first: Draft | None = None,
        tolerant: bool = False,
        lock: RunLock | None = None,
    ) -> None:
        self.run = run
        self.at = at
        self.writer = writer
        self.warn = warn
        self.first = first
        self.tolerant = tolerant
        self.state: dict[str, Any] = {}
        self.problem: LedgerError | None = None
        self.view: View
        self._is_open = False
        self._lock = lock or RunLock(run.lock_path)

    def __enter__(self) -> Recording:
        """Take the lock and read state and log; raises as `read_state`, `RunLock` and `Log.open`."""
        if not os.path.isfile(self.run.ledger_path):
            state_file.read_state(
                self.run
            )  # a run that is not there, or not readable, gets neither a lock nor a ledger
        self._lock.__enter__()
        try:
            self._read_state()
            self._open_log()
            try:
                if os.path.isdir(spool_path(self.run)):
                    self._drain()
            except BaseException:
                self._open.close()
                raise
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self._is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._open.close()
        finally:
            self._lock.__exit__(None, None, None)

    def append(self, drafts: list[Draft]) -> list[Recorded]:
        """Append facts, make them durable, and write the blocks that follow into state.json.

        Raises StateNotWritten where state.json cannot be: the facts are in the log, and the next projection shows them.
        """
        recorded = self.add(drafts, at=self.at, writer=self.writer)
        self.commit()
        return recorded

    @property
    def blocks(self) -> Blocks:
        """The two blocks, as the log is now."""
        return self.view.blocks

    def add(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
        """Put facts into the open transaction and fold them onto the blocks; `commit` makes them durable."""
        try:
            recorded = self._appended(drafts, at=at, writer=writer)
        except Replaced:  # SQLite asks for it before a transaction's first write, so that nothing else was in it
            if not self._is_open:
                raise
            self._open.close()
            self._open_log()
            recorded = self._appended(drafts, at=at, writer=writer)
        self.view.blocks = fold(recorded, self.blocks)
        return recorded

    def _appended(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
        with self._log.writing():
            return self._log.append(drafts, at=at, writer=writer)

    def _open_log(self) -> None:
        """Open the log and see what it says; whoever has the view keeps it."""
        self._open = open_log(self.run, self.warn, min(self._lock.seconds, BUSY_SECONDS))
        self._log = self._open.log
        try:
            view = View(self._log, self._known_blocks())
        except BaseException:
            self._open.close()
            raise
        if self._is_open:
            self.view.log, self.view.blocks = view.log, view.blocks
        else:
            self.view = view

    def commit(self) -> None:
        """Make what was added durable and write the blocks into state.json; raises as `append`."""
        if self.problem is not None:
            state_file.commit_blocks(self._open, self.blocks)
            return  # there is no state to write into: the next projection shows the facts
        try:
            state_file.project_blocks(self.run, self._open, self.blocks, warn=self.warn)
        except (StateInvalid, StateMissing) as error:  # another tool was at it since it was read
            raise StateNotWritten(error.message, hint=error.hint) from error
        if self._open.redacted:
            from faber_ledger.runs.old_copies import remove_old_copies  # a redaction came in, which is seldom

            remove_old_copies(self.run, self._log)
        elif self.state.get("status") in progress.FINISHED:
            state_file.remove_backup(self.run)

    def begin(self) -> None:
        """Begin the next transaction, after a commit; raises as `Log.open`."""
        self._open.begin()

    def _drain(self) -> None:
        """Record the waiting deliveries; raises as `append`, but for state.json.

        Their facts are durable before their files go. A file that is not a delivery is set aside and named.
        """
        from faber_ledger.recording import spool  # only after the disk, or a lock, has refused

        paths = spool.waiting(self.run)[: spool.MOST_FILES]  # no hook puts more there, and a repository may
        for first in range(0, len(paths), AT_ONCE):
            taken = [path for path in paths[first : first + AT_ONCE] if self._is_taken_in(path)]
            try:
                self.commit()
            except StateNotWritten as error:
                self.warn(f"{error} - what happened is in the ledger: {error.hint}")
            for path in taken:
                spool.remove(path)
            self.begin()
        spool.tidy(self.run)

    def _is_taken_in(self, path: str) -> bool:
        """Add what a waiting delivery means to the open transaction; return whether its file may go afterwards.

        Nothing that stands in one file, and no file that cannot be read, may hold up the others.
        """
        from faber_ledger.recording import spool

        try:
            spooled = spool.read(path)
            if spooled["run_id"] != self.run.run_id:
                raise spool.Malformed(f"it is about the run {spooled['run_id']!r:.80}")
        except FileNotFoundError:
            return False
        except OSError as error:
            self.warn(f"a waiting delivery cannot be read, and goes on waiting: {path}: {error.strerror}")
            return False
        except spool.Malformed as error:
            self._put_aside(path, error)
            return False
        try:
            self._take_in(spooled)
        except (LedgerError, OSError, sqlite3.Error):  # the log's, which the next one would meet too
            raise
        except Exception as error:  # noqa: BLE001 -- a defect of ours that this one brings out each time it is tried
            self.view.blocks = fold(self.view.log.stream())  # it may have stopped while they were changed
            self._put_aside(path, error)
            return False
        return True

    def _put_aside(self, path: str, error: Exception) -> None:
        """Move a file that is not a delivery out of the way and say so; it stays there."""
        from faber_ledger.recording.spool import put_aside

        try:
            self.warn(f"a waiting delivery could not be taken in, and was moved to {put_aside(path)}: {error!r:.300}")
        except OSError as refusal:
            self.warn(f"{path} is no delivery ({error!s:.300}), and cannot be moved aside: {refusal.strerror}")

    def _take_in(self, spooled: Spooled) -> None:
        from faber_ledger.recording.call import Call
        from faber_ledger.recording.incoming import Arrival

        call = Call(spooled["hook"], spooled["delivery"].encode("utf-8", "surrogateescape"), spooled["environ"])
        call.hook, call.digest = spooled["hook"], spooled["digest"]
        arrival = Arrival.spooled(spooled, call, self.run, self.warn)
        log = self.view.log
        with log.writing():
            log.connection.execute("SAVEPOINT delivery")
            try:
                arrival.record_in(self.view, self.state, self.add)
            except BaseException:
                if log.connection.in_transaction:  # what a full disk refuses, SQLite takes back as a whole
                    log.connection.execute("ROLLBACK TO delivery")
                raise
            log.connection.execute("RELEASE delivery")

    def _read_state(self) -> None:
        try:
            self.state = state_file.read_state(self.run).value
        except (StateInvalid, StateMissing) as error:
            if not self.tolerant or isinstance(error, ForeignState):
                raise
            self.problem = error
            backup = state_file.read_backup(self.run)
            self.state = backup[1].value if backup else {}

    def _known_blocks(self) -> Blocks:
        if not self._log.heads():
            if self.problem is not None:
                raise self.problem
            if self.first is None and shape.session_history(shape.blocks_of(self.state)):
                from faber_ledger.runs.lost import check_not_lost  # asks git, before a run is adopted

                check_not_lost(self.run)
            return fold(self._log.append([self.first or self._adoption()], at=self.at, writer=self.writer))
        blocks = shape.blocks_of(self.state)
        if self._log.is_checkpoint(PROJECTOR, shape.digest(blocks)):
            return blocks
        return fold(self._log.stream())

    def _adoption(self) -> Draft:
        blocks = shape.blocks_of(self.state)
        if shape.is_too_deep(blocks):
            hint = "flatten its sessions and context_metadata"
            raise StateInvalid(TOO_DEEP, path=self.run.shown("state.json"), hint=hint)
        return {"event": {"type": "run_adopted", "run_id": self.run.run_id, "blocks": shape.text(blocks)}}


def drain_waiting(run: Run, at: float, *, warn: Callable[[str], None]) -> None:
    """Record a run's waiting deliveries where nothing else is to be recorded; raises as `Recording`."""
    from faber_ledger.recording.spool import waiting

    if waiting(run):
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn, tolerant=True):
            pass  # whoever opens a recording takes them in
