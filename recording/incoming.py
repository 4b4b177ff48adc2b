"""A hook call as it arrived: what it had gathered by then, and which facts it comes to, now or from the spool."""

from __future__ import annotations

import os

from faber_ledger.ledger import clock
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.errors import LedgerError, StateInvalid, StateMissing
from faber_ledger.projections import blocks as shape
from faber_ledger.recording import sessions
from faber_ledger.recording.call import LONGEST_VALUE
from faber_ledger.recording.environment import Whereabouts
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.clone import is_recovery_due, spool_path, writer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from faber_ledger.ledger.events import CompactionCompleted, Draft, Environment, Recorded
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.recording.call import Call
    from faber_ledger.recording.sessions import Caller, Reason, View
    from faber_ledger.recording.spooled import Spooled
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.settings import Settings

    class Add(Protocol):
        """How facts enter a recording's open transaction."""

        def __call__(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
            """Append facts and return them as recorded."""


class Arrival:
    """One hook call about a run. Its first fact has the id `id`: whoever comes to it again knows it is recorded.

    A session's start has gathered `environment` and `loads`, the facts of its artifacts, before the lock; `progress`
    and `status` are those of the run's state, and None if it was not asked yet.
    """

    def __init__(self, call: Call, run: Run, at: float, note: Callable[[str], None]) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.note = note
        self.id = clock.event_id(at, os.urandom(10))
        self.writer = writer_of(run.root)
        self.salt = os.urandom(16).hex()
        self.session_id = clock.session_id(at, os.urandom(6))
        self.environment: Environment | None = None
        self.progress: Snapshot | None = None
        self.status: str | None = None
        self.loads: list[Draft] = []
        self._summary: str | None = None
        self._recorded_summary: str | None = None

    @classmethod
    def spooled(cls, spooled: Spooled, call: Call, run: Run, note: Callable[[str], None]) -> Arrival:
        """Take up a call that waited."""
        arrival = cls(call, run, spooled["at"], note)
        arrival.id, arrival.salt = spooled["id"], spooled["salt"]
        arrival.writer, arrival.session_id = spooled["writer"], spooled["session_id"]
        arrival.environment, arrival.loads = spooled["environment"], spooled["loads"]
        arrival.progress, arrival.status = spooled["progress"], spooled["status"]
        return arrival

    @property
    def is_subagents(self) -> bool:
        """Tell whether it is about a subagent, whose sessions are none of the run's."""
        return self.call.text("agent_id") is not None

    def saw(self, state: dict[str, object]) -> None:
        """Keep what the facts need of the run's state as it is now."""
        status = state.get("status")
        self.progress, self.status = progress.snapshot(state), status if isinstance(status, str) else None

    def settings(self) -> Settings:
        """Read the project's settings; what is wrong with them is noted."""
        from faber_ledger.runs.settings import Settings

        settings = Settings(self.run, os.environ)
        for problem in settings.problems:
            self.note(problem)
        return settings

    def summary(self) -> str:
        """Return what the main conversation came to, bounded and without its secrets; empty if it does not say."""
        if self._summary is None:
            self._summary = self._masked_summary()
        return self._summary

    def recorded_summary(self) -> str:
        """Return what the ledger may hold of the summary; where it may hold none, that is kept in this clone."""
        if self._recorded_summary is None:
            text = self.summary()
            if text and not self.settings().summaries:
                self._keep_summary()
                text = ""
            self._recorded_summary = text
        return self._recorded_summary

    def _keep_summary(self) -> None:
        from faber_ledger.runs.kept_summaries import keep  # only where a project wants it

        try:
            keep(self.run, self.id, self.summary())
        except OSError as error:
            self.note(f"what the compaction came to cannot be kept: {error.filename or ''} {error.strerror or error}")

    def record_in(self, view: View, state: dict[str, Any], add: Add) -> tuple[bool, bool]:
        """Add what the call means to an open recording with `add`.

        Returns whether the call was a repeat, and whether anything was added. `state` is the run's state as it was
        read under the lock.
        """
        known = view.log.event_of(self.id)
        if known is not None:
            return known["event"].get("reason") == "repeated", False
        caller: Caller = {
            "client": self.call.client,
            "pid": self.call.pid,
            "writer": self.writer,
            "at": self.at,
            "environment": self.environment,
            "progress": self.progress or progress.snapshot(state),
        }
        repeated = sessions.is_repeated(view, caller, self.call.delivery())
        if self.changes_nothing(state, view.blocks):
            return repeated, False
        delivery = self.call.delivery()
        facts = sessions.ignored(caller, delivery, "repeated") if repeated else self._facts(view, caller)
        add(self._named(facts), at=self.at, writer=self.writer)
        return repeated, True

    def _named(self, facts: list[Draft]) -> list[Draft]:
        """Give facts the ids and salts that they have whenever the call is taken in.

        After the same events it comes to the same ones then, to their hashes: git may have kept what was written when
        SQLite, or a kill, said that it was not.
        """
        named: list[Draft] = []
        for number, fact in enumerate(facts):
            digest = sha256(f"{self.salt}{number}".encode()).digest()
            name = clock.event_id(self.at, digest[16:]) if number else self.id
            named.append({**fact, "id": name, "salt": digest[:16].hex()})
        return named

    def changes_nothing(self, state: dict[str, Any], blocks: Blocks) -> bool:
        """Tell whether the run is over: then only a session that is open is still ended."""
        if (self.status or state.get("status")) not in progress.FINISHED:
            return False
        return self.call.hook not in ("PreCompact", "SessionEnd") or not shape.open_sessions(blocks)

    def came_after_the_end(self) -> bool:
        """Return whether the run was finished before it had a log, and this call ends no session of it.

        Then nothing is recorded, so the run needs neither a lock nor a mirror. Raises LedgerLost.
        """
        from faber_ledger.runs.lost import check_not_lost, remembered  # only until the run has a log

        if is_recovery_due(self.run.ledger_path) or remembered(self.run) or os.path.isdir(spool_path(self.run)):
            return False
        try:
            state = state_file.read_state(self.run).value
        except (StateInvalid, StateMissing):
            return False
        blocks = shape.blocks_of(state)
        if not self.changes_nothing(state, blocks):
            return False
        if shape.session_history(blocks):
            check_not_lost(self.run)
        return True

    def _facts(self, view: View, caller: Caller) -> list[Draft]:
        if self.is_subagents and self.call.hook != "PostCompact":
            return sessions.ignored(caller, self.call.delivery(), "subagent")
        if self.call.hook == "SessionStart":
            return self._opening(view, caller)
        if self.call.hook == "PostCompact":
            return self._compaction(view, caller)
        return self._end(view, caller)

    def _opening(self, view: View, caller: Caller) -> list[Draft]:
        source, delivery = self.call.text("source") or "unknown", self.call.delivery()
        opened = sessions.session_opened(view, caller, self.session_id, source, empties_context=True, delivery=delivery)
        return [*opened, *self.loads]

    def _end(self, view: View, caller: Caller) -> list[Draft]:
        session_id = sessions.session_of(view, caller)
        if session_id is None:
            return sessions.ignored(caller, self.call.delivery(), "no_session")
        if sessions.lacks_environment(view, session_id):
            caller["environment"] = Whereabouts(self.run.root, self.call.text("cwd")).environment()
        reason: Reason = "compaction" if self.call.hook == "PreCompact" else "normal"
        said = self.call.text("trigger" if self.call.hook == "PreCompact" else "reason")
        return [sessions.session_ended(view, caller, session_id, reason, said, delivery=self.call.delivery())]

    def _compaction(self, view: View, caller: Caller) -> list[Draft]:
        event: CompactionCompleted = {
            "type": "compaction_completed",
            "trigger": self.call.text("trigger"),
            "agent_id": self.call.text("agent_id"),
            "phase": caller["progress"]["phase"],
            "step": caller["progress"]["step"],
            "delivery": self.call.delivery(),
        }
        session_id = None if self.is_subagents else sessions.session_of(view, caller)
        if session_id is not None:
            event["session_id"] = session_id
        if self.recorded_summary():
            event["summary"] = self.recorded_summary()
        return [{"event": event, "client": caller["client"]}]

    def _masked_summary(self) -> str:
        said = self.call.compact_summary if self.call.hook == "PostCompact" else ""
        if not said or self.is_subagents:
            return ""
        from faber_ledger.recording.masking import bounded_summary  # its rules are many, and nothing else needs them

        return bounded_summary(said)

    def waits(self, *, as_it_came: bool = False) -> Spooled:
        """Give the call as the spool keeps it; `as_it_came` with nothing that is made of it or read for it now."""
        from faber_ledger.recording.spooled import LONGEST_DELIVERY, VARIABLES, VERSION

        if self.progress is None and not as_it_came:
            try:
                self.saw(state_file.read_state(self.run).value)
            except (LedgerError, OSError):
                pass  # the state of then is not to be had: that of when it is recorded holds
        said = "" if as_it_came else self.recorded_summary()
        is_kept = bool(self._summary) and self._recorded_summary == ""  # whoever takes this in may have other settings
        return {
            "spool": VERSION,
            "id": self.id,
            "salt": self.salt,
            "run_id": self.run.run_id,
            "hook": self.call.hook,
            "at": self.at,
            "writer": self.writer,
            "environ": {
                name: value[:LONGEST_VALUE] for name in VARIABLES if (value := os.environ.get(name)) is not None
            },
            "delivery": self.call.kept(0 if is_kept else LONGEST_DELIVERY, said),
            "digest": self.call.digest,
            "session_id": self.session_id,
            "environment": self.environment,
            "progress": self.progress,
            "status": self.status,
            "loads": self.loads,
        }
