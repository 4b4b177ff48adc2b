"""A hook call about a run: what was known when it arrived, and the facts it becomes, at once or from the spool."""

from __future__ import annotations

import os

from faber_ledger.ledger import clock
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.errors import LedgerError, StateInvalid, StateMissing
from faber_ledger.projections import blocks
from faber_ledger.recording import sessions, subject
from faber_ledger.recording.call import LONGEST_VALUE, Call
from faber_ledger.recording.checkout import checkout_after, checkout_at_end, checkout_at_start
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.clients import seen_client
from faber_ledger.runs.clone import spool_path, writer_of
from faber_ledger.runs.private_files import keyed_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from faber_ledger.ledger.events import CompactionCompleted, Delivery, Draft, Environment, Recorded
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.recording.checkout import Checkout
    from faber_ledger.recording.sessions import Caller, Reason, View
    from faber_ledger.recording.spooled import Spooled
    from faber_ledger.runs.clients import SeenClient
    from faber_ledger.runs.progress import Snapshot
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.settings import Settings

    class Add(Protocol):
        """How facts enter a recording's open transaction."""

        def __call__(self, drafts: list[Draft], *, at: float, writer: str) -> list[Recorded]:
            """Append facts and return them as recorded."""


ENDS = ("PreCompact", "SessionEnd")
READ_WHEN_LATE = 1024 * 1024  # bytes of a state
NO_SESSION = "this client has no session on"


class IncomingCall:
    """One hook call about a run.

    Its first fact has the id `id`: a log that has that fact has recorded the call. `environment` is None until
    `remember_start`. `progress` and `status` are the state's, None until `remember_state`. `checkout` is None outside
    git, and until `remember_start` or `remember_end`. `seen` is what this clone knew of the client before; `has_moved`
    says whether the client is on another run from now on.
    """

    def __init__(
        self, call: Call, run: Run, at: float, warn: Callable[[str], None], seen: SeenClient | None = None
    ) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.warn = warn
        self.seen = seen
        self.has_moved = False
        self.id = clock.event_id(at, os.urandom(10))
        self.writer = writer_of(run.root)
        self.salt = os.urandom(16).hex()
        self.session_id = clock.session_id(at, os.urandom(6))
        self.environment: Environment | None = None
        self.checkout: Checkout | None = None
        self.progress: Snapshot | None = None
        self.status: str | None = None
        self._digest: str | None = None
        self._summary: str | None = None
        self._recorded_summary: str | None = None

    @classmethod
    def from_spooled(cls, spooled: Spooled, run: Run, warn: Callable[[str], None]) -> IncomingCall:
        """Return a call as it arrived, from the spool."""
        call = Call(spooled["hook"], spooled["delivery"].encode("utf-8", "surrogateescape"), spooled["environ"])
        call.hook = spooled["hook"]
        seen = seen_client(run.root, call.client)
        if seen is not None and seen.first_at >= spooled["at"]:
            seen = None  # it is known by this delivery, or by a later one
        incoming = cls(call, run, spooled["at"], warn, seen)
        incoming.id, incoming.salt = spooled["id"], spooled["salt"]
        incoming.writer, incoming.session_id = spooled["writer"], spooled["session_id"]
        incoming._digest = spooled["digest"]
        incoming.environment, incoming.checkout = spooled["environment"], spooled.get("checkout")
        incoming.progress, incoming.status = spooled["progress"], spooled["status"]
        return incoming

    @property
    def is_subagents(self) -> bool:
        """Whether a subagent made the call; its sessions are not sessions of the run."""
        return self.call.text("agent_id") is not None

    def delivery(self) -> Delivery:
        """Return what is recorded of the call itself."""
        return {"hook": self.call.hook, "digest": self.digest, "pid": self.call.pid}

    @property
    def digest(self) -> str:
        """What says whether two calls brought the same bytes, here alone; empty if that cannot be said."""
        if self._digest is None:
            self._digest = keyed_digest(self.run.root, self.call.sha256)
        return self._digest

    def remember_start(self, environment: Environment, state: dict[str, object]) -> None:
        """Keep what a session's start found out before the lock."""
        self.environment = environment
        self.checkout = checkout_at_start(self.run)
        self.remember_state(state)

    def remember_end(self) -> None:
        """Keep what git has checked out, if the call can end a session; git is asked before the lock."""
        if self.call.hook in ("PreCompact", "SessionEnd") and not self.is_subagents:
            self.checkout = checkout_at_end(self.run)

    def remember_state(self, state: dict[str, object]) -> None:
        """Keep what the facts need from the run's state."""
        status = state.get("status")
        self.progress, self.status = progress.snapshot(state), status if isinstance(status, str) else None

    def settings(self) -> Settings:
        """Read the project's settings, and warn of what is wrong with them."""
        from faber_ledger.runs.settings import Settings

        settings = Settings(self.run, os.environ)
        for problem in settings.problems:
            self.warn(problem)
        return settings

    def summary(self) -> str:
        """Return the main conversation's summary, shortened and without secrets; empty if the call has none."""
        if self._summary is None:
            self._summary = self._masked_summary()
        return self._summary

    def recorded_summary(self) -> str:
        """Return the summary if the ledger may hold it; otherwise keep it in this clone, and return an empty text."""
        if self._recorded_summary is None:
            text = self.summary()
            if text and not self.settings().summaries:
                self._keep_summary()
                text = ""
            self._recorded_summary = text
        return self._recorded_summary

    def _keep_summary(self) -> None:
        from faber_ledger.runs.kept_summaries import keep_summary  # only where a project wants it

        try:
            keep_summary(self.run, self.id, self.summary())
        except OSError as error:
            self.warn(f"the compaction's summary cannot be kept: {error.filename or ''} {error.strerror or error}")

    def record_in(self, view: View, state: dict[str, Any], add: Add, loads: list[Draft]) -> tuple[bool, bool]:
        """Add the call's facts to an open recording with `add`; a session's start adds `loads`, those of its artifacts.

        Return whether the call repeats a recorded one, and whether anything was added. `state` was read under the lock.
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
        delivery = self.delivery()
        is_repeated = subject.is_repeated(view, caller, delivery)
        if self.changes_nothing(state, view.blocks):
            return is_repeated, False
        if is_repeated and self._is_finished(state) and not blocks.open_sessions(view.blocks):
            return True, False
        if is_repeated:
            facts = sessions.ignore_delivery(caller, delivery, "repeated")
        else:
            facts = self._facts(view, caller, state, loads)
        if not facts:
            return False, False
        add(self._with_ids(facts), at=self.at, writer=self.writer)
        return is_repeated, True

    def _with_ids(self, facts: list[Draft]) -> list[Draft]:
        """Return the facts with the ids and salts that they get whenever the call is recorded.

        Recorded again after the same events, the call becomes the same facts, down to their hashes. That happens if
        SQLite, or a kill, reported a failure for a write that git kept.
        """
        named: list[Draft] = []
        for number, fact in enumerate(facts):
            digest = sha256(f"{self.salt}{number}".encode()).digest()
            name = clock.event_id(self.at, digest[16:]) if number else self.id
            named.append({**fact, "id": name, "salt": digest[:16].hex()})
        return named

    def changes_nothing(self, state: dict[str, Any], known: Blocks) -> bool:
        """Return whether the run is finished and the call ends no session of it: neither one that is open nor its own.

        A client that was at work when the run was finished may have a session of which no delivery has come yet, or
        one whose end was only inferred; one whose compaction has not come may go on with the session that its
        PreCompact ended.
        """
        if not self._is_finished(state):
            return False
        if self.call.hook not in ENDS or self.is_subagents:
            return True
        if blocks.open_sessions(known) or subject.was_seen_at_work(self.seen, state):
            return False
        if self.seen is None:
            return True
        return not (blocks.has_ended_for_compaction(known) or blocks.may_have_inferred_end(known))

    def _is_finished(self, state: dict[str, Any]) -> bool:
        return (self.status or state.get("status")) in progress.FINISHED

    def came_after_the_end(self) -> bool:
        """Return whether the run was finished before it had a log, and this call ends no session of it.

        Then nothing is recorded, so the run needs no log.
        """
        if os.path.isdir(spool_path(self.run)):
            return False
        try:
            state = state_file.look_at_state(self.run).value
        except (StateInvalid, StateMissing):
            return False
        known = blocks.blocks_of(state)
        return self.changes_nothing(state, known)

    def _facts(self, view: View, caller: Caller, state: dict[str, Any], loads: list[Draft]) -> list[Draft]:
        delivery = self.delivery()
        if self.is_subagents and self.call.hook != "PostCompact":
            return sessions.ignore_delivery(caller, delivery, "subagent")
        if self.call.hook == "SessionStart":
            source = self.call.text("source") or "unknown"
            opening = sessions.open_session(view, caller, self.session_id, source, delivery=delivery)
            self.has_moved = True
            return [*opening, *checkout_after(opening[-1], self.checkout), *loads]
        if self.call.hook == "PostCompact":
            return self._compaction(view, caller)
        return self._end(view, caller, state)

    def _end(self, view: View, caller: Caller, state: dict[str, Any]) -> list[Draft]:
        """Return the end of the client's session; one that nothing was heard of yet is opened first, as inferred."""
        session_id = subject.find_session(view, caller, self.seen)
        if session_id is None and not self._has_begun(caller, state):
            return self._pass_over()
        has_ended = session_id is not None and session_id not in blocks.open_sessions(view.blocks)
        if has_ended and self._is_finished(state) and not self._may_replace_end(view, caller, session_id):
            return []
        if session_id is None or sessions.lacks_environment(view, session_id):
            from faber_ledger.recording.environment import EnvironmentQuery  # the session's start recorded one

            caller["environment"] = EnvironmentQuery(self.run.root, self.call.text("cwd")).read()
        opening: list[Draft] = []
        self.has_moved = session_id is None or self.seen is None or self.seen.run_id != self.run.run_id
        if session_id is None:
            session_id, at = self.session_id, subject.infer_start(view, caller, self.seen, state)
            opening = sessions.open_session(view, caller, session_id, "inferred", inferred_at=at)
        reason: Reason = "compaction" if self.call.hook == "PreCompact" else "normal"
        said = self._masked_reason()
        delivery = self.delivery()
        end = sessions.end_session(view, caller, session_id, reason, said, delivery=delivery, is_new=bool(opening))
        return [*opening, end, *checkout_after(end, self.checkout)]

    def _masked_reason(self) -> str | None:
        """Return why the client says that a session ends, without secrets."""
        said = self.call.text("trigger" if self.call.hook == "PreCompact" else "reason")
        if said is None or said.replace("_", "").isalpha():  # a word of the client's, as `prompt_input_exit`
            return said
        from faber_ledger.recording.secrets.mask import mask_text

        return mask_text(said)

    def _has_begun(self, caller: Caller, state: dict[str, Any]) -> bool:
        """Return whether the client must have a session on this run, though no start of it came."""
        if caller["client"] is None:
            return False
        if self._is_finished(state):
            return subject.was_seen_at_work(self.seen, state)
        return self.call.hook == "PreCompact" or self.seen is not None

    def _may_replace_end(self, view: View, caller: Caller, session_id: str | None) -> bool:
        """Return whether a session's end on a finished run was only inferred, or its client went on after a PreCompact.

        No start is recorded on such a run, so the PreCompact must be the last delivery of it that was seen here.
        """
        if view.has_inferred_end(session_id or "", caller["client"]):
            return True
        end = sessions.uncompacted_end(view.log, caller["client"], caller["writer"], caller["pid"])
        if end is None or end["event"].get("session_id") != session_id:
            return False
        return subject.is_last_heard(end, self.seen)

    def _pass_over(self) -> list[Draft]:
        """Warn that a call changes nothing, as a client sends one that only lists its plugins; return no fact."""
        self.warn(f"{NO_SESSION} {self.run.run_id}: nothing is recorded")
        return []

    def _compaction(self, view: View, caller: Caller) -> list[Draft]:
        session_id = None if self.is_subagents else subject.find_session(view, caller, self.seen)
        if session_id is None and not self.is_subagents:
            return self._pass_over()
        event: CompactionCompleted = {
            "type": "compaction_completed",
            "trigger": self.call.text("trigger"),
            "agent_id": self.call.text("agent_id"),
            "phase": caller["progress"]["phase"],
            "step": caller["progress"]["step"],
            "delivery": self.delivery(),
        }
        if session_id is not None:
            event["session_id"] = session_id
        if self.recorded_summary():
            event["summary"] = self.recorded_summary()
        return [{"event": event, "client": caller["client"]}]

    def _masked_summary(self) -> str:
        said = self.call.compact_summary if self.call.hook == "PostCompact" else ""
        if not said or self.is_subagents:
            return ""
        from faber_ledger.recording.secrets.mask import clean_summary  # most calls bring no summary

        return clean_summary(said)

    def to_spooled(self, loads: list[Draft], *, verbatim: bool = False, is_late: bool = False) -> Spooled:
        """Return the call as the spool keeps it; `verbatim` without reading the state or masking a summary for it.

        If it `is_late`, no large state is read.
        """
        from faber_ledger.recording.spooled import LONGEST_DELIVERY, VARIABLES, VERSION

        if self.progress is None and not verbatim:
            try:
                if is_late and os.stat(self.run.state_path).st_size > READ_WHEN_LATE:
                    raise OSError
                self.remember_state(state_file.look_at_state(self.run).value)
            except (LedgerError, OSError):
                pass  # then the state counts that is there when the call is recorded
        summary = "" if verbatim else self.recorded_summary()
        is_kept = bool(self._summary) and self._recorded_summary == ""  # the settings may change until it is recorded
        spooled: Spooled = {
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
            "delivery": self.call.shortened(0 if is_kept else LONGEST_DELIVERY, summary),
            "digest": self.digest,
            "session_id": self.session_id,
            "environment": self.environment,
            "progress": self.progress,
            "status": self.status,
            "loads": loads,
        }
        if self.checkout is not None:
            spooled["checkout"] = self.checkout
        return spooled
