"""One recording: under a run's lock, read the state and the log, append to it, and write `state.json`."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import check_time
from faber_ledger.ledger.disk import LOCK_SECONDS
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import BUSY_SECONDS, sqlite3
from faber_ledger.projections.fold import blocks_of, fold, is_too_deep
from faber_ledger.recording import inbox
from faber_ledger.recording.incoming import NO_SESSION, facts_missing, facts_of, place_facts
from faber_ledger.recording.sessions import View
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import lock_run, writer_of
from faber_ledger.runs.log import lacks_ledger, open_run_log, read_log
from faber_ledger.runs.publish import publish, why_not_published
from faber_ledger.runs.run import notices_path, set_aside_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.projections.fold import Blocks
    from faber_ledger.recording.inbox import Arrival, LeftFacts
    from faber_ledger.recording.incoming import Decided
    from faber_ledger.runs.run import Run

AT_ONCE = 100  # deliveries in a transaction, so that a hook that is killed meanwhile does not lose all its work


class Recording:
    """A run locked and open for appending: `state` and `view` show what it holds, `append` turns drafts into facts.

    A run without a log gets one with the first append: it begins with `first`, or else the run is adopted, with its
    blocks in the first event. With `tolerant`, a missing or broken state does not stop a run that has a log: `problem`
    is the error then, and `state` the newest backup's. Deliveries of the inbox whose hooks are gone are recorded first.
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
        seconds: float = LOCK_SECONDS,
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
        self._known: state_write.KnownState | None = None
        self._touched: set[object] = set()  # sessions whose facts were folded onto its blocks
        self._shows_log = True
        self._overwritten: str | None = None  # what another tool wrote, which the next projection replaces
        self._seconds = seconds

    def __enter__(self) -> Recording:
        """Take the lock and read state and log; raises what `read_state`, `RunLock` and `Log.open` raise."""
        if lacks_ledger(self.run):
            state_file.look_at_state(self.run)  # a run that is missing or not readable gets neither lock nor ledger
        self._lock = lock_run(self.run, self._seconds)
        self._lock.__enter__()
        try:
            self._read_state()
            self._open = open_run_log(self.run, self.warn, min(self._seconds, BUSY_SECONDS))
            try:
                self._log = self._open.log
                self.view = View(self._log, self._known_blocks())
                if os.path.isdir(set_aside_folder(self.run.root)):
                    from faber_ledger.runs.set_aside import drop_old  # only where something was

                    drop_old(self.run.root, self.at)
                self._record_waiting()
            except BaseException:
                self._open.close()
                raise
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._open.close()
            if self._known is not None and self.problem is None:  # nothing was written
                state_write.refresh_copy(self.run, self._known.document, self.warn)
                if self._shows_log:
                    self._remove_backup_if_finished()
        finally:
            self._lock.__exit__(None, None, None)

    def say_notices(self) -> None:
        """Warn of what was set aside of the run since its last start."""
        if os.path.lexists(notices_path(self.run)):
            from faber_ledger.runs.set_aside import say_notices  # only where something was

            say_notices(self.run, self.warn, self.at)

    def append(self, drafts: list[Draft]) -> list[Recorded]:
        """Append facts, make them durable, and write the blocks that follow into state.json.

        Raises StateNotWritten if state.json cannot be written: then the next projection shows the facts, which are in
        the log.
        """
        recorded = self.add(drafts, at=self.at, writer=self.writer)
        self.commit()
        return recorded

    def project(self) -> bool:
        """Write the blocks if state.json does not show the log, as after a failed write; return whether they were.

        A run that has no log yet gets none. Raises what `append` raises.
        """
        return not self._shows_log and self.commit()

    @property
    def is_durable(self) -> bool:
        """Whether everything that was added is in the log's file, whatever happens."""
        return not self._log.connection.in_transaction

    @property
    def blocks(self) -> Blocks:
        """The two blocks, with what was added so far."""
        return self.view.blocks

    def add(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
        """Add facts to the open transaction and fold them onto the blocks; `commit` makes them durable."""
        recorded = self._insert(drafts, at=at, writer=writer)
        self.view.blocks = fold(recorded, self.blocks)
        self._touched.update([one["event"].get("session_id") for one in recorded])
        return recorded

    def _insert(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
        with self._log.writing():
            return self._log.append(drafts, at=at, writer=writer)

    def commit(self) -> bool:
        """Make what was added durable, write the blocks into state.json, and return whether they were written.

        Raises what `append` raises.
        """
        if self.problem is not None:
            self._open.commit()
            if why_not_published(self.run, None, self._open.note, self._log) is None:
                publish(self.run, self._open, self.warn)
                self._open.note.save()
            return False  # there is no state to write into: the next projection writes the blocks
        try:
            known, self._known = self._known, None  # writing makes it outdated
            is_written = state_write.project_blocks(
                self.run, self._open, self.blocks, warn=self.warn, known=known, touched=self._touched
            )
        except (StateInvalid, StateMissing) as error:  # another tool changed it since it was read
            raise StateNotWritten(error.message, hint=error.hint) from error
        self._shows_log = True
        if self._overwritten is not None and is_written:
            self.warn(self._overwritten)
            self._overwritten = None
        if self._open.redacted:
            from faber_ledger.runs.old_copies import remove_old_copies  # redactions are rare

            remove_old_copies(self.run, self._log)
        else:
            self._remove_backup_if_finished()
        return is_written

    def _remove_backup_if_finished(self) -> None:
        if self.state.get("status") in progress.FINISHED:
            state_write.remove_backup(self.run)

    def begin(self) -> None:
        """Begin the next transaction, after a commit; raises what `Log.open` raises."""
        self._open.begin()

    def record(self, arrival: Arrival, loads: list[Draft] | None = None) -> Decided:
        """Add the facts of a hook's delivery; only its own hook passes `loads`, those that it is about to give."""
        decided = facts_of(arrival, self.view, self.writer, loads)
        if decided.facts:
            self.add(decided.facts, at=arrival["at"], writer=self.writer)
        if loads is None and arrival["loads"] is None:
            self.view.unanswered.add(arrival["session_id"])
        if decided.summary:
            from faber_ledger.runs.kept_summaries import keep_summary  # only where a project wants it

            try:
                keep_summary(self.run, decided.facts[0]["id"], decided.summary)
            except OSError as error:
                self.warn(f"the compaction's summary cannot be kept: {error.filename or ''} {error.strerror or error}")
        if decided.is_unheard_of:
            who = "this client" if loads is not None else "the client of a delivery that waited"
            self.warn(f"{who} {NO_SESSION} {self.run.run_id}: nothing is recorded of it")
        return decided

    def _record_found(self, found: Arrival | LeftFacts) -> None:
        """Add what the inbox has; of what a command left, the log has some already after a killed recording."""
        if "facts" not in found:
            self.record(found)
            return
        facts = place_facts(facts_missing(found["facts"], self.view), self.view)
        self.add(facts, at=found["at"], writer=self.writer)

    def _record_waiting(self) -> None:
        """Record the deliveries of the inbox whose hooks are gone; raises what `append` raises, except for state.json.

        Their facts are durable before their files are removed.
        """
        files: list[inbox.InboxFile] = []
        for file in inbox.take(self.run):
            check_time()
            if self._record_file(file):
                files.append(file)
            if len(files) >= AT_ONCE:
                self._commit_waiting(files)
                files = []
        if files:
            self._commit_waiting(files)

    def _commit_waiting(self, files: list[inbox.InboxFile]) -> None:
        try:
            self.commit()
        except StateNotWritten as error:
            self.warn(f"{error} - what happened is in the ledger: {error.hint}")
        for file in files:
            file.remove()
        self.begin()

    def _record_file(self, file: inbox.InboxFile) -> bool:
        """Add a file's facts to the open transaction; return whether the file may be removed afterwards.

        A file with the wrong content, or one that cannot be read, does not hold up the others.
        """
        try:
            found = file.read()
            if found["run_id"] != self.run.run_id:
                raise inbox.Malformed(f"it is about the run {found['run_id']!r:.80}")
        except OSError as error:
            self.warn(f"a delivery cannot be read, and stays in the inbox: {file.path}: {error.strerror}")
            file.close()
            return False
        except inbox.Malformed as error:
            self._set_aside(file, error)
            return False
        log = self.view.log
        try:
            with log.writing():
                log.connection.execute("SAVEPOINT delivery")
                try:
                    self._record_found(found)
                except BaseException:
                    if log.connection.in_transaction:  # a full disk makes SQLite roll back everything
                        log.connection.execute("ROLLBACK TO delivery")
                    raise
                log.connection.execute("RELEASE delivery")
        except (LedgerError, OSError, sqlite3.Error):  # an error of the log, which the next delivery would meet too
            raise
        except Exception as error:  # noqa: BLE001 -- a bug of ours that this delivery triggers whenever it is tried
            self.view.blocks = fold(log.stream())  # it may have stopped halfway through changing them
            self._set_aside(file, error)
            return False
        return True

    def _set_aside(self, file: inbox.InboxFile, error: Exception) -> None:
        """Set a file aside that is not a delivery, and warn."""
        from faber_ledger.runs.set_aside import set_file_aside

        try:
            target = set_file_aside(self.run, file.path, move=True)
            self.warn(f"a delivery could not be recorded, and was moved to {target}: {error!r:.300}")
        except OSError as refusal:
            self.warn(f"{file.path} is not a delivery ({error!s:.300}), and cannot be set aside: {refusal.strerror}")
        file.close()

    def _read_state(self) -> None:
        try:
            self._known = state_write.read_known(self.run)
            self.state = self._known.value
        except (StateInvalid, StateMissing) as error:
            if not self.tolerant or isinstance(error, ForeignState):
                raise
            self.problem = error
            backup = state_file.read_backup(self.run)
            self._known = state_write.KnownState(backup[1]) if backup else None
            self.state = backup[1].value if backup else {}

    def _known_blocks(self) -> Blocks:
        if not self._log.heads():
            if self.problem is not None:
                raise self.problem
            return fold(self._insert(self._first_drafts(), at=self.at, writer=self.writer))
        known = blocks_of(self.state)
        shows_log = self._known is not None and self._known.shows(self._log)
        return known if shows_log else self._fold_beside(known)

    def _first_drafts(self) -> list[Draft]:
        if self.first is not None:
            return [self.first]
        from faber_ledger.recording.adoption import adopt_run, take_up_if_started_here  # once in a run's life

        if self._known is not None:
            take_up_if_started_here(self.run, self._known.document.text.encode())
        return adopt_run(self.run, blocks_of(self.state), self.at)

    def _fold_beside(self, found: Blocks) -> Blocks:
        """Fold the log, and adopt the sessions that another tool has written into the state's blocks, `found`."""
        folded, is_unfit = fold(self._log.stream()), is_too_deep(found)
        self._shows_log = not is_unfit and folded == found
        if self.problem is not None or is_unfit or self._shows_log or self.run.is_kept:
            return folded  # a kept run's state is a copy of ours, which no other tool writes
        from faber_ledger.recording import adoption  # only after another tool, a merge or a kill

        drafts = adoption.adopt_sessions(self.run, folded, found)
        folded = fold(self._insert(drafts, at=self.at, writer=self.writer), folded)
        self._overwritten = adoption.describe_overwritten(self.run, self._log, folded, found)
        return folded


def drain_waiting(run: Run, at: float, *, warn: Callable[[str], None]) -> None:
    """Record a run's waiting deliveries and nothing else; raises what `Recording` raises."""
    if inbox.list_waiting(run):
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn, tolerant=True):
            pass  # opening a recording records them


def record_waiting(run: Run, at: float, *, warn: Callable[[str], None]) -> None:
    """Record a run's waiting deliveries before its log is sent; warn if that fails: it is sent as it is."""
    try:
        drain_waiting(run, at, warn=warn)
    except (LedgerError, sqlite3.Error, OSError, RecursionError) as error:
        warn(f"{run.run_id}: what waits cannot be recorded: {error}")


def record_before_projecting(run: Run, at: float, *, warn: Callable[[str], None]) -> bool:
    """Record what waits, and adopt the sessions that another tool wrote; raises what `Recording` raises.

    Every command that is about to project a run calls it, since the projection writes the two blocks again from the
    log. `warn` gets what else another tool wrote into them. Return whether sessions were adopted.
    """
    from faber_ledger.recording import adoption  # no hook projects without recording

    drain_waiting(run, at, warn=warn)
    try:
        state = state_write.read_known(run)
        found = blocks_of(state.value)
        if is_too_deep(found):
            return False
        with read_log(run, warn) as log:
            if not found or not log.heads() or state.shows(log) or state.fold_news(log) is not None:
                return False  # there is nothing in the blocks that is not ours
            folded = fold(log.stream())
            has_unknown = bool(adoption.list_unknown(folded, found))
            line = None if has_unknown else adoption.describe_overwritten(run, log, folded, found)
    except (LedgerError, OSError, sqlite3.Error):  # the projection itself says what is wrong
        return False
    if has_unknown:
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn) as recording:
            recording.project()
    elif line is not None:
        warn(line)
    return has_unknown
