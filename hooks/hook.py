"""What the client's hooks do: gather before the lock, record under it, answer after it; a start prints the packet."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import OutOfTime
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.projections.fold import blocks_of
from faber_ledger.recording import inbox
from faber_ledger.recording.call import Answer, checkout_at_end
from faber_ledger.recording.incoming import ENDS, arrival_of, changes_nothing
from faber_ledger.recording.recording import Recording
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.clone import note_use, writer_of
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.progress import what_to_keep
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.seen import note_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.events import Draft
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.inbox import Arrival
    from faber_ledger.recording.incoming import Decided
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.seen import SeenClient
    from faber_ledger.runs.settings import Settings


# A hook must not be noticed, and the client kills SessionEnd after 1.5 seconds: what takes longer waits in the inbox.
WAIT_SECONDS, WAIT_SECONDS_AT_THE_END = 3.0, 1.0
REFUSALS = (LedgerError, OSError, sqlite3.Error, OutOfTime)


class Hook:
    """One hook call about `run`; `warn` prints a message and logs it.

    `active` is the active run, None if the client's earlier session says the run. `seen` is what this clone knew of the
    client before. `is_repeat` says that another hook has the same delivery.
    """

    is_repeat = False

    def __init__(
        self,
        call: Call,
        run: Run,
        active: ActiveRun | None,
        at: float,
        warn: Callable[[str], None],
        seen: SeenClient | None,
    ) -> None:
        self.call = call
        self.run = run
        self.at = at
        self._log = warn
        self._warnings: list[str] = []  # what a start tells the user is wrong
        self._active = active
        self._seen = seen
        self._was_there = run.has_files()
        self._earlier: JsonText | None = None  # the state as it was read before the lock
        self._arrival: Arrival | None = None
        self._file: inbox.InboxFile | None = None
        self._is_recorded = False
        self._known_settings: Settings | None = None

    def warn(self, message: str) -> None:
        """Print and log a message, once."""
        if message in self._warnings:
            return
        self._warnings.append(message)
        self._log(message)

    def _settings(self) -> Settings:
        """Return the project's settings, and warn once of what is wrong with them."""
        if self._known_settings is None:
            from faber_ledger.runs.settings import Settings

            self._known_settings = Settings(self.run, os.environ)
            for problem in self._known_settings.problems:
                self.warn(problem)
        return self._known_settings

    def answer(self) -> Answer | None:
        """Record the call and return what to print: for a compaction, what its summary should keep.

        A call that cannot be recorded now stays in the inbox, and is answered all the same. Raises without a run.
        """
        state, _ = self._read_state()
        arrival = self._receive(state)
        if lacks_ledger(self.run) and changes_nothing(arrival, blocks_of(state)) and not inbox.has_files(self.run):
            self._leave_run()
            return None
        decided: Decided | None = None
        try:
            self._put(arrival)
            if self.call.hook in ENDS and not self._is_subagents:
                arrival["checkout"] = checkout_at_end(self.run)
            with self._recording() as recording:
                decided = self._record(recording, arrival, [])
            if decided.has_moved:
                note_use(self.run.root, self.run.run_id)
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- a bug of ours must not lose a delivery
            self._report(error)
        if not self._is_subagents:
            self._leave_run(is_followed=decided is not None and decided.has_moved)
        is_repeated = decided is not None and decided.is_repeated
        is_asked = self.call.hook == "PreCompact" and not is_repeated and not self._is_subagents
        if not is_asked or state.get("status") in progress.FINISHED or not self._settings().precompact_hint:
            return None
        return Answer(what_to_keep(self.run.run_id, state, self.run.shown(self.run.state_path)))

    def finish(self) -> None:
        """Remove the answered delivery from the inbox if what happened is in the log.

        Else add what an answered start has loaded to the delivery. After an end the ledgers are sent.
        """
        if self.call.hook in ENDS and not self._is_subagents and carries_refs(self.run.root):
            from faber_ledger.runs.carry import start_sending

            start_sending(self.run.root)
        if self._file is None or self._arrival is None:
            return
        if self._is_recorded:
            self._file.remove()
        elif self._arrival["loads"] is not None:
            self._file.replace(self._arrival)

    @property
    def _is_subagents(self) -> bool:
        """Whether a subagent made the call; its sessions are not sessions of the run."""
        return self.call.text("agent_id") is not None

    def _receive(self, state: dict[str, Any]) -> Arrival:
        is_summary = self.call.hook == "PostCompact" and self.call.compact_summary != ""
        has_summaries = self._settings().summaries if is_summary else True
        return arrival_of(self.call, self.run, self.at, state, self._seen, has_summaries_in_git=has_summaries)

    def _put(self, arrival: Arrival) -> None:
        """Put the delivery into the inbox, or where the clone cannot be written, into the project without secrets."""
        self._arrival = arrival
        try:
            self._file = inbox.put(self.run, arrival)
        except OSError as error:
            try:
                self._arrival = inbox.masked(arrival)
                self._file = inbox.put_in_tree(self.run, self._arrival)
            except OSError:
                self.warn(f"the delivery cannot be written into the inbox: {error}")

    def _read_state(self) -> tuple[dict[str, Any], str | None]:
        """Return the run's state and what is wrong with it; the newest backup replaces an unreadable one."""
        run = self.run
        try:
            self._earlier = state_file.look_at_state(run)
            return self._earlier.value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, ForeignState) or not run.has_files():
                raise
            from faber_ledger.context.failures import state_broken

            backup = state_file.read_backup(run)
            return (backup[1].value if backup else {}), state_broken(run, error, state_file.choose_backup(run))

    def _leave_run(self, *, is_followed: bool = False) -> None:
        """End the session that the client has left on another run.

        If its newest session `is_followed` to this run, that is noted, unless the other run is locked: then the
        client's next delivery tries both again.
        """
        run, seen, client, pid = self.run, self._seen, self.call.client, self.call.pid
        if seen is None and self.call.text("source") in ("clear", "fork"):
            from faber_ledger.runs.seen import client_of_process  # the process has a new client id

            seen = client_of_process(run.root, pid, client)
        has_left = seen is not None and seen.run_id not in (None, run.run_id)
        if client is None or not (has_left or is_followed):
            return
        try:
            if has_left and seen is not None:
                from faber_ledger.recording.leaving import leave_run  # only where a client has moved

                is_followed &= leave_run(run.root, seen, pid, self.at, self.warn, WAIT_SECONDS_AT_THE_END)
            if is_followed:
                note_session(run.root, client, pid, run.run_id, self.at)
        except OutOfTime as error:
            self.warn(f"what the client has left open on another run was not ended: {error}")

    def _recording(self) -> Recording:
        seconds = WAIT_SECONDS_AT_THE_END if self.call.hook == "SessionEnd" else WAIT_SECONDS
        writer = writer_of(self.run.root)
        return Recording(self.run, at=self.at, writer=writer, warn=self.warn, tolerant=True, seconds=seconds)

    def _record(self, recording: Recording, arrival: Arrival, loads: list[Draft]) -> Decided:
        """Append what the call means, a start with its `loads`."""
        if recording.problem is not None:
            self.warn(f"{recording.problem} - {recording.problem.hint}")
        decided = recording.record(arrival, loads)
        if decided.facts:
            try:
                recording.commit()
            except StateNotWritten as error:
                self.warn(f"{error} - what happened is in the ledger: {error.hint}")
            except OutOfTime as error:
                if not recording.is_durable:
                    raise
                self.warn(f"state.json was not written, since {error} - what happened is in the ledger")
        self._is_recorded = True
        return decided

    def _report(self, error: Exception | OutOfTime) -> None:
        """Warn why the call is not recorded now, and where it waits; raises `error` if there is no run to record on."""
        if isinstance(error, ForeignState) or not (self._was_there or self.run.has_files()):
            raise error
        if self._is_recorded:
            self.warn(f"recorded, but then: {error}")
            return
        reason = f"not recorded: {error}"
        reason += f" - {error.hint}" if isinstance(error, LedgerError) and error.hint else ""
        if not isinstance(error, REFUSALS):
            reason = f"not recorded, because of a bug in faber-ledger, please report it: {error!r}"
        waits = f"; it waits in {self._file.path}, and the next recording records it" if self._file is not None else ""
        self.warn(f"{reason}{waits}")
