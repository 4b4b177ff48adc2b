"""What a session's start does: gather the run's context, record it, and give the agent the packet, the user a line."""

from __future__ import annotations

import os
import stat

from faber_ledger.context.artifact import is_value
from faber_ledger.context.position import MOST_FAILURES, branch_by_log, count_errors, pending_approvals, render_position
from faber_ledger.files.text import one_line
from faber_ledger.hooks.hook import REFUSALS, Hook
from faber_ledger.ledger.clock import OutOfTime, reserve_time
from faber_ledger.ledger.errors import ForeignState
from faber_ledger.recording.call import Answer
from faber_ledger.recording.sessions import sessions_elsewhere
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import is_set_up_unchecked, note_use, read_used_runs
from faber_ledger.runs.progress import branch_name, current_phase, resume_point
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import is_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.reload import Reload
    from faber_ledger.ledger.events import Draft
    from faber_ledger.ledger.log import Log
    from faber_ledger.recording.inbox import Arrival


FITTINGS = 4  # of a packet into what an agent takes
SECONDS_TO_RECORD = 2.0  # of a start's time, which its artifacts leave
LARGEST_FILE = 1_048_576  # of variables
NAME, LONGEST_LINE = "faber-ledger: ", 120


class Start(Hook):
    """A start of one of the client's own sessions."""

    _elsewhere: Elsewhere | None = None  # what the packet says about other clones
    _unsent: str | None = None  # of a run that travels in git refs
    _lacks_artifact = False  # whether a required artifact could not be loaded
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
        arrival = self._receive(state)
        self._put(arrival)
        elsewhere = sessions_elsewhere(state, self.run.root)
        self._elsewhere = self._look_elsewhere(is_last_there=elsewhere[0]) if any(elsewhere) else None
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
        if os.environ.get("CLAUDE_ENV_FILE"):
            export_run(os.environ["CLAUDE_ENV_FILE"], self.run.run_id, state.get("work_id"), self.warn)
        return Answer(packet, self._line(state, is_broken=problem is not None))

    def _record_start(self, gathered: Reload, problems: list[str], arrival: Arrival) -> str | None:
        """Record the start with its loads, and return the packet; None if another hook has recorded it."""
        packet: str | None = None
        try:
            with self._recording() as recording:
                log = recording.view.log
                recording.say_notices()
                if carries_refs(self.run.root):
                    from faber_ledger.runs.sent import describe_unsent

                    self._unsent = describe_unsent(self.run, log, is_start=True)
                    self._own_branch = branch_by_log(self.run, gathered.state, log)
                if self.run.is_kept and (checkout := arrival["checkout"]) is not None and checkout["branch"]:
                    self._own_branch = log.first_branch(besides=checkout["branch"])
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
            note_use(self.run.root, self.run.run_id)
            self._name_run()
        return packet

    def _line(self, state: dict[str, Any], *, is_broken: bool = False) -> str:
        """Return the line, of at most 120 characters for ids of up to 60; the state may be a backup's."""
        run, warnings, here = self.run, self._warnings, self._arrival["checkout"] if self._arrival is not None else None
        branch = branch_name(state) or self._own_branch
        is_wrong = here is not None and isinstance(branch, str) and branch != here["branch"]
        if is_wrong:
            from faber_ledger.context.branch import has_branch  # most starts are on the run's branch

        if is_new := is_set_up_unchecked(run.root):
            from faber_ledger.runs.set_up import line_to_set_up  # only the first start of a clone looks

            is_new = line_to_set_up(run.root) is not None
        found = {  # in at most 16 letters, the most urgent first; `status` and `doctor` say all of it
            "not recorded": not self._is_recorded,
            "state unreadable": is_broken,
            "branch not here": is_wrong and not has_branch(run.root, str(branch)),  # as after a merge
            "wrong branch": is_wrong,
            "files not here": run.is_kept,
            "bad active file": self._active is not None and self._active.problem,
            "question waits": state.get("status") == "awaiting_feedback",
            "approval waits": pending_approvals(state),
            "failed too often": count_errors(state, resume_point(state)) >= MOST_FAILURES,
            "artifact missing": self._lacks_artifact,
            "not set up": is_new,
            "not sent": self._unsent,
            "redacted events": any(["redacted elsewhere" in warning for warning in warnings]),
            f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}": warnings,
        }
        wrong = next((wrong for wrong, is_so in found.items() if is_so), "")
        end = f"; {wrong}: faber-ledger status" if wrong else ""
        about = f"run {one_line(run.run_id, 80)}"
        phase, room = current_phase(state), max(LONGEST_LINE - len(f"{about}, phase {end}"), 9)
        line = f"{about}{f', phase {one_line(phase, room)}' if phase else ''}{end}"
        return f"{NAME}{line}" if len(NAME) + len(line) <= LONGEST_LINE else line

    def _packet_without_state(self, error: ForeignState) -> str:
        """Return a packet that says only that `state.json` is another run's: none of it is shown or recorded."""
        from faber_ledger.context.failures import state_broken
        from faber_ledger.context.packet import pack

        self.warn(f"{error.message} - {error.hint}")
        problem = state_broken(self.run, error, state_file.choose_backup(self.run))
        return pack(render_position(self.run, {}), [], [problem], budget=self._settings().packet_budget)[0]

    def _gather(self, state: dict[str, Any], *, is_state_read: bool) -> Reload:
        """Load the run's artifacts; none if a bug of ours stops it, since the position can be shown all the same."""
        from faber_ledger.context import reload  # no other hook loads artifacts

        is_compacted = self.call.text("source") == "compact"
        reserve_time(SECONDS_TO_RECORD)
        try:
            return reload.gather_for_hook(
                self.run, state, compacted=is_compacted, at=self.at, is_state_read=is_state_read
            )
        except (Exception, OutOfTime) as error:  # noqa: BLE001 -- the agent gets its position all the same
            return reload.Reload.failed_to_gather(self.run.root, state, error)
        finally:
            reserve_time(-SECONDS_TO_RECORD)

    def _pack(
        self, gathered: Reload, problems: list[str], arrival: Arrival, log: Log | None
    ) -> tuple[str, list[Draft]]:
        """Return the packet, with notes and a summary if there is a log, and the facts of what is in it."""
        settings, before = self._settings(), self._before() if self._file is not None else ""
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

    def _look_elsewhere(self, *, is_last_there: bool) -> Elsewhere | None:
        from faber_ledger.context.elsewhere import Elsewhere  # only where another clone has recorded

        try:
            return Elsewhere(self.run, is_last_there=is_last_there)
        except REFUSALS:
            return None  # the start itself reports what is wrong with the run

    def _before(self) -> str:
        """Return what comes before all else if the work tree lacks the run, or this clone has not taken it up."""
        if self.run.is_kept:
            from faber_ledger.runs.kept import not_in_tree

            return not_in_tree(self.run)
        if self.run.run_id in read_used_runs(self.run.root).taken_up:
            return ""
        from faber_ledger.runs.copies import not_taken_up

        return not_taken_up(self.run)

    def _name_run(self) -> None:
        """Name the run in the active file, if it was found by its branch or its author and this clone took it up."""
        active, root = self._active, self.run.root
        if active is not None and not active.is_named and self.run.run_id in read_used_runs(root).taken_up:
            from faber_ledger.runs.active import name_if_none_is

            name_if_none_is(root, active, self.run.run_id, self.warn)


# The variables that the client's shell commands get, from a file that the shell sources


def export_run(path: str, run_id: str, work_id: Any, warn: Callable[[str], None]) -> None:
    """Export `FABER_RUN_ID` and `FABER_WORK_ID` in the client's file unless it does so already, or warn.

    A work id comes from a cloned repository: it is left out unless it has only letters, digits and `._#-`.
    """
    wanted = {"FABER_RUN_ID": run_id if is_run_id(run_id) else ""}
    work = str(work_id) if isinstance(work_id, (str, int)) and not isinstance(work_id, bool) else ""
    wanted["FABER_WORK_ID"] = work if is_value(work) else ""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        _add(path, os.open(path, flags, 0o600), wanted)
    except (OSError, ValueError) as error:
        warn(f"CLAUDE_ENV_FILE: {error}")


def _add(path: str, descriptor: int, wanted: dict[str, str]) -> None:
    with open(descriptor, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        known = (file.read(LARGEST_FILE) or b"").decode("utf-8", "replace")
        lines = [f"export {name}='{value}'" for name, value in wanted.items() if value != _exported(known, name)]
        if lines:
            gap = "\n" if known and not known.endswith("\n") else ""
            file.write((gap + "\n".join(lines) + "\n").encode())


def _exported(text: str, name: str) -> str:
    """Return what our own last line exports under a name; empty if there is none."""
    start = f"export {name}='"
    lines = [line for line in text.splitlines() if line.startswith(start) and line.endswith("'")]
    return lines[-1][len(start) : -1] if lines else ""
