"""What each of the client's hooks does: gather before the lock, decide, append once, and give the packet."""

from __future__ import annotations

import os
import sqlite3

from faber_ledger.context import decide
from faber_ledger.context import state as states
from faber_ledger.context.environment import Surroundings, writer_of
from faber_ledger.context.recording import Recording
from faber_ledger.ledger import identity
from faber_ledger.ledger.errors import LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.projections import blocks as shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.decide import Caller, Reason
    from faber_ledger.context.delivery import Call
    from faber_ledger.context.project import Run
    from faber_ledger.context.project_settings import Settings
    from faber_ledger.ledger.events import CompactionCompleted, Draft, Environment


class Hook:
    """One hook call about the active run; `note` takes what only the hook log is told."""

    def __init__(self, call: Call, run: Run, at: float, note: Callable[[str], None]) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.note = note

    def answer(self) -> str | None:
        """Record the call and give what is printed: a start's packet, or what a compaction's summary should keep.

        Raises LedgerError, OSError, sqlite3.Error.
        """
        run = self.run
        if self.call.text("agent_id") is not None and self.call.hook != "PostCompact":
            self._record(run, lambda recording, caller: self._ignored(caller, "subagent"))
            return None
        if self.call.hook == "SessionStart":
            return self._start(run)
        if self.call.hook == "PostCompact":
            summary = self._summary(run)
            self._record(run, lambda recording, caller: self._compaction(recording, caller, summary))
        elif not self._record(run, self._end) and self.call.hook == "PreCompact":
            return self._hint(run)
        return None

    # SessionStart

    def _start(self, run: Run) -> str | None:
        surroundings = Surroundings(self.run.root, self.call.text("cwd"))
        from faber_ledger.context import reload  # no other hook loads artifacts, and here git is at work meanwhile
        from faber_ledger.context.packet import pack
        from faber_ledger.context.told import newest_notes, summary_for

        try:
            state, problem = self._state(run)
        except states.ForeignState as error:  # nothing of another run's is told, and nothing recorded
            self.note(f"{error.message} - {error.hint}")
            from faber_ledger.context import messages

            broken = messages.state_broken(run, error, states.backup_name(run))
            return pack(run.run_id, {}, [], [broken], budget=self._settings(run).packet_budget)[0]
        if state.get("status") in states.FINISHED:
            self.note(f"No active workflow found, skipping prime-context: {run.run_id} is {state['status']}")
            return None
        gathered = reload.gather_for_hook(run, state, compacted=self.call.text("source") == "compact", at=self.at)
        # Without any state all that was gathered is that one is missing.
        found = gathered.problems() if state or not problem else []
        problems = [*([problem] if problem else []), *found]
        for told in found:  # the state itself is noted when it is recorded
            self.note(" / ".join([line for line in told.split("\n")[:5] if line]))
        budget = self._settings(run).packet_budget
        environment = surroundings.environment()
        session_id = identity.session_id(self.at, os.urandom(6))

        packet = ""

        def opened(recording: Recording, caller: Caller) -> list[Draft]:
            nonlocal packet
            caller["environment"] = environment
            source = self.call.text("source") or "unknown"
            log = recording.view.log
            notes, summary = newest_notes(log), summary_for(log, caller["client"], source)
            packet, given = pack(
                run.run_id, state, gathered.parts(), problems, budget=budget, notes=notes, summary=summary
            )
            drafts = decide.session_opened(
                recording.view, caller, session_id, source, empties_context=True, delivery=self.call.delivery()
            )
            return [*drafts, *gathered.drafts(session_id, caller["client"], given)]

        try:
            if self._record(run, opened):
                return None
        except (LedgerError, OSError, sqlite3.Error) as error:
            hint = f" - {error.hint}" if isinstance(error, LedgerError) and error.hint else ""
            self.note(f"not recorded: {error}{hint}")  # the agent gets its context back all the same
            packet = packet or pack(run.run_id, state, gathered.parts(), problems, budget=budget)[0]
        path = os.environ.get("CLAUDE_ENV_FILE")
        if path:
            from faber_ledger.context.env_file import export_run

            try:
                export_run(path, run.run_id, state.get("work_id"))
            except (OSError, ValueError) as error:
                self.note(f"CLAUDE_ENV_FILE: {error}")
        return packet

    def _state(self, run: Run) -> tuple[dict[str, Any], str | None]:
        """Give the run's state and what is wrong with it; the newest backup stands in for one that cannot be read."""
        try:
            return states.read_state(run).value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, states.ForeignState) or not os.path.isdir(run.directory):
                raise
            from faber_ledger.context import messages

            backup = states.read_backup(run)
            return (backup[1].value if backup else {}), messages.state_broken(run, error, states.backup_name(run))

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

    def _compaction(self, recording: Recording, caller: Caller, summary: str) -> list[Draft]:
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
        if summary:
            event["summary"] = summary
        return [{"event": event, "client": caller["client"]}]

    def _summary(self, run: Run) -> str:
        """Give what the main conversation came to, as it may be recorded; empty if it is not to be."""
        said = self.call.compact_summary
        if not said or self.call.text("agent_id") is not None or not self._settings(run).summaries:
            return ""
        from faber_ledger.context.masking import bounded_summary  # its rules are many, and nothing else needs them

        return bounded_summary(said)

    def _hint(self, run: Run) -> str | None:
        from faber_ledger.context.summary_hint import what_to_keep

        state, _ = self._state(run)
        if state.get("status") in states.FINISHED or not self._settings(run).precompact_hint:
            return None
        return what_to_keep(run, state)

    # What they share

    def _settings(self, run: Run) -> Settings:
        from faber_ledger.context.project_settings import Settings

        settings = Settings(run, os.environ)
        for problem in settings.problems:
            self.note(problem)
        return settings

    def _record(self, run: Run, drafts: Callable[[Recording, Caller], list[Draft]]) -> bool:
        """Append what a delivery means, and tell whether it was a repeated one."""
        writer = writer_of(self.run.root)
        with Recording(run, at=self.at, writer=writer, warn=self.note, tolerant=True) as recording:
            if recording.problem is not None:
                self.note(f"{recording.problem} - {recording.problem.hint}")
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
            try:
                recording.append(self._ignored(caller, "repeated") if repeated else drafts(recording, caller))
            except StateNotWritten as error:
                self.note(f"{error} - what happened is in the ledger: {error.hint}")
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
