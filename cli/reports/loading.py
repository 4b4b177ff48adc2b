"""A load of a run's critical artifacts: what is chosen, read, given and recorded (AGENT, Session Load; RELOAD)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from faber_ledger.context import reload, selection
from faber_ledger.context.artifact import build_surroundings
from faber_ledger.context.elsewhere import Elsewhere
from faber_ledger.context.position import recorded_branch
from faber_ledger.context.reload import Reload
from faber_ledger.ledger import clock
from faber_ledger.ledger.errors import LedgerError, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import blocks_of, fold, newest_open, open_sessions
from faber_ledger.recording import sessions
from faber_ledger.recording.call import checkout_after, checkout_at_start, read_environment
from faber_ledger.recording.leaving import add_cost_of_killed, follow_client
from faber_ledger.recording.left_facts import record_or_leave
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.recording.sessions import sessions_elsewhere
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import Run
from faber_ledger.runs.seen import seen_client
from faber_ledger.runs.settings import Settings

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.context.selection import Held
    from faber_ledger.context.workflow import Artifact
    from faber_ledger.ledger.events import Draft
    from faber_ledger.runs.settings import UserConfig


class Loading:
    """One session-load of one run; `is_forced` loads what the session has already, too.

    If `is_minimal`, only the run's state is loaded. The artifacts that `hint` names come first. `selected` are the
    artifacts to load, `others` the ids of those that trigger, phase or condition leave out, and `problems` are the
    conditions that are not understood.
    """

    def __init__(
        self,
        run: Run,
        config: UserConfig,
        trigger: str,
        requested: list[str] | None,
        at: float,
        warn: Callable[[str], None],
        *,
        is_forced: bool,
        is_minimal: bool,
        hint: str | None,
    ) -> None:
        """Read the run's state, and choose its artifacts; raises LedgerError."""
        self.run = run
        self.config = config
        self.trigger = trigger
        self.at = at
        self.warn = warn
        self.is_forced = is_forced
        self._known = state_write.KnownState(state_file.read_state(run))
        self.state = self._known.value
        state_file.check_required(run, self.state)
        state_file.check_status(run, self.state)
        self.state["workflow_id"] = state_file.workflow_id_of(run, self.state)
        self.workflow = selection.workflow_of(run, self.state, config["plugin_roots"])
        self.hint = hint or _noted_hint(self.state)
        self.is_minimal = is_minimal
        self.problems: list[str] = []
        self.selected, self.others = self._select(requested)
        self.blocks = blocks_of(self.state)
        self.in_context: dict[str, Held] = {}  # what the blocks have of the newest session's loads
        self.session_id: str | None = None  # that the load belongs to
        self.writer = writer_of(run.root)
        self.caller = sessions.caller_of(os.environ, self.state, at, self.writer, read_environment(run.root))

    def _select(self, requested: list[str] | None) -> tuple[list[Artifact], list[str]]:
        if self.is_minimal:
            selected = selection.only_state(self.workflow)
        else:
            selected = selection.select(self.workflow, self.state, [self.trigger], requested, self.problems.append)
        every = dict.fromkeys(one["id"] for one in selection.every_artifact(self.workflow))
        if requested is not None and not selected:
            raise LedgerError(
                "nothing to load: none of the named artifacts is selected",
                hint=f"the workflow's artifacts: {', '.join(every) or 'none'}",
            )
        chosen = {one["id"] for one in selected}
        return selected, [name for name in every if name not in chosen] if requested is None else []

    def preview(self, budget: int) -> tuple[Reload, str]:
        """Load without recording, by the rules of the real load, and return the contents too; raises LedgerError."""
        result = self.read(dry=True)
        try:
            with read_log(self.run) as log:
                return result, self._fit(result, log, budget, look_elsewhere(self.run, self.state))
        except (LedgerError, OSError, sqlite3.Error):
            return result, self._fit(result, None, budget, look_elsewhere(self.run, self.state))

    def record(self, result: Reload, budget: int, log: Callable[[str], None]) -> tuple[str, Exception | None]:
        """Record a load and project it, with a line to `log` for what is done.

        Return its contents, and the error that kept it from being recorded. Whatever takes long, above all the user's
        programs, ran before the run is locked: hooks wait for the lock.
        """
        elsewhere = look_elsewhere(self.run, self.state)
        packet = ""
        try:
            with record_or_leave(self.run, at=self.at, writer=self.writer, warn=self.warn) as recording:
                view = recording.view
                session_id, opening = self._session(view)
                is_incomplete = not opening and sessions.lacks_environment(view, session_id)
                missing = self.caller["environment"] if is_incomplete else None
                packet = self._fit(result, view.log, budget, elsewhere)
                loads = result.drafts(session_id, self.caller["client"], missing)
                self.session_id = session_id
                _mask_errors(loads)
                add_cost_of_killed(recording, open_sessions(view.blocks) if opening else [])
                recording.append([*opening, *loads])
                self.blocks = recording.blocks
        except (LedgerError, OSError, sqlite3.Error) as error:  # the agent gets its context all the same
            if not isinstance(error, StateNotWritten):
                self.session_id = None
            return packet or self._fit(result, None, budget, elsewhere), error
        client = self.caller["client"]
        seen = seen_client(self.run.root, client)
        follow_client(self.run, client, self.caller["pid"], seen, at=self.at, warn=self.warn, is_new=bool(opening))
        if opening:
            log(f"✓ New session detected: {session_id}")
            if self.state["status"] in FINISHED:
                save = f"`faber-ledger session-save --run-id {self.run.run_id}`"
                log(f"ℹ The run is {self.state['status']}: {save} ends this session")
        return packet, None

    def _fit(self, result: Reload, log: Log | None, budget: int, elsewhere: Elsewhere) -> str:
        """Return the contents, and note in `result` how each artifact is given; without a `log`, without notes."""
        return result.pack(
            self.run,
            log,
            result.problems(),
            client=self.caller["client"],
            source="session_load",
            budget=budget,
            has_summaries_in_git=Settings(self.run, os.environ).summaries,
            elsewhere=elsewhere,
            branch=recorded_branch(self.run, self.state, log) if log is not None else None,
        )

    def surroundings(self) -> Surroundings:
        """Return what artifacts are resolved against, with the programs that may run for slash commands."""
        return build_surroundings(self.run, self.state, self.config["plugin_roots"], self.config["commands"])

    def read(self, *, dry: bool, is_recorded: bool = False) -> Reload:
        """Load the artifacts by what state and log say now, without taking the run's lock; raises LedgerError."""
        try:
            if lacks_ledger(self.run):
                return self._gather(None, dry=dry)
            with read_log(self.run, self.warn) as log:
                if not self._known.shows(log):
                    self.blocks = fold(log.stream())
                return self._gather(sessions.View(log, self.blocks), dry=dry)
        except (LedgerError, OSError, sqlite3.Error):
            if not is_recorded:
                raise
            self.is_forced = True  # what was given is unknown; what is wrong stops the recording alone
            return self._gather(None, dry=dry)

    def _gather(self, view: sessions.View | None, *, dry: bool) -> Reload:
        self.session_id = self._session_before(view)
        self.in_context = selection.loads_noted(self.blocks)
        result = reload.gather(
            self.selected,
            self.surroundings(),
            triggers=[self.trigger],
            at=self.at,
            held=self._held(view),
            dry_run=dry,
            workflow=self.workflow,
        )
        result.hint = self.hint
        return result

    def _held(self, view: sessions.View | None) -> dict[str, Held]:
        """Return what the session that the load goes on with was given whole, and still has."""
        is_new = self.session_id is None or self._is_start or self.trigger == "compaction_detected"
        if self.is_forced or is_new or self.session_id not in open_sessions(self.blocks):
            return {}  # one that has ended may have been compacted
        return self.in_context if view is None else selection.loads_held(view.log, str(self.session_id))

    def _session(self, view: sessions.View) -> tuple[str, list[Draft]]:
        """Return the session that the load belongs to, and the facts that open it if it is new."""
        found = sessions.session_to_load_into(view, self.caller, is_start=self._is_start)
        if found is not None:
            return found, []
        session_id = clock.session_id(self.at, os.urandom(6))
        opening = sessions.open_session(view, self.caller, session_id, "session_load")
        return session_id, [*opening, *checkout_after(opening[-1], checkout_at_start(self.run))]

    def _session_before(self, view: sessions.View | None) -> str | None:
        """Return the session that the load goes on with, which may have something in context; None if it opens one."""
        if view is not None:
            return sessions.session_to_load_into(view, self.caller, is_start=self._is_start)
        current = newest_open(self.blocks)
        goes_on = current is not None and not self._is_start
        return current if goes_on and sessions.may_be_of_this_machine(self.blocks, str(current)) else None

    @property
    def _is_start(self) -> bool:
        return self.trigger == "session_start"


def look_elsewhere(run: Run, state: dict[str, Any]) -> Elsewhere:
    """Ask git what happened to a run in other clones."""
    return Elsewhere(run, state, is_last_there=sessions_elsewhere(state, run.root)[:1] == [True])


def _mask_errors(loads: list[Draft]) -> None:
    """Mask the secrets in the errors of what failed to load: a user's program may have printed one."""
    for load in loads:
        if load["event"]["type"] == "artifact_failed":
            load["event"]["error"] = mask_text(load["event"]["error"])


def _noted_hint(state: dict[str, Any]) -> str:
    """Return what FABER's session-save noted for the next session to look at first; empty without it."""
    note = state.get("continuation_note")
    hint = note.get("context_hints") if isinstance(note, dict) else None
    return hint if isinstance(hint, str) else ""
