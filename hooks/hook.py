"""What each of the client's hooks does: gather before the lock, decide, append once, and give the packet."""

from __future__ import annotations

import os

from faber_ledger.files.text import quoted
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.lock import RunLock
from faber_ledger.recording.environment import Whereabouts
from faber_ledger.recording.incoming import Arrival
from faber_ledger.recording.recording import Recording
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import claim_run, claimed_run
from faber_ledger.runs.clone import is_empty
from faber_ledger.runs.progress import current_phase, current_step
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.packet import Told
    from faber_ledger.context.reload import Reload
    from faber_ledger.files.folders import HeldFolder
    from faber_ledger.ledger.log import Log
    from faber_ledger.recording.call import Call
    from faber_ledger.runs.run import Run


# A hook must not be felt, and at a session's end the client kills it after 1.5 seconds: who waits longer is spooled.
WAIT_SECONDS = 3.0
WAIT_SECONDS_AT_THE_END = 1.0
REFUSALS = (LedgerError, OSError, sqlite3.Error)


class Hook:
    """One hook call about the active run, in the project `held`; `note` takes what only the hook log is told."""

    def __init__(self, call: Call, run: Run, at: float, note: Callable[[str], None], held: HeldFolder) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.note = note
        self._held = held
        self._was_there = os.path.isdir(run.directory)
        self._arrival = Arrival(call, run, at, note)

    def answer(self) -> str | None:
        """Record the call and give what is printed: a start's packet, or what a compaction's summary should keep.

        A call that is refused, or that a defect stops, is spooled. Raises whatever it was where there is no such run.
        """
        try:
            if self.call.hook == "SessionStart" and not self._arrival.is_subagents:
                return self._start()
            if is_empty(self.run.ledger_path) and self._arrival.came_after_the_end():
                return None
            self._arrival.summary()  # masking takes its time: before the lock
            if self._is_on_network():
                self._spool_first()
            repeated = self._record()
        except Exception as error:  # noqa: BLE001 -- a defect of ours loses no delivery either
            self._spool(error)
            repeated = False
        if self.call.hook == "PreCompact" and not repeated and not self._arrival.is_subagents:
            return self._hint()
        return None

    # SessionStart

    def _start(self) -> str | None:
        whereabouts = Whereabouts(self.run.root, self.call.text("cwd"))
        from faber_ledger.context.notes import newest_notes, summary_for
        from faber_ledger.context.packet import pack

        arrival = self._arrival
        try:
            state, problem = self._state()
        except ForeignState as error:  # nothing of another run's is told, and nothing recorded
            self.note(f"{error.message} - {error.hint}")
            from faber_ledger.context import messages

            run = self.run
            broken = messages.state_broken(run, error, state_file.backup_name(run))
            return pack(run.run_id, {}, [], [broken], budget=arrival.settings().packet_budget)[0]
        if state.get("status") in progress.FINISHED:
            self.note(f"No active workflow found, skipping prime-context: {self.run.run_id} is {state['status']}")
            return None
        gathered = self._gathered(state)
        if self._has_moved():
            gathered = self._gathered(state)
        # Without any state all that was gathered is that one is missing.
        found = gathered.problems() if state or not problem else []
        problems = [*([problem] if problem else []), *found]
        for told in found:  # the state itself is noted when it is recorded
            self.note(" / ".join([line for line in told.split("\n")[:5] if line]))
        settings = arrival.settings()
        arrival.environment = whereabouts.environment()
        arrival.saw(state)
        packet = ""

        def packed(notes: list[Told] | None = None, summary: Told | None = None) -> None:
            nonlocal packet
            packet, given = pack(
                self.run.run_id,
                state,
                gathered.parts(),
                problems,
                budget=settings.packet_budget,
                notes=notes or [],
                summary=summary,
                not_loaded=gathered.not_loaded(),
            )
            arrival.loads = gathered.drafts(arrival.session_id, self.call.client, given)

        def packed_with(log: Log) -> None:
            source = self.call.text("source") or "unknown"
            keeper = None if settings.summaries else self.run
            packed(newest_notes(log), summary_for(log, self.call.client, source, keeper))

        try:
            if self._is_on_network():
                packed()
                self._spool_first()
            if self._record(packed_with):
                return None
        except Exception as error:  # noqa: BLE001 -- the agent gets its context back all the same
            if not packet:
                packed()
            self._spool(error)
        else:
            self._hold()
        path = os.environ.get("CLAUDE_ENV_FILE")
        if path:
            from faber_ledger.hooks.session_env import export_run

            try:
                export_run(path, self.run.run_id, state.get("work_id"))
            except (OSError, ValueError) as error:
                self.note(f"CLAUDE_ENV_FILE: {error}")
        return packet

    def _gathered(self, state: dict[str, Any]) -> Reload:
        """Load the run's artifacts; none where a defect stops it, since the position can be told all the same."""
        from faber_ledger.context import reload  # no other hook loads artifacts

        is_compacted = self.call.text("source") == "compact"
        try:
            return reload.gather_for_hook(self.run, state, compacted=is_compacted, at=self.at)
        except Exception as error:  # noqa: BLE001 -- the agent gets its position back all the same
            none = reload.Reload(self.run.root, ["session_start"], state)
            none.has_workflow = False
            none.other_problems = [
                f"⚠️ WARNING: no artifact was loaded, by a defect of faber-ledger, please report it: {error!r:.300}"
            ]
            return none

    def _hold(self) -> None:
        """Keep that work goes on here on this run, so that no active file that git brings switches it."""
        if claimed_run(self.run.root) == self.run.run_id:
            return
        try:
            claim_run(self.run.root, self.run.run_id)
        except LedgerError as error:
            self.note(f"{error.message} - {error.hint}")

    def _state(self) -> tuple[dict[str, Any], str | None]:
        """Give the run's state and what is wrong with it; the newest backup stands in for one that cannot be read."""
        run = self.run
        try:
            return state_file.read_state(run).value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, ForeignState):
                raise
            if not os.path.isdir(run.directory):
                if self._has_moved():
                    return self._state()
                raise
            from faber_ledger.context import messages

            backup = state_file.read_backup(run)
            return (backup[1].value if backup else {}), messages.state_broken(run, error, state_file.backup_name(run))

    # PreCompact

    def _hint(self) -> str | None:

        state, _ = self._state()
        if state.get("status") in progress.FINISHED or not self._arrival.settings().precompact_hint:
            return None
        return what_to_keep(self.run, state)

    # What they share

    def _has_moved(self) -> bool:
        """Tell whether the project was renamed under this hook since it was looked at, and go on where it is now."""
        root = self._held.now()
        if root is None or root == self.run.root:
            return False
        self.run = self._arrival.run = find_run(root, self.run.run_id)
        return True

    def _record(self, prepare: Callable[[Log], None] | None = None) -> bool:
        """Append what the call means, and tell whether it was a repeated one; `prepare` is given the log before."""
        seconds = WAIT_SECONDS_AT_THE_END if self.call.hook == "SessionEnd" else WAIT_SECONDS
        lock = RunLock(self.run.lock_path, seconds, gives_up=True)
        with Recording(
            self.run, at=self.at, writer=self._arrival.writer, warn=self.note, tolerant=True, lock=lock
        ) as recording:
            if recording.problem is not None:
                self.note(f"{recording.problem} - {recording.problem.hint}")
            if prepare is not None:
                prepare(recording.view.log)
            repeated, has_added = self._arrival.record_in(recording.view, recording.state, recording.add)
            if has_added:
                try:
                    recording.commit()
                except StateNotWritten as error:
                    self.note(f"{error} - what happened is in the ledger: {error.hint}")
            return repeated

    def _is_on_network(self) -> bool:
        if not self._was_there:
            return False
        device = os.stat(self.run.directory).st_dev
        if os.major(device) != 0:  # a disk of this machine
            return False
        from faber_ledger.files.folders import network_file_system

        return network_file_system(device) is not None

    def _spool_first(self) -> None:
        """Keep the call before a lock is asked for that a network's file system may never give."""
        from faber_ledger.recording import spool

        try:
            spool.put(self.run, self._arrival.waits())
        except (OSError, spool.Full) as refusal:
            self.note(f"the delivery cannot be spooled: {refusal}")

    def _spool(self, error: Exception) -> None:
        """Keep a call that was refused until the next append; raises the error if there is no run to record it on."""
        self._has_moved()
        if isinstance(error, ForeignState) or not (self._was_there or os.path.isdir(self.run.directory)):
            raise error
        told = f"not recorded: {error}" + (f" - {error.hint}" if isinstance(error, LedgerError) and error.hint else "")
        if not isinstance(error, REFUSALS):
            told = f"not recorded, by a defect of faber-ledger, please report it: {error!r}"
        from faber_ledger.recording import spool

        try:
            spooled = self._arrival.waits()
        except Exception:  # noqa: BLE001 -- the same defect, which has been told
            spooled = self._arrival.waits(as_it_came=True)
        try:
            path = spool.put(self.run, spooled)
        except (OSError, spool.Full) as refusal:
            self.note(f"{told}; and it cannot be spooled: {refusal}")
        else:
            self.note(f"{told}; it waits in {path} and is taken in by the next append")


def what_to_keep(run: Run, state: dict[str, Any]) -> str:
    """Name in three lines the ids, paths and decisions without which the work cannot go on."""
    artifacts = state.get("artifacts")
    known = artifacts if isinstance(artifacts, dict) else {}
    place = ":".join([part for part in (current_phase(state), current_step(state)) if part])
    ids = [("FABER run", run.run_id), ("work item", state.get("work_id")), ("phase and step", place)]
    paths = [
        ("state", run.shown("state.json")),
        ("specification", str(known.get("spec_path") or "").replace("{project_root}/", "")),
        ("branch", known.get("branch_name") or known.get("branch") or state.get("branch")),
    ]
    return (
        f"Keep in the summary, word for word: {_listed(ids)}.\n"
        f"Keep these names: {_listed(paths)}; and the paths of the files that were changed or are about to be.\n"
        "Keep each decision with its reason, what the user asked for, what failed, and the next step."
    )


def _listed(named: list[tuple[str, Any]]) -> str:
    return ", ".join([f"{name} {quoted(value)}" for name, value in named if value not in (None, "")])
