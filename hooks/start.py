"""What a session's start does: gather the run's context, record the start with it, and print the packet."""

from __future__ import annotations

import os

from faber_ledger.hooks.hook import REFUSALS, Hook
from faber_ledger.ledger.clock import OutOfTime, reserve_time
from faber_ledger.ledger.errors import ForeignState
from faber_ledger.recording.call import Answer, sessions_elsewhere
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import note_use, read_used_runs
from faber_ledger.runs.progress import current_phase, current_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.context.elsewhere import Elsewhere
    from faber_ledger.context.reload import Reload
    from faber_ledger.ledger.events import Draft
    from faber_ledger.ledger.log import Log
    from faber_ledger.recording.inbox import Arrival


SECONDS_TO_RECORD = 2.0  # of a start's time, which its artifacts leave
LONGEST_WARNING = 240  # of a start's line, in which the id of a run may be long


class Start(Hook):
    """A start of one of the client's own sessions."""

    _elsewhere: Elsewhere | None = None  # what the packet says about other clones

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
        if any(elsewhere):
            self._elsewhere = self._look_elsewhere(is_last_there=elsewhere[0])
        gathered = self._gather(state, is_state_read=problem is None)
        # Without any state, the only problem that was gathered is that there is none.
        found = gathered.problems() if state or not problem else []
        problems = [*([problem] if problem else []), *found]
        for text in found:  # the state's own problem is reported when the call is recorded
            self.warn(" / ".join([line for line in text.split("\n")[:5] if line]))

        packet: str | None = None
        try:
            with self._recording() as recording:
                recording.say_notices()
                packet, loads = self._pack(gathered, problems, arrival, recording.view.log)
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
                return None
            note_use(self.run.root, self.run.run_id)
            self._name_run()
        self._leave_run(is_followed=True)
        self._export_variables(state)
        line = self._line(state)
        if not self.run.is_kept or not self._is_delivered:
            return Answer(packet, line)
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
        from faber_ledger.context.artifact import state_broken
        from faber_ledger.context.packet import pack
        from faber_ledger.context.position import render_position

        self.warn(f"{error.message} - {error.hint}")
        problem = state_broken(self.run, error, state_file.choose_backup(self.run))
        budget = self._settings().packet_budget
        return pack(render_position(self.run, {}), [], [problem], budget=budget)[0]

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
        settings = self._settings()
        text = gathered.pack(
            self.run,
            log,
            problems,
            client=self.call.client,
            source=self.call.text("source") or "unknown",
            budget=settings.packet_budget,
            has_summaries_in_git=settings.summaries,
            elsewhere=self._elsewhere,
            last_line=self._last_line() if self._is_delivered else "",
        )
        return text, gathered.drafts(arrival["session_id"], self.call.client)

    def _look_elsewhere(self, *, is_last_there: bool) -> Elsewhere | None:
        from faber_ledger.context.elsewhere import Elsewhere  # only where another clone has recorded

        try:
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

    def _name_run(self) -> None:
        """Name the run in the active file, if it was found by its branch or its author and this clone took it up."""
        active = self._active
        if active is None or active.is_named:
            return
        from faber_ledger.runs.active import name_if_none_is

        if self.run.run_id in read_used_runs(self.run.root).taken_up:
            name_if_none_is(self.run.root, active, self.run.run_id, self.warn)
