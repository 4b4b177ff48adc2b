"""What each of the client's hooks does: gather before the lock, decide, append once, and give the packet."""

from __future__ import annotations

import os
import sqlite3

from faber_ledger.context import decide
from faber_ledger.context import state as states
from faber_ledger.context.environment import Surroundings, writer_of
from faber_ledger.context.recording import Recording
from faber_ledger.ledger import identity
from faber_ledger.ledger.errors import LedgerError, StateInvalid, StateMissing
from faber_ledger.projections import blocks as shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.decide import Caller, Reason
    from faber_ledger.context.delivery import Call
    from faber_ledger.context.project import Run
    from faber_ledger.ledger.events import CompactionCompleted, Draft, Environment


class Hook:
    """One hook call about the active run; `note` takes what only the hook log is told."""

    def __init__(self, call: Call, run: Run, at: float, note: Callable[[str], None]) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.note = note

    def answer(self) -> str | None:
        """Record the call and give the packet of a session's start; raises LedgerError, OSError, sqlite3.Error."""
        run = self.run
        if self.call.text("agent_id") is not None and self.call.hook != "PostCompact":
            self._record(run, lambda recording, caller: self._ignored(caller, "subagent"))
            return None
        if self.call.hook == "SessionStart":
            return self._start(run)
        if self.call.hook == "PostCompact":
            self._record(run, self._compaction)
        else:
            self._record(run, self._end)
        return None

    # SessionStart

    def _start(self, run: Run) -> str | None:
        surroundings = Surroundings(self.run.root, self.call.text("cwd"))
        from faber_ledger.context import reload  # no other hook loads artifacts, and here git is at work meanwhile
        from faber_ledger.context.packet import HOOK_BUDGET, pack

        state, problem = self._state(run)
        if state.get("status") in states.FINISHED:
            self.note(f"No active workflow found, skipping prime-context: {run.run_id} is {state['status']}")
            return None
        gathered = reload.gather_for_hook(run, state, compacted=self.call.text("source") == "compact", at=self.at)
        problems = [*([problem] if problem else []), *gathered.problems()]
        packet, given = pack(run.run_id, state, gathered.parts(), problems, budget=HOOK_BUDGET)
        environment = surroundings.environment()
        session_id = identity.session_id(self.at, os.urandom(6))

        def opened(recording: Recording, caller: Caller) -> list[Draft]:
            caller["environment"] = environment
            source = self.call.text("source") or "unknown"
            drafts = decide.session_opened(
                recording.view, caller, session_id, source, empties_context=True, delivery=self.call.delivery()
            )
            return [*drafts, *gathered.drafts(session_id, caller["client"], given)]

        try:
            repeated = self._record(run, opened)
        except (LedgerError, OSError, sqlite3.Error) as error:
            self.note(f"not recorded: {error}")  # the agent gets its context back all the same
            repeated = False
        return None if repeated else packet

    def _state(self, run: Run) -> tuple[dict[str, Any], str | None]:
        """Give the run's state and what is wrong with it; the newest backup stands in for one that cannot be read."""
        try:
            return states.read_state(run).value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, states.ForeignState) or not os.path.isdir(run.directory):
                raise
            from faber_ledger.context import messages

            backup = states.read_backup(run)
            return (backup.value if backup else {}), messages.state_broken(run, error, states.backup_name(run))

    # PreCompact, SessionEnd and PostCompact

    def _end(self, recording: Recording, caller: Caller) -> list[Draft]:
        session_id = decide.session_of(recording.view, caller)
        if session_id is None:
            return self._ignored(caller, "no_session")
        if decide.lacks_environment(recording.view, session_id):
            caller["environment"] = self._environment()
        reason: Reason = "compaction" if self.call.hook == "PreCompact" else "normal"
        said = self.call.text("trigger" if self.call.hook == "PreCompact" else "reason")
        return [decide.session_ended(recording.view, caller, session_id, reason, said, delivery=self.call.delivery())]

    def _compaction(self, recording: Recording, caller: Caller) -> list[Draft]:
        agent = self.call.text("agent_id")
        event: CompactionCompleted = {
            "type": "compaction_completed",
            "trigger": self.call.text("trigger"),
            "agent_id": agent,
            "phase": caller["progress"]["phase"],
            "step": caller["progress"]["step"],
            "delivery": self.call.delivery(),
        }
        session_id = decide.session_of(recording.view, caller) if agent is None else None
        if session_id is not None:
            event["session_id"] = session_id
        return [{"event": event, "client": caller["client"]}]

    # What they share

    def _record(self, run: Run, drafts: Callable[[Recording, Caller], list[Draft]]) -> bool:
        """Append what a delivery means, and tell whether it was a repeated one."""
        writer = writer_of(self.run.root)
        with Recording(run, at=self.at, writer=writer, warn=self.note, tolerant=True) as recording:
            if recording.problem is not None:
                self.note(f"{run.shown('state.json')}: {recording.problem}")
            caller: Caller = {
                "client": self.call.client,
                "pid": self.call.pid,
                "writer": writer,
                "at": self.at,
                "environment": None,
                "progress": decide.snapshot(recording.state),
            }
            repeated = decide.is_repeated(recording.view, caller, self.call.delivery())
            if self._changes_nothing(recording):
                return repeated
            recording.append(self._ignored(caller, "repeated") if repeated else drafts(recording, caller))
            return repeated

    def _changes_nothing(self, recording: Recording) -> bool:
        """Tell whether the run is over: then only a session that is open is still ended."""
        if recording.state.get("status") not in states.FINISHED:
            return False
        return self.call.hook not in ("PreCompact", "SessionEnd") or not shape.open_sessions(recording.blocks)

    def _ignored(self, caller: Caller, reason: Any) -> list[Draft]:
        return decide.ignored(caller, self.call.delivery(), reason)

    def _environment(self) -> Environment:
        return Surroundings(self.run.root, self.call.text("cwd")).environment()
