"""What each of the client's four hooks does: gather before the lock, record under it, answer after it."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.lock import RunLock
from faber_ledger.recording.call import Answer
from faber_ledger.recording.incoming import IncomingCall
from faber_ledger.recording.recording import Recording
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.active import claim_if_active
from faber_ledger.runs.clone import is_empty
from faber_ledger.runs.git import other_roots
from faber_ledger.runs.progress import current_phase, current_step
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.reload import Reload
    from faber_ledger.files.folders import TrackedFolder
    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.events import Draft
    from faber_ledger.ledger.log import Log
    from faber_ledger.recording.call import Call
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.clients import SeenClient
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.settings import Settings


# A hook must not be noticed, and the client kills SessionEnd after 1.5 seconds: a hook that waits longer is spooled.
WAIT_SECONDS = 3.0
WAIT_SECONDS_AT_THE_END = 1.0
NEWEST_SESSIONS = 8  # of a run, that are asked where they ran
REFUSALS = (LedgerError, OSError, sqlite3.Error)


class Hook:
    """One hook call about `run`, the active one of the project in `folder`; `warn` prints a message and logs it.

    `seen` is what this clone knew of the client before this call.
    """

    def __init__(
        self,
        call: Call,
        run: Run,
        active: ActiveRun,
        at: float,
        warn: Callable[[str], None],
        folder: TrackedFolder,
        seen: SeenClient | None = None,
    ) -> None:
        self.call = call
        self.run = run
        self.at = at
        self.warn = warn
        self._active = active
        self._folder = folder
        self._was_there = run.has_files()
        self._earlier: JsonText | None = None  # the state as it was read before the lock
        self._elsewhere: str | None = None  # the packet's sentence about other clones
        self._incoming = IncomingCall(call, run, at, warn, seen)

    def answer(self) -> Answer | None:
        """Record the call and return what to print: a start's packet, or what a compaction's summary should keep.

        A call that is refused, or that a bug of ours stops, is spooled; without a run, the error is raised.
        """
        state: dict[str, Any] | None = None
        try:
            if self.call.hook == "SessionStart" and not self._incoming.is_subagents:
                return self._start()
            if is_empty(self.run.ledger_path) and self._incoming.came_after_the_end():
                self._leave_run()
                return None
            self._incoming.summary()  # masking takes its time: before the lock
            self._incoming.remember_end()
            if self._is_on_network():
                self._spool_first([])
            with self._recording(may_stay_in_mirror=True) as recording:
                is_repeated = self._append(recording, [])
                state = recording.state
            if self._incoming.has_moved:
                claim_if_active(self.run.root, self._active, self.run.run_id, self.warn)
                self._follow_client()
            elif not self._incoming.is_subagents:
                self._leave_run()
        except Exception as error:  # noqa: BLE001 -- a bug of ours must not lose a delivery
            self._spool(error, [])
            is_repeated = False
        if self.call.hook == "PreCompact" and not is_repeated and not self._incoming.is_subagents:
            return self._hint(state)
        return None

    # SessionStart

    def _start(self) -> Answer | None:
        """Gather the run's context, record the session's start with it, and return the packet."""
        from faber_ledger.recording.environment import EnvironmentQuery  # other hooks rarely need it

        environment = EnvironmentQuery(self.run.root, self.call.text("cwd"))
        try:
            state, problem = self._read_state()
        except ForeignState as error:
            return Answer(self._packet_without_state(error))
        if state.get("status") in progress.FINISHED:
            self.warn(f"No active workflow found, skipping prime-context: {self.run.run_id} is {state['status']}")
            if self._earlier is not None:
                state_write.refresh_copy(self.run, self._earlier, self.warn)
            self._leave_run()
            return None
        if has_sessions_elsewhere(state, self.run.root):
            self._elsewhere = self._describe_elsewhere()
        gathered = self._gather(state, is_state_read=problem is None)
        if self._follow_rename():
            gathered = self._gather(state, is_state_read=problem is None)
        # Without any state, the only problem that was gathered is that there is none.
        found = gathered.problems() if state or not problem else []
        problems = [*([problem] if problem else []), *found]
        for text in found:  # the state's own problem is reported when the call is recorded
            self.warn(" / ".join([line for line in text.split("\n")[:5] if line]))
        settings = self._incoming.settings()
        self._incoming.remember_start(environment.read(), state)

        packet: str | None = None
        loads: list[Draft] = []
        try:
            if self._is_on_network():
                packet, loads = self._pack(gathered, problems, settings, None)
                self._spool_first(loads)
            with self._recording() as recording:
                packet, loads = self._pack(gathered, problems, settings, recording.view.log)
                is_repeated = self._append(recording, loads)
        except Exception as error:  # noqa: BLE001 -- the agent gets its context all the same
            if packet is None:
                packet, loads = self._pack(gathered, problems, settings, None)
            is_kept = self._spool(error, loads)
        else:
            is_kept = True
            if is_repeated:
                return None
            claim_if_active(self.run.root, self._active, self.run.run_id, self.warn)
        self._follow_client()
        self._export_variables(state)
        if not self.run.is_kept:
            return Answer(packet)
        if not is_kept:
            return Answer(packet.removesuffix(self._last_line()))  # which would say where it is recorded
        from faber_ledger.runs.kept import not_in_tree

        return Answer(packet, f"faber-ledger: {not_in_tree(self.run)}")

    def _packet_without_state(self, error: ForeignState) -> str:
        """Return a packet that says only that `state.json` is another run's: none of it is shown or recorded."""
        from faber_ledger.context import messages
        from faber_ledger.context.packet import pack

        self.warn(f"{error.message} - {error.hint}")
        problem = messages.state_broken(self.run, error, state_file.choose_backup(self.run))
        return pack(self.run.run_id, {}, [], [problem], budget=self._incoming.settings().packet_budget)[0]

    def _gather(self, state: dict[str, Any], *, is_state_read: bool) -> Reload:
        """Load the run's artifacts; none if a bug of ours stops it, since the position can be shown all the same."""
        from faber_ledger.context import reload  # no other hook loads artifacts

        is_compacted = self.call.text("source") == "compact"
        try:
            return reload.gather_for_hook(
                self.run, state, compacted=is_compacted, at=self.at, is_state_read=is_state_read
            )
        except Exception as error:  # noqa: BLE001 -- the agent gets its position all the same
            return reload.Reload.failed_to_gather(self.run.root, state, error)

    def _pack(
        self, gathered: Reload, problems: list[str], settings: Settings, log: Log | None
    ) -> tuple[str, list[Draft]]:
        """Return the packet, with notes and a summary if there is a log, and the facts of what is in it."""
        last_line = self._last_line()
        packet, loads = gathered.pack(
            self.run,
            log,
            problems,
            session_id=self._incoming.session_id,
            client=self.call.client,
            source=self.call.text("source") or "unknown",
            budget=settings.packet_budget - len(last_line),
            has_summaries_in_git=settings.summaries,
            elsewhere=self._elsewhere,
        )
        return packet + last_line, loads

    def _describe_elsewhere(self) -> str | None:
        from faber_ledger.context.elsewhere import describe_elsewhere  # only where another clone has recorded

        try:
            return describe_elsewhere(self.run)
        except (LedgerError, OSError, sqlite3.Error):
            return None  # the start itself reports what is wrong with the run

    def _last_line(self) -> str:
        """Return the packet's last line if the work tree lacks the run, else nothing."""
        if not self.run.is_kept:
            return ""
        from faber_ledger.runs.kept import not_in_tree

        return f"\n{not_in_tree(self.run)}\n"

    def _export_variables(self, state: dict[str, Any]) -> None:
        path = os.environ.get("CLAUDE_ENV_FILE")
        if not path:
            return
        from faber_ledger.hooks.session_env import export_run

        try:
            export_run(path, self.run.run_id, state.get("work_id"))
        except (OSError, ValueError) as error:
            self.warn(f"CLAUDE_ENV_FILE: {error}")

    def _read_state(self) -> tuple[dict[str, Any], str | None]:
        """Return the run's state and what is wrong with it; the newest backup replaces an unreadable one."""
        run = self.run
        try:
            self._earlier = state_file.read_state(run)
            return self._earlier.value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, ForeignState):
                raise
            if not run.has_files():
                if self._follow_rename():
                    return self._read_state()
                raise
            from faber_ledger.context import messages

            backup = state_file.read_backup(run)
            return (backup[1].value if backup else {}), messages.state_broken(run, error, state_file.choose_backup(run))

    # PreCompact

    def _hint(self, state: dict[str, Any] | None) -> Answer | None:
        """Return what a compaction's summary should keep; without a recording's `state` it is read."""
        if state is None:
            state, _ = self._read_state()
        if state.get("status") in progress.FINISHED or not self._incoming.settings().precompact_hint:
            return None
        return Answer(what_to_keep(self.run, state))

    # All four

    def _follow_client(self) -> None:
        """Note that the client's newest session is on this run, and end the one that it has left on another."""
        from faber_ledger.recording.leaving import follow_client  # not where a client stays in its session

        follow_client(
            self.run,
            self.call.client,
            self.call.pid,
            self._incoming.seen,
            at=self.at,
            warn=self.warn,
            seconds=WAIT_SECONDS_AT_THE_END,
            comes_again=True,
        )

    def _leave_run(self) -> None:
        """End the session that the client has left on another run, where this call opens and ends none on this one."""
        seen = self._incoming.seen
        if seen is not None and seen.run_id not in (None, self.run.run_id):
            from faber_ledger.recording.leaving import leave_run  # only where a client has moved to another run

            leave_run(self.run.root, seen, self.call.pid, self.at, self.warn, WAIT_SECONDS_AT_THE_END)

    def _follow_rename(self) -> bool:
        """Switch to the project's new place if it was renamed under this hook; return whether it was."""
        root = self._folder.current_path()
        if root is None or root == self.run.root:
            return False
        found = find_run(root, self.run.run_id)
        if not found.is_recorded():
            from faber_ledger.runs.kept import run_here

            found = run_here(root, self.run.run_id)
        self.run = self._incoming.run = found
        return True

    def _recording(self, *, may_stay_in_mirror: bool = False) -> Recording:
        seconds = WAIT_SECONDS_AT_THE_END if self.call.hook == "SessionEnd" else WAIT_SECONDS
        lock = RunLock(self.run.lock_path, seconds, gives_up=True)
        writer = self._incoming.writer
        return Recording(
            self.run,
            at=self.at,
            writer=writer,
            warn=self.warn,
            tolerant=True,
            lock=lock,
            earlier=self._earlier,
            may_stay_in_mirror=may_stay_in_mirror,
        )

    def _append(self, recording: Recording, loads: list[Draft]) -> bool:
        """Append what the call means, a start with its `loads`; return whether it repeats a recorded call."""
        if recording.problem is not None:
            self.warn(f"{recording.problem} - {recording.problem.hint}")
        is_repeated, has_added = self._incoming.record_in(recording.view, recording.state, recording.add, loads)
        if has_added:
            try:
                recording.commit()
            except StateNotWritten as error:
                self.warn(f"{error} - what happened is in the ledger: {error.hint}")
        return is_repeated

    def _is_on_network(self) -> bool:
        if not self._was_there:
            return False
        device = os.stat(self.run.directory).st_dev
        if os.major(device) != 0:  # a disk of this machine
            return False
        from faber_ledger.files.folders import network_file_system

        return network_file_system(device) is not None

    def _spool_first(self, loads: list[Draft]) -> None:
        """Spool the call before asking for a lock that a network file system may never grant."""
        from faber_ledger.recording import spool

        try:
            spool.put(self.run, self._incoming.to_spooled(loads))
        except (OSError, spool.Full) as refusal:
            self.warn(f"the delivery cannot be spooled: {refusal}")

    def _spool(self, error: Exception, loads: list[Draft]) -> bool:
        """Keep a refused call until the next append; return whether it is kept.

        Raises `error` if there is no run to record it on.
        """
        self._follow_rename()
        if isinstance(error, ForeignState) or not (self._was_there or self.run.has_files()):
            raise error
        hint = f" - {error.hint}" if isinstance(error, LedgerError) and error.hint else ""
        reason = f"not recorded: {error}{hint}"
        if not isinstance(error, REFUSALS):
            reason = f"not recorded, because of a bug in faber-ledger, please report it: {error!r}"
        from faber_ledger.recording import spool

        try:
            spooled = self._incoming.to_spooled(loads)
        except Exception:  # noqa: BLE001 -- the same bug, which is reported already
            spooled = self._incoming.to_spooled(loads, verbatim=True)
        try:
            path = spool.put(self.run, spooled)
        except (OSError, spool.Full) as refusal:
            self.warn(f"{reason}; and it cannot be spooled: {refusal}")
            return False
        self.warn(f"{reason}; it waits in {path}, and the next append records it")
        return True


def has_sessions_elsewhere(state: dict[str, Any], root: str) -> bool:
    """Return whether one of the newest sessions ran on another machine, or outside this clone's work trees.

    It looks at the state alone, since every start asks.
    """
    sessions = state.get("sessions")
    history = sessions.get("session_history") if isinstance(sessions, dict) else None
    if not isinstance(history, list) or not history:
        return False
    from faber_ledger.recording.environment import hostname

    here = hostname()
    for entry in history[-NEWEST_SESSIONS:]:
        environment = entry.get("environment") if isinstance(entry, dict) else None
        if not isinstance(environment, dict):
            continue
        machine, cwd = environment.get("hostname"), environment.get("cwd")
        if isinstance(machine, str) and machine != here:
            return True
        if isinstance(cwd, str) and not _is_in(cwd, root) and not any([_is_in(cwd, one) for one in other_roots(root)]):
            return True
    return False


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def what_to_keep(run: Run, state: dict[str, Any]) -> str:
    """Return three lines that name the ids, paths and decisions without which the work cannot go on."""
    artifacts = state.get("artifacts")
    known = artifacts if isinstance(artifacts, dict) else {}
    position = ":".join([part for part in (current_phase(state), current_step(state)) if part])
    ids = [("FABER run", run.run_id), ("work item", state.get("work_id")), ("phase and step", position)]
    paths = [
        ("state", run.shown(run.state_path)),
        ("specification", str(known.get("spec_path") or "").replace("{project_root}/", "")),
        ("branch", known.get("branch_name") or known.get("branch") or state.get("branch")),
    ]
    return (
        f"Keep in the summary, word for word: {_listed(ids)}.\n"
        f"Keep these names: {_listed(paths)}; and the paths of the files that were changed or are about to be.\n"
        "Keep each decision with its reason, what the user asked for, what failed, and the next step."
    )


def _listed(named: list[tuple[str, Any]]) -> str:
    from faber_ledger.files.text import quoted  # only PreCompact needs it

    return ", ".join([f"{name} {quoted(value)}" for name, value in named if value not in (None, "")])
