"""What the client's hooks do: gather before the lock, record under it, answer after it; a start prints the packet."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import OutOfTime, reserve_time
from faber_ledger.ledger.errors import ForeignState, LedgerError, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.projections.fold import blocks_of
from faber_ledger.recording import inbox
from faber_ledger.recording.call import Answer, checkout_at_end, export_run
from faber_ledger.recording.incoming import ENDS, arrival_of, changes_nothing
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.sessions import sessions_elsewhere
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.active import can_be_on_branch, name_if_none_is
from faber_ledger.runs.clone import is_set_up_unchecked, note_use, read_used_runs, writer_of
from faber_ledger.runs.git import branch_of, may_be_behind
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.publish import agreed_carry, carries_refs
from faber_ledger.runs.seen import client_of_process, note_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.reload import Reload
    from faber_ledger.files.json_text import JsonText
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Draft
    from faber_ledger.ledger.log import Log
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
FITTINGS = 4  # of a packet into what an agent takes
SECONDS_TO_RECORD = 2.0  # of a start's time, which its artifacts leave
NAME, LONGEST_LINE = "faber-ledger: ", 120


class Hook:
    """One hook call about `run`; `warn` prints a message and logs it.

    `active` is the active run, None if the client's earlier session says the run. `seen` is what this clone knew of the
    client before. `is_repeat` says that another hook has the same delivery.
    """

    is_repeat = False

    def __init__(
        self, call: Call, run: Run, active: ActiveRun | None, at: float, warn: Warn, seen: SeenClient | None
    ) -> None:
        self.call, self.run, self.at = call, run, at
        self._log = warn
        self._warnings: list[str] = []  # what a start tells the user is wrong
        self._active, self._seen = active, seen
        self._was_there = run.has_files()
        self._earlier: JsonText | None = None  # the state as it was read before the lock
        self._arrival: Arrival | None = None
        self._file: inbox.InboxFile | None = None
        self._is_recorded = False
        self._known_settings: Settings | None = None
        self._is_subagents = call.text("agent_id") is not None  # its sessions are not sessions of the run

    def warn(self, message: str) -> None:
        """Print and log a message, once."""
        if message not in self._warnings:
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
        if self.run.is_kept and self.is_elsewhere():
            return None
        state, _ = self._read_state()
        arrival = self._receive(state)
        if lacks_ledger(self.run) and changes_nothing(arrival, blocks_of(state)) and not inbox.has_files(self.run):
            self._leave_run()
            return None
        decided: Decided | None = None
        is_end = self.call.hook in ENDS and not self._is_subagents
        try:
            self._put(arrival)
            if is_end:
                arrival["checkout"] = checkout_at_end(self.run)
            with self._recording() as recording:
                if is_end:
                    self._count_usage(arrival, recording.view.log, state)
                decided = self._record(recording, arrival, [])
            if decided.has_moved:
                note_use(self.run.root, self.run.run_id)
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- a bug of ours must not lose a delivery
            self._report(error)
            if is_end and self._file is not None and not self._is_recorded:
                self._count_unrecorded(arrival, state)
        if not self._is_subagents:
            self._leave_run(is_followed=decided is not None and decided.has_moved)
        is_repeated = decided is not None and decided.is_repeated
        is_asked = self.call.hook == "PreCompact" and not is_repeated and not self._is_subagents
        if not is_asked or state.get("status") in progress.FINISHED or not self._settings().precompact_hint:
            return None
        return Answer(progress.what_to_keep(self.run.run_id, state, self.run.shown(self.run.state_path)))

    def is_elsewhere(self) -> bool:
        """Return whether the client may be on other work: it has no session on the run, nor the tree its branch."""
        root, seen = self.run.root, self._seen
        if seen is None and self.call.text("source") in ("clear", "fork"):
            seen = client_of_process(root, self.call.pid, self.call.client)
        is_known = branch_of(root) is None or (seen is not None and seen.run_id == self.run.run_id)
        return not is_known and not can_be_on_branch(root, self.run.run_id)

    def finish(self) -> None:
        """Remove the answered delivery from the inbox if what happened is in the log.

        Else add what an answered start has loaded to the delivery. After an end the ledgers are sent.
        """
        root = self.run.root
        if self.call.hook in ENDS and not self._is_subagents and (carries_refs(root) or agreed_carry[root]):
            from faber_ledger.runs.carry import start_sending

            start_sending(root)
        if self._file is None or self._arrival is None:
            return
        if self._is_recorded:
            self._file.remove()
        elif self._arrival["loads"] is not None or "usage" in self._arrival:
            self._file.replace(self._arrival)

    def _count_unrecorded(self, arrival: Arrival, state: dict[str, Any]) -> None:
        """Count for an end that waits in the inbox; what it cannot count the client's next end does."""
        try:
            with read_log(self.run) as log:
                self._count_usage(arrival, log, state)
        except REFUSALS:
            pass

    def _count_usage(self, arrival: Arrival, log: Log, state: dict[str, Any]) -> None:
        """Add to an end what the client's responses cost since the last one, by its transcript."""
        from faber_ledger.recording.usage import read_usage
        from faber_ledger.runs.settings import counts_usage  # neither at a start

        try:
            if not counts_usage(self._settings()):
                return
            transcript = self.call.transcript_to_count() or (self._seen.transcript if self._seen is not None else None)
            if transcript is None:
                return
            agent = self.call.agent or "claude"
            if found := read_usage(self.call.client, agent, transcript, log, state, self.at):
                arrival["usage"] = found
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- nothing else may be lost with it
            self.warn(f"tokens were not counted: {error!r}")

    def _count_killed(self, recording: Recording, facts: list[Draft]) -> None:
        """Count for a session that this start has ended, if its client's process is gone."""
        from faber_ledger.recording.leaving import add_cost_of_killed

        try:
            ends = [dict(fact["event"]) for fact in facts if fact["event"]["type"] == "session_ended"]
            add_cost_of_killed(recording, [end["session_id"] for end in ends])
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- nothing else may be lost with it
            self.warn(f"tokens were not counted: {error!r}")

    def _receive(self, state: dict[str, Any]) -> Arrival:
        is_summary = self.call.hook == "PostCompact" and self.call.compact_summary != ""
        has_summaries = self._settings().summaries if is_summary else True
        return arrival_of(self.call, self.run, self.at, state, self._seen, has_summaries_in_git=has_summaries)

    def _put(self, arrival: Arrival) -> None:
        self._arrival = arrival
        try:
            self._arrival, self._file = inbox.put(self.run, arrival)
        except OSError as error:
            self.warn(f"the delivery cannot be written into the inbox: {error}")

    def _read_state(self) -> tuple[dict[str, Any], str | None]:
        """Return the run's state and what is wrong with it; the newest backup replaces an unreadable one."""
        try:
            self._earlier = state_file.look_at_state(self.run)
            return self._earlier.value, None
        except (StateInvalid, StateMissing) as error:
            if isinstance(error, ForeignState) or not self.run.has_files():
                raise
            from faber_ledger.context.failures import state_broken

            backup = state_file.read_backup(self.run)
            problem = state_broken(self.run, error, state_file.choose_backup(self.run))
            return (backup[1].value if backup else {}), problem

    def _leave_run(self, *, is_followed: bool = False) -> None:
        """End the session that the client has left on another run.

        If its newest session `is_followed` to this run, that is noted, unless the other run is locked: then the
        client's next delivery tries both again.
        """
        run, seen, client, pid = self.run, self._seen, self.call.client, self.call.pid
        if seen is None and self.call.text("source") in ("clear", "fork"):
            seen = client_of_process(run.root, pid, client)  # the process has a new client id
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
            if decided.facts[0]["event"]["type"] == "session_ended" and arrival["hook"] == "SessionStart":
                self._count_killed(recording, decided.facts)
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


class Start(Hook):
    """A start of one of the client's own sessions."""

    _elsewhere: Elsewhere | None = None  # what the packet says about other clones
    _unsent: str | None = None  # by git refs, or to the server
    _lacks_artifact = False
    _own_branch: str | None = None  # the run's by its log, where the state does not decide

    def answer(self) -> Answer | None:
        """Gather the run's context, record the session's start with it, and return the packet."""
        try:
            state, problem = self._read_state()
        except ForeignState as error:
            return Answer(self._packet_without_state(error), self._line({}))
        if state.get("status") in progress.FINISHED:
            self.warn(f"No active workflow found, skipping prime-context: {self.run.run_id} is {state['status']}")
            if self._earlier is not None:
                state_write.refresh_copy(self.run, self._earlier, self.warn)
            self._leave_run()
            return None
        if self.run.is_kept and self.is_elsewhere():
            self._leave_run()
            return Answer(self._words_elsewhere(state), self._line(state))
        arrival = self._receive(state)
        self._put(arrival)
        elsewhere = sessions_elsewhere(state, self.run.root)
        if any(elsewhere) or may_be_behind(self.run.root) or (carries_refs(self.run.root) and self._may_lack(state)):
            self._elsewhere = self._look_elsewhere(state, is_last_there=elsewhere[:1] == [True])
        gathered = self._gather(state, is_state_read=problem is None)
        self._lacks_artifact = any([not failed["error"].is_state for failed in gathered.required_failed])
        # Without any state, the only problem that was gathered is that there is none.
        found = gathered.problems() if state or not problem else []
        problems = [*([problem] if problem else []), *found]
        for text in found:  # the state's own problem is reported when the call is recorded
            self.warn(" / ".join([line for line in text.split("\n")[:5] if line]))
        packet = self._record_start(gathered, problems, arrival)
        if packet is None:
            return None
        self._leave_run(is_followed=True)
        if path := os.environ.get("CLAUDE_ENV_FILE"):
            try:
                export_run(path, self.run.run_id, state.get("work_id"))
            except (OSError, ValueError) as error:
                self.warn(f"CLAUDE_ENV_FILE: {error}")
        return Answer(packet, self._line(state, is_broken=problem is not None))

    def _record_start(self, gathered: Reload, problems: list[str], arrival: Arrival) -> str | None:
        """Record the start with its loads, and return the packet; None if another hook has recorded it."""
        from faber_ledger.context.position import recorded_branch  # no other hook loads it

        packet: str | None = None
        try:
            with self._recording() as recording:
                log = recording.view.log
                recording.say_notices()
                if carries_refs(self.run.root) or agreed_carry[self.run.root]:
                    self._look_at_sending(log)
                if (checkout := arrival["checkout"]) is not None and checkout["branch"]:
                    self._own_branch = recorded_branch(self.run, gathered.state, log)
                packet, loads = self._pack(gathered, problems, arrival, log)
                is_repeated = self._record(recording, arrival, loads).is_repeated
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- the agent gets its context all the same
            if packet is None:
                if isinstance(error, OutOfTime):
                    problems.append(f"⚠️ WARNING: notes and summaries were not read, since {error}")
                packet, loads = self._pack(gathered, problems, arrival, None)
            if self._arrival is not None:
                self._arrival["loads"] = loads
            self._report(error)
        else:
            if is_repeated:
                self.is_repeat = True
                return None
            root, run_id, active = self.run.root, self.run.run_id, self._active
            note_use(root, run_id)
            if active is not None and not active.is_named and run_id in read_used_runs(root).taken_up:
                name_if_none_is(root, active, run_id, self.warn)
        return packet

    def _look_at_sending(self, log: Log) -> None:
        from faber_ledger.runs.carry import describe_unsynced

        self._unsent = describe_unsynced(self.run.root)
        if carries_refs(self.run.root):
            from faber_ledger.runs.sent import describe_unsent

            self._unsent = describe_unsent(self.run, log, is_start=True) or self._unsent

    def _line(self, state: dict[str, Any], *, is_broken: bool = False) -> str:
        """Return the line, of at most 120 characters for ids of up to 60; the state may be a backup's."""
        from faber_ledger.files.text import one_line

        is_away_from_run = self.run.is_kept and self._arrival is None
        run, warnings, here = self.run, self._warnings, self._arrival["checkout"] if self._arrival is not None else None
        branch, status = progress.branch_name(state) or self._own_branch, state.get("status")
        pending = progress.pending_approvals(state)
        failures = progress.count_errors(state, progress.place_of(progress.resume_point(state)))
        is_wrong = here is not None and isinstance(branch, str) and branch != here["branch"]
        is_away = may_be_merged = False
        if is_wrong:
            from faber_ledger.context.branch import has_branch, is_late  # most starts are on the run's branch

            is_away, may_be_merged = not has_branch(run.root, str(branch)), is_late(state)

        if is_new := is_set_up_unchecked(run.root):
            from faber_ledger.runs.set_up import line_to_set_up  # only the first start of a clone looks

            is_new = line_to_set_up(run.root) is not None
        found = {  # in at most 16 letters, the most urgent first; `status` and `doctor` say all of it
            "not recorded": not self._is_recorded and self._arrival is not None,
            "state unreadable": is_broken,
            "branch gone": is_away and may_be_merged,
            "branch not here": is_away,
            "off its branch": is_wrong,
            "not on this branch": is_away_from_run,
            "files not here": run.is_kept,
            "newer elsewhere": self._elsewhere is not None and self._elsewhere.is_newer_there,
            "bad active file": self._active is not None and self._active.problem,
            "waits for you": status == "awaiting_feedback" and not progress.answer_of(state),
            "approval refused": pending and progress.is_rejected(pending[-1]),
            "approval waits": pending,
            "failed too often": failures >= progress.MOST_FAILURES,
            "the run failed": status == "failed",
            "artifact missing": self._lacks_artifact,
            "not set up": is_new,
            "not sent": self._unsent,
            "redacted events": any(["redacted elsewhere" in warning for warning in warnings]),
            f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}": warnings,
        }
        wrong = next((wrong for wrong, is_so in found.items() if is_so), "")
        end = f"; {wrong} (faber-ledger status)" if wrong else ""
        about = f"run {one_line(run.run_id, 80)}"
        phase, room = progress.current_phase(state), max(LONGEST_LINE - len(f"{about}, phase {end}"), 8)
        is_done = progress.phase_statuses(state).get(phase or "") == "completed"
        shown = f"{phase} done" if is_done and phase and len(phase) + len(" done") <= room else phase
        line = f"{about}{f', phase {one_line(shown, room)}' if shown and not is_away_from_run else ''}{end}"
        return f"{NAME}{line}" if len(NAME) + len(line) <= LONGEST_LINE else line

    def _words_elsewhere(self, state: dict[str, Any]) -> str:
        """Return a sentence that says where the run's files are: a conversation about it loads its context there."""
        from faber_ledger.context.branch import branch_of_run, where_files_are
        from faber_ledger.files.text import defuse, one_line

        named = progress.branch_name(state)
        branch = named if isinstance(named, str) else branch_of_run(self.run)
        item = " ".join(filter(None, [progress.text_of_value(state.get("work_id")), progress.target_of(state)]))
        about = f"{self.run.run_id} ({item})" if item else self.run.run_id
        return defuse(
            f"The active FABER run, {one_line(about, LONGEST_LINE)}, has no files in this work tree:"
            f" {where_files_are(self.run, branch)}. Nothing is recorded here. If this conversation is about the run,"
            " go there and run `faber-ledger session-load`.\n"
        )

    def _packet_without_state(self, error: ForeignState) -> str:
        """Return a packet that says only that `state.json` is another run's: none of it is shown or recorded."""
        from faber_ledger.context.failures import state_broken
        from faber_ledger.context.packet import pack
        from faber_ledger.context.position import render_position

        self.warn(f"{error.message} - {error.hint}")
        problem = state_broken(self.run, error, state_file.choose_backup(self.run))
        return pack(render_position(self.run, {}), [], [problem], budget=self._settings().packet_budget)[0]

    def _gather(self, state: dict[str, Any], *, is_state_read: bool) -> Reload:
        """Load the run's artifacts; none if a bug of ours stops it, since the position can be shown all the same."""
        from faber_ledger.context import reload  # no other hook loads artifacts

        reserve_time(SECONDS_TO_RECORD)
        try:
            about: Any = {"compacted": self.call.text("source") == "compact", "is_state_read": is_state_read}
            return reload.gather_for_hook(self.run, state, at=self.at, **about)
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- the agent gets its position all the same
            return reload.Reload.failed_to_gather(self.run.root, state, error)
        finally:
            reserve_time(-SECONDS_TO_RECORD)

    def _pack(
        self, gathered: Reload, problems: list[str], arrival: Arrival, log: Log | None
    ) -> tuple[str, list[Draft]]:
        """Return the packet, with notes and a summary if there is a log, and the facts of what is in it."""
        settings, before = self._settings(), self._before(gathered.state) if self._file is not None else ""
        limit, room = self.call.limit, settings.packet_budget
        about: Any = {"client": self.call.client, "source": self.call.text("source") or "unknown", "before": before}
        about |= {"has_summaries_in_git": settings.summaries, "elsewhere": self._elsewhere}
        about |= {"keeps_packets": self.call.keeps_packets, "branch": self._own_branch}
        for _ in range(FITTINGS):
            text = gathered.pack(self.run, log, problems, budget=room, **about)
            if limit is None or (size := len(text.encode())) <= limit:
                break
            room = min(room, len(text)) * limit // size - 100  # a budget counts units, which may have three bytes
        return text, gathered.drafts(arrival["session_id"], self.call.client)

    def _may_lack(self, state: dict[str, Any]) -> bool:
        from faber_ledger.runs.sent import may_lack

        return may_lack(self.run, state)

    def _look_elsewhere(self, state: dict[str, Any], *, is_last_there: bool) -> Elsewhere | None:
        from faber_ledger.context.elsewhere import Elsewhere  # only where another clone may have recorded

        try:
            return Elsewhere(self.run, state, is_last_there=is_last_there)
        except REFUSALS:
            return None  # the start itself reports what is wrong with the run

    def _before(self, state: dict[str, Any]) -> str:
        """Return what comes before all else if the work tree lacks the run, or this clone has not taken it up."""
        if self.run.is_kept:
            from faber_ledger.context.branch import not_in_tree

            return not_in_tree(self.run, progress.branch_name(state) or self._own_branch)
        if self.run.run_id in read_used_runs(self.run.root).taken_up:
            return ""
        from faber_ledger.runs.copies import not_taken_up

        return not_taken_up(self.run, is_sent=carries_refs(self.run.root))
