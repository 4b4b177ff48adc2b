"""What each of the client's four hooks does: gather before the lock, record under it, answer after it."""

from __future__ import annotations

import os

from faber_ledger.ledger.deadline import OutOfTime, reserve_time
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.recording.call import Answer
from faber_ledger.recording.incoming import IncomingCall
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.subject import is_first_answer
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.active_file import note_use, read_used_runs
from faber_ledger.runs.clients import note_session
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.progress import current_phase, current_step
from faber_ledger.runs.run import find_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.reload import Reload
    from faber_ledger.files.folders import TrackedFolder
    from faber_ledger.files.json_text import JsonText
    from faber_ledger.hooks.watch import Watch
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
SECONDS_TO_RECORD = 2.0  # of a start's time, which its artifacts leave
NOT_LEFT = "what the client has left open on another run was not ended"
LONGEST_WARNING = 240  # of a start's line, in which the id of a run may be long
REFUSALS = (LedgerError, OSError, sqlite3.Error, OutOfTime)


class Hook:
    """One hook call about `run` of the project in `folder`; `warn` prints a message and logs it.

    `active` is the active run, None if the client's earlier session says the run.

    Whatever may take long runs in the context of `watch`. `seen` is what this clone knew of the client before.
    """

    def __init__(
        self,
        call: Call,
        run: Run,
        active: ActiveRun | None,
        at: float,
        warn: Callable[[str], None],
        folder: TrackedFolder,
        watch: Watch,
        seen: SeenClient | None = None,
    ) -> None:
        self.call = call
        self.run = run
        self.at = at
        self._log = warn
        self._warnings: list[str] = []  # what a start tells the user is wrong
        self._active = active
        self._folder = folder
        self._watch = watch
        self._spooled: str | None = None  # the file of a delivery that was spooled before it is recorded
        self._was_there = run.has_files()
        self._earlier: JsonText | None = None  # the state as it was read before the lock
        self._elsewhere: Elsewhere | None = None  # what the packet says about other clones
        self._incoming = IncomingCall(call, run, at, self.warn, seen)

    def warn(self, message: str) -> None:
        """Print and log a message, once."""
        if message in self._warnings:
            return
        self._warnings.append(message)
        self._log(message)

    def answer(self) -> Answer | None:
        """Record the call and return what to print: a start's packet, or what a compaction's summary should keep.

        A call that is refused, or that a bug of ours stops, is spooled; without a run, the error is raised.
        """
        state: dict[str, Any] | None = None
        try:
            if self.call.hook == "SessionStart" and not self._incoming.is_subagents:
                return self._start()
            if self.call.hook == "SessionEnd":
                from faber_ledger.recording import spool  # noqa: F401 -- an alarm may ring in the midst of an import

                self._watch.keep = self._spool_first
            with self._watch:
                if lacks_ledger(self.run) and self._incoming.came_after_the_end():
                    self._leave_run()
                    return None
                self._incoming.summary()  # masking takes its time: before the lock
                self._incoming.remember_end()
                if self._is_on_network():
                    self._spool_first()
                with self._recording() as recording:
                    state = recording.state
                    is_repeated = self._append(recording, [])
                self._watch.keep = None
                self._remove_spooled()
            if self._incoming.has_moved:
                note_use(self.run.root, self.run.run_id)
                self._leave_run(is_followed=True)
            elif not self._incoming.is_subagents:
                self._leave_run()
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- a bug of ours must not lose a delivery
            self._spool(error, [])
            is_late = isinstance(error, OutOfTime) and state is None  # a hint would have to read it now
            may_hint = not is_late and self.call.hook == "PreCompact"
            is_repeated = not (may_hint and is_first_answer(self.call, self.run.root, self.at))
        if self.call.hook == "PreCompact" and not is_repeated and not self._incoming.is_subagents:
            return self._hint(state)
        return None

    # SessionStart

    def _start(self) -> Answer | None:
        """Gather the run's context, record the session's start with it, and return the packet."""
        from faber_ledger.recording.environment import (  # other hooks rarely need it
            EnvironmentQuery,
            sessions_elsewhere,
        )

        environment = EnvironmentQuery(self.run.root, self.call.text("cwd"))
        try:
            with self._watch:
                state, problem = self._read_state()
        except ForeignState as error:
            return Answer(self._packet_without_state(error), self._line({}))
        except OutOfTime as error:
            state, problem = {}, f"⚠️ WARNING: state.json, and what it names, was not read, since {error}"
        if state.get("status") in progress.FINISHED:
            self.warn(f"No active workflow found, skipping prime-context: {self.run.run_id} is {state['status']}")
            if self._earlier is not None:
                state_write.refresh_copy(self.run, self._earlier, self.warn)
            self._leave_run()
            return None
        elsewhere = sessions_elsewhere(state, self.run.root)
        if any(elsewhere):
            self._elsewhere = self._look_elsewhere(is_last_there=elsewhere[0])
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
            with self._watch:
                if self._is_on_network():
                    packet, loads = self._pack(gathered, problems, settings, None)
                    self._spool_first(loads)
                with self._recording() as recording:
                    recording.say_notices()
                    packet, loads = self._pack(gathered, problems, settings, recording.view.log)
                    is_repeated = self._append(recording, loads)
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- the agent gets its context all the same
            if packet is None:
                if isinstance(error, OutOfTime):
                    problems.append(f"⚠️ WARNING: notes and summaries were not read, since {error}")
                packet, loads = self._pack(gathered, problems, settings, None)
            is_kept = self._spool(error, loads)
            if is_kept and not is_first_answer(self.call, self.run.root, self.at):
                return None
        else:
            is_kept = True
            if is_repeated:
                return None
            note_use(self.run.root, self.run.run_id)
            self._name_run()
        self._leave_run(is_followed=True)
        self._export_variables(state)
        line = self._line(state)
        if not self.run.is_kept:
            return Answer(packet, line)
        if not is_kept:
            before, _, end = packet.rpartition(self._last_line())  # which would say where it is recorded
            return Answer(before + end, line)
        from faber_ledger.runs.kept import not_in_tree

        return Answer(packet, f"{line}; {not_in_tree(self.run)}")

    def _line(self, state: dict[str, Any]) -> str:
        """Return the line that tells the user which run it is, where it stands, and the worst of what is wrong."""
        from faber_ledger.files.text import one_line

        position = [("run", self.run.run_id), ("phase", current_phase(state)), ("step", current_step(state))]
        line = f"faber-ledger: {', '.join([f'{name} {one_line(value, 80)}' for name, value in position if value])}"
        if not self._warnings:
            return line
        worst = min(self._warnings, key=lambda text: text.startswith(("⚠️", "Cannot evaluate condition")))
        more = len(self._warnings) - 1
        others = f" (and {more} more)" if more else ""
        worst = worst.replace(os.path.join(self.run.root, ""), "")
        return f"{line}; {one_line(worst, LONGEST_WARNING)}{others}: run `faber-ledger doctor`"

    def _packet_without_state(self, error: ForeignState) -> str:
        """Return a packet that says only that `state.json` is another run's: none of it is shown or recorded."""
        from faber_ledger.context import messages
        from faber_ledger.context.packet import pack
        from faber_ledger.context.position import render_position

        self.warn(f"{error.message} - {error.hint}")
        problem = messages.state_broken(self.run, error, state_file.choose_backup(self.run))
        budget = self._incoming.settings().packet_budget
        return pack(render_position(self.run, {}), [], [problem], budget=budget)[0]

    def _gather(self, state: dict[str, Any], *, is_state_read: bool) -> Reload:
        """Load the run's artifacts; none if a bug of ours stops it, since the position can be shown all the same."""
        from faber_ledger.context import reload  # no other hook loads artifacts

        is_compacted = self.call.text("source") == "compact"
        reserve_time(SECONDS_TO_RECORD)
        try:
            with self._watch:
                return reload.gather_for_hook(
                    self.run, state, compacted=is_compacted, at=self.at, is_state_read=is_state_read
                )
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- the agent gets its position all the same
            return reload.Reload.failed_to_gather(self.run.root, state, error)
        finally:
            reserve_time(-SECONDS_TO_RECORD)

    def _pack(
        self, gathered: Reload, problems: list[str], settings: Settings, log: Log | None
    ) -> tuple[str, list[Draft]]:
        """Return the packet, with notes and a summary if there is a log, and the facts of what is in it."""
        return gathered.pack(
            self.run,
            log,
            problems,
            session_id=self._incoming.session_id,
            client=self.call.client,
            source=self.call.text("source") or "unknown",
            budget=settings.packet_budget,
            has_summaries_in_git=settings.summaries,
            elsewhere=self._elsewhere,
            last_line=self._last_line(),
        )

    def _look_elsewhere(self, *, is_last_there: bool) -> Elsewhere | None:
        from faber_ledger.context.elsewhere import Elsewhere  # only where another clone has recorded

        try:
            with self._watch:
                return Elsewhere(self.run, is_last_there=is_last_there)
        except REFUSALS:
            return None  # the start itself reports what is wrong with the run

    def _last_line(self) -> str:
        """Return the packet's last line if the work tree lacks the run, or this clone has not taken it up."""
        if self.run.is_kept:
            from faber_ledger.runs.kept import not_in_tree

            return f"\n{not_in_tree(self.run)}\n"
        if self.run.run_id in read_used_runs(self.run.root).taken_up:
            return ""
        from faber_ledger.runs.copies import not_taken_up

        return f"\n{not_taken_up(self.run)}\n"

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
            self._earlier = state_file.look_at_state(run)
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

    def _name_run(self) -> None:
        """Name the run in the active file, if it was found by its branch or its author and this clone took it up."""
        active = self._active
        if active is None or active.is_named:
            return
        from faber_ledger.runs.active import name_if_none_is

        if self.run.run_id in read_used_runs(self.run.root).taken_up:
            name_if_none_is(self.run.root, active, self.run.run_id, self.warn)

    # PreCompact

    def _hint(self, state: dict[str, Any] | None) -> Answer | None:
        """Return what a compaction's summary should keep; without a recording's `state` it is read."""
        if state is None:
            state, _ = self._read_state()
        if state.get("status") in progress.FINISHED or not self._incoming.settings().precompact_hint:
            return None
        return Answer(what_to_keep(self.run, state))

    # All four

    def _leave_run(self, *, is_followed: bool = False) -> None:
        """End the session that the client has left on another run.

        If its newest session `is_followed` to this run, that is noted, unless the other run is locked: then the
        client's next delivery tries both again.
        """
        run, seen, client, pid = self.run, self._incoming.seen, self.call.client, self.call.pid
        if seen is None and self.call.text("source") in ("clear", "fork"):
            from faber_ledger.runs.clients import client_of_process  # the process has a new client id

            seen = client_of_process(run.root, pid, client)
        has_left = seen is not None and seen.run_id not in (None, run.run_id)
        if client is None or not (has_left or is_followed):
            return
        try:
            with self._watch:
                if has_left and seen is not None:
                    from faber_ledger.recording.leaving import leave_run  # only where a client has moved

                    is_followed &= leave_run(run.root, seen, pid, self.at, self.warn, WAIT_SECONDS_AT_THE_END)
                if is_followed:
                    note_session(run.root, client, pid, run.run_id, self.at)
        except OutOfTime as error:
            self.warn(f"{NOT_LEFT}: {error}")

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

    def _recording(self) -> Recording:
        seconds = WAIT_SECONDS_AT_THE_END if self.call.hook == "SessionEnd" else WAIT_SECONDS
        lock = lock_run(self.run, seconds)
        writer = self._incoming.writer
        return Recording(self.run, at=self.at, writer=writer, warn=self.warn, tolerant=True, lock=lock)

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
            except OutOfTime as error:
                if not recording.is_durable:
                    raise
                self.warn(f"state.json was not written, since {error} - what happened is in the ledger")
        return is_repeated

    def _is_on_network(self) -> bool:
        if not self._was_there:
            return False
        device = os.stat(self.run.directory).st_dev
        if os.major(device) != 0:  # a disk of this machine
            return False
        from faber_ledger.files.folders import network_file_system

        return network_file_system(device) is not None

    def _spool_first(self, loads: Iterable[Draft] = ()) -> None:
        """Spool the call before it is recorded: the lock of a network file system may never be granted."""
        from faber_ledger.recording import spool

        try:
            self._spooled = spool.put(self.run, self._incoming.to_spooled([*loads]))
        except (OSError, spool.Full) as refusal:
            self.warn(f"the delivery cannot be spooled: {refusal}")

    def _remove_spooled(self) -> None:
        if self._spooled is not None:
            from faber_ledger.recording import spool

            spool.remove(self._spooled)
            spool.tidy(self.run)

    def _spool(self, error: Exception | OutOfTime, loads: list[Draft]) -> bool:
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
            spooled = self._incoming.to_spooled(loads, is_late=isinstance(error, OutOfTime))
        except Exception:  # noqa: BLE001 -- the same bug, which is reported already
            spooled = self._incoming.to_spooled(loads, verbatim=True)
        try:
            path = self._spooled if os.path.isfile(self._spooled or "") else spool.put(self.run, spooled)
        except (OSError, spool.Full) as refusal:
            self.warn(f"{reason}; and it cannot be spooled: {refusal}")
            return False
        self.warn(f"{reason}; it waits in {path}, and the next append records it")
        return True


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
