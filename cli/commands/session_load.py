"""`faber-ledger session-load`: load the critical artifacts of a run (AGENT, Session Load; RELOAD)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.reports import session_load as report
from faber_ledger.cli.reports.bounded import BESIDE_CONTENTS, Bounded
from faber_ledger.cli.ui import completion, texts
from faber_ledger.cli.ui.output import documents_codes, json_option, show, tell, tell_lines, warn, warn_lines
from faber_ledger.cli.ui.which_run import named_run, run_to_load, warn_if_kept, work_id_option
from faber_ledger.context import messages, reload, selection
from faber_ledger.context.artifact_source import build_surroundings
from faber_ledger.context.elsewhere import Elsewhere
from faber_ledger.context.packet import COMMAND_BUDGET
from faber_ledger.context.reload import Reload
from faber_ledger.files.text import one_line, units
from faber_ledger.ledger import clock
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError, NotWritable, StateInvalid, StateMissing, StateNotWritten
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import blocks_of, fold, newest_open, open_sessions
from faber_ledger.recording import sessions
from faber_ledger.recording.environment import checkout_after, checkout_at_start, read_environment, sessions_elsewhere
from faber_ledger.recording.leaving import follow_client
from faber_ledger.recording.left_facts import record_or_leave
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clients import seen_client
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.settings import Settings, read_user_config

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Artifact, Surroundings
    from faber_ledger.context.reload import Held
    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.recording.sessions import Caller
    from faber_ledger.runs.settings import UserConfig


WARNINGS = 0.45  # of the room beside the contents, for each kind of them


class Trigger(click.ParamType[str]):
    """A trigger in one of the forms of AGENT, Load Triggers."""

    name = "trigger"
    FORMS = "session_start, manual, phase_start, phase_start:PHASE, phase_transition:FROM->TO, compaction_detected"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a trigger's form; fails with a usage error."""
        kind, colon, phases = str(value).partition(":")
        named = phases.split("->") if kind == "phase_transition" else [phases]
        is_complete = all(phase.isalpha() for phase in named) and len(named) == (2 if kind == "phase_transition" else 1)
        if kind in ("phase_start", "phase_transition") and colon and is_complete:
            return str(value)
        if value not in ("session_start", "manual", "phase_start", "compaction_detected"):
            self.fail(f"{value!r} is not one of {self.FORMS}.", param, ctx)
        return str(value)


@click.command("session-load", short_help="Load the critical artifacts into context.")
@click.option(
    "--run-id",
    metavar="RUN",
    shell_complete=completion.runs,
    help="The run; the active one, else the one that a scan finds, if omitted.",
)
@work_id_option
@click.option(
    "--trigger",
    type=Trigger(),
    default="manual",
    show_default=True,
    help=f"What triggered this reload: {Trigger.FORMS}.",
)
@click.option(
    "--artifacts",
    metavar="ID,ID",
    multiple=True,
    help="Only the artifacts with these ids, whatever the trigger; repeatable. --dry-run shows the ids.",
)
@click.option("--minimal", is_flag=True, help="Only the run's position and its state, as after a compaction.")
@click.option("--context", "hint", metavar="TEXT", help="What matters now: the artifacts that it names come first.")
@click.option("--force", is_flag=True, help="Load even what this session was given in the last five minutes.")
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and change nothing.")
@click.option(
    "--budget",
    type=click.IntRange(min=1000),
    default=COMMAND_BUDGET,
    show_default=True,
    metavar="N",
    help="How much to print of the contents, in UTF-16 code units.",
)
@click.option("--content", is_flag=True, help="Print the contents on a terminal, too, and record the load.")
@json_option
@documents_codes
def session_load(
    run_id: str | None,
    work_id: str | None,
    trigger: str,
    artifacts: tuple[str, ...],
    minimal: bool,
    hint: str | None,
    force: bool,
    dry_run: bool,
    budget: int,
    content: bool,
    as_json: bool,
) -> None:
    """Load a run's critical artifacts, print them, and record it.

    On a terminal only the report is printed, and nothing is recorded, unless
    --content is given.

    \b
    Example: faber-ledger session-load --artifacts workflow-state,specification
    Exit codes: 0 loaded; 1 no run, its state cannot be read, a required artifact
    failed, or the load cannot be recorded; 2 wrong usage; 130 interrupted.
    A dry run has the code that the load would have.
    """
    root, at, is_terminal = find_root(os.getcwd()), now(), sys.stdout.isatty()
    beside = Bounded(None if as_json or dry_run or is_terminal else BESIDE_CONTENTS)
    log: Callable[[str], None] = (lambda line: None) if as_json else (lambda line: tell(beside.count(line)))
    is_look = is_terminal and not (dry_run or content)
    run_id = named_run(root, run_id, work_id)
    run = run_to_load(root, run_id, active_run(root), log, records=not (dry_run or is_look))
    if not (dry_run or is_look):
        warn_if_kept(run)
    config = read_user_config()
    requested = _check_given(config, run_id, artifacts, minimal)
    is_forced = force or content or minimal or requested is not None
    try:
        loading = Loading(
            run, config, trigger, requested, at, beside, is_forced=is_forced, is_minimal=minimal, hint=hint
        )
        if dry_run:
            _show_dry_run(loading.dry_run(budget), as_json=as_json)
        elif is_look:
            log(report.LOOK)
            _show(loading, *loading.look(log), budget, is_look=True, is_brief=False, as_json=as_json)
        else:
            has_steps = content and is_terminal
            loaded = loading.load(budget, log, has_steps=has_steps)
            _show(loading, *loaded, budget, is_look=False, is_brief=has_steps, as_json=as_json)
    except (StateMissing, StateInvalid, NotWritable) as error:
        error.block = texts.load_failed(run, error)
        raise


def _check_given(config: UserConfig, run_id: str | None, artifacts: tuple[str, ...], minimal: bool) -> list[str] | None:
    """Return the ids of the artifacts that are asked for; None without any. Raises LedgerError and UsageError."""
    if config["problem"]:
        raise LedgerError(config["problem"], hint="correct the file, or remove it")
    names = [name.strip() for given in artifacts for name in given.split(",") if name.strip()]
    if (artifacts and not names) or run_id == "":
        raise click.UsageError("--artifacts and --run-id must not be empty.")
    if minimal and artifacts:
        raise click.UsageError("give --minimal or --artifacts, not both.")
    return names if artifacts else None


def _show_dry_run(tried: report.DryRun, *, as_json: bool) -> None:
    show(report.dry_data(tried), report.dry_lines(tried), as_json=as_json)
    if tried.result.required_failed or tried.why_not_recorded is not None:
        click.get_current_context().exit(1)


def _show(
    loading: Loading,
    result: Reload,
    packet: str,
    failure: Exception | None,
    budget: int,
    *,
    is_look: bool,
    is_brief: bool,
    as_json: bool,
) -> None:
    """Print what was loaded and the report, in what is left of the room; raises the failure."""
    beside = loading.beside
    beside.add(budget - units(packet))
    for warning in beside.first(report.warnings(result), WARNINGS, "warnings"):
        warn_lines(beside.count(warning))
    failure = failure or _required_failure(result, beside)

    def report_lines(*, is_brief: bool) -> Iterator[str]:
        yield from report.lines(
            loading.run,
            loading.state,
            loading.blocks,
            result,
            loading.session_id,
            is_look=is_look,
            is_brief=is_brief,
            given_bytes=len(packet.encode("utf-8", "replace")),
        )
        yield from report.closing_lines(result, is_minimal=loading.is_minimal)

    if packet and not as_json:
        tell_lines(packet)
    data = report.data(loading.run, loading.state, result, loading.session_id)
    lines = [] if failure else beside.fit(report_lines(is_brief=is_brief), lambda: report_lines(is_brief=True))
    show({**data, "context": packet}, lines, as_json=as_json)
    if failure is not None:
        raise failure


def _required_failure(result: Reload, beside: Bounded) -> LedgerError | None:
    """Return the error of the first required artifact that failed; None if none did."""
    if not result.required_failed:
        return None
    failed = result.required_failed[0]
    errors = [messages.required_failed(**one) for one in result.required_failed]
    return LedgerError(
        f"required artifact {failed['artifact']['id']}: {failed['error'].message}",
        hint="the error's recovery steps are above",
        block="\n\n".join(beside.first(errors, 1, "errors")),
    )


def _warn(text: str) -> None:
    warn(f"⚠️  {text}")


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


class Loading:
    """One session-load of one run; `is_forced` loads what the session has already, too.

    If `is_minimal`, only the run's state is loaded. The artifacts that `hint` names come first.
    """

    def __init__(
        self,
        run: Run,
        config: UserConfig,
        trigger: str,
        requested: list[str] | None,
        at: float,
        beside: Bounded,
        *,
        is_forced: bool,
        is_minimal: bool,
        hint: str | None,
    ) -> None:
        """Read the run's state, and choose its artifacts; raises LedgerError."""
        self.run = run
        self.beside = beside
        self.config = config
        self.trigger = trigger
        self.at = at
        self.is_forced = is_forced
        self._known = state_write.KnownState(state_file.read_state(run))
        self.state = self._known.value
        state_file.check_required(run, self.state)
        state_file.check_status(run, self.state)
        self.state["workflow_id"] = state_file.workflow_id_of(run, self.state)
        self.workflow = reload.workflow_of(run, self.state, config["plugin_roots"])
        self.hint = hint or _noted_hint(self.state)
        self.is_minimal = is_minimal
        self.selected, self.others = self._select(requested)
        self.blocks = blocks_of(self.state)
        self.in_context: dict[str, Held] = {}  # what the blocks have of the session that the load goes on with
        self.session_id: str | None = None  # that the load belongs to

    def _select(self, requested: list[str] | None) -> tuple[list[Artifact], list[str]]:
        """Return the artifacts to load, and the ids of those that trigger, phase or condition leave out."""
        found: list[str] = []
        if self.is_minimal:
            selected = reload.only_state(self.workflow)
        else:
            selected = selection.select(self.workflow, self.state, [self.trigger], requested, found.append)
        for text in self.beside.first([f"⚠️ WARNING: {text}" for text in found], WARNINGS, "warnings"):
            warn_lines(self.beside.count(text))
        for text in self.beside.first(self.workflow["warnings"], WARNINGS, "warnings"):
            warn(self.beside.count(text))
        every = dict.fromkeys(one["id"] for one in selection.every_artifact(self.workflow))
        if requested is not None and not selected:
            raise LedgerError(
                "nothing to load: none of the named artifacts is selected",
                hint=f"the workflow's artifacts: {', '.join(every) or 'none'}",
            )
        chosen = {one["id"] for one in selected}
        return selected, [name for name in every if name not in chosen] if requested is None else []

    def dry_run(self, budget: int) -> report.DryRun:
        """Load without recording, by the rules of the real load; raises LedgerError."""
        caller = self._caller(read_environment(self.run.root))
        result = self._read(caller, dry=True)
        why_not_recorded: str | None = None
        try:
            state_write.check_writable(self.run, os.stat(self.run.state_path))
            with read_log(self.run) as log:
                packet = self._fit(result, log, caller, budget)
        except StateNotWritten as error:
            why_not_recorded = error.message
            packet = self._fit(result, None, caller, budget)
        except (LedgerError, OSError, sqlite3.Error):
            packet = self._fit(result, None, caller, budget)
        return report.DryRun(
            self.run.run_id,
            self.state,
            self.selected,
            self.others,
            self.in_context,
            self._surroundings(),
            self.at,
            result,
            len(packet.encode("utf-8", "replace")),
            why_not_recorded,
        )

    def look(self, log: Callable[[str], None]) -> tuple[Reload, str, None]:
        """Load without recording and without contents, for a report; raises LedgerError."""
        return self._step(log, self._caller(None), is_recorded=False), "", None

    def load(self, budget: int, log: Callable[[str], None], *, has_steps: bool) -> tuple[Reload, str, Exception | None]:
        """Load, record and project, with a line to `log` for what is done, if `has_steps` for each artifact, too.

        Raises LedgerError.

        Return the load, its contents, and the error that kept it from being recorded. Whatever takes long, above all
        the user's programs, runs before the run is locked: hooks wait for the lock.
        """
        writer = writer_of(self.run.root)
        caller = self._caller(read_environment(self.run.root), writer)
        result = self._step(log, caller, is_recorded=True, has_steps=has_steps)
        elsewhere = self._look_elsewhere()
        packet = ""
        try:
            with record_or_leave(self.run, at=self.at, writer=writer, warn=_warn) as recording:
                view = recording.view
                session_id, opening = self._session(view, caller)
                is_incomplete = not opening and sessions.lacks_environment(view, session_id)
                missing = caller["environment"] if is_incomplete else None
                packet, loads = self._pack(result, view.log, caller, session_id, budget, elsewhere, missing)
                self.session_id = session_id
                _mask_errors(loads)
                recording.append([*opening, *loads])
                self.blocks = recording.blocks
        except (LedgerError, OSError, sqlite3.Error) as error:  # the agent gets its context all the same
            if not isinstance(error, StateNotWritten):
                self.session_id = None
            return result, packet or self._pack(result, None, caller, "", budget, elsewhere)[0], error
        seen = seen_client(self.run.root, caller["client"])
        client, pid, is_new = caller["client"], caller["pid"], bool(opening)
        follow_client(self.run, client, pid, seen, at=self.at, warn=_warn, is_new=is_new)
        if opening:
            log(f"✓ New session detected: {session_id}")
            if self.state["status"] in FINISHED:
                save = f"`faber-ledger session-save --run-id {self.run.run_id}`"
                log(f"ℹ The run is {self.state['status']}: {save} ends this session")
        log("✓ Updated state metadata")
        return result, packet, None

    def _step(
        self, log: Callable[[str], None], caller: Caller, *, is_recorded: bool, has_steps: bool = False
    ) -> Reload:
        """Load the artifacts, with lines for what is done."""
        for line in report.config_lines(self.workflow, self.state):
            log(line)
        if self.hint:
            log(f"Context hint: {one_line(self.hint, report.LONGEST_HINT)}")
        result = self._read(caller, dry=False, is_recorded=is_recorded)
        for line in self.beside.first(report.skipped_lines(result), WARNINGS, "are skipped"):
            log(line)
        log(report.count_line(result, len(self.selected)))
        for line in report.step_lines(result) if has_steps else ():
            log(line)
        return result

    def _pack(
        self,
        result: Reload,
        log: Log | None,
        caller: Caller,
        session_id: str,
        budget: int,
        elsewhere: Elsewhere | None,
        environment: Environment | None = None,
    ) -> tuple[str, list[Draft]]:
        """Return the contents and the facts of what is in them; without a `log`, without notes and summaries."""
        return result.pack(
            self.run,
            log,
            result.problems(),
            session_id=session_id,
            client=caller["client"],
            source="session_load",
            budget=budget,
            has_summaries_in_git=Settings(self.run, os.environ).summaries,
            environment=environment,
            elsewhere=elsewhere,
        )

    def _fit(self, result: Reload, log: Log | None, caller: Caller, budget: int) -> str:
        """Return the contents as they would be, which tells the artifacts that they have room for."""
        return result.fit(
            self.run,
            log,
            result.problems(),
            caller["client"],
            "session_load",
            budget,
            has_summaries_in_git=Settings(self.run, os.environ).summaries,
            elsewhere=self._look_elsewhere(),
        )

    def _look_elsewhere(self) -> Elsewhere:
        newest = sessions_elsewhere(self.state, self.run.root)
        return Elsewhere(self.run, is_last_there=newest[:1] == [True])

    def _surroundings(self) -> Surroundings:
        """Return what artifacts are resolved against, with the programs that may run for slash commands."""
        return build_surroundings(self.run, self.state, self.config["plugin_roots"], self.config["commands"])

    def _caller(self, environment: Environment | None, writer: str = "") -> Caller:
        writer = writer or writer_of(self.run.root)
        return sessions.caller_of(os.environ, self.state, self.at, writer, environment)

    def _read(self, caller: Caller, *, dry: bool, is_recorded: bool = False) -> Reload:
        """Load the artifacts by what state and log say now, without taking the run's lock."""
        try:
            if lacks_ledger(self.run):
                return self._gather(None, caller, dry=dry)
            with read_log(self.run, _warn) as log:
                if not self._known.shows(log):
                    self.blocks = fold(log.stream())
                return self._gather(sessions.View(log, self.blocks), caller, dry=dry)
        except (LedgerError, OSError, sqlite3.Error):
            if not is_recorded:
                raise
            self.is_forced = True  # what was given is unknown; what is wrong stops the recording alone
            return self._gather(None, caller, dry=dry)

    def _gather(self, view: sessions.View | None, caller: Caller, *, dry: bool) -> Reload:
        self.session_id = self._session_before(view, caller)
        self.in_context = reload.loads_noted(self.blocks) if self.session_id is not None else {}
        result = reload.gather(
            self.selected,
            self._surroundings(),
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
        return self.in_context if view is None else reload.loads_held(view.log, str(self.session_id))

    def _session(self, view: sessions.View, caller: Caller) -> tuple[str, list[Draft]]:
        """Return the session that the load belongs to, and the facts that open it if it is new."""
        found = sessions.session_to_load_into(view, caller, is_start=self._is_start)
        if found is not None:
            return found, []
        session_id = clock.session_id(self.at, os.urandom(6))
        opening = sessions.open_session(view, caller, session_id, "session_load")
        return session_id, [*opening, *checkout_after(opening[-1], checkout_at_start(self.run))]

    def _session_before(self, view: sessions.View | None, caller: Caller) -> str | None:
        """Return the session that the load goes on with, which may have something in context; None if it opens one."""
        if view is not None:
            return sessions.session_to_load_into(view, caller, is_start=self._is_start)
        current = newest_open(self.blocks)
        goes_on = current is not None and not self._is_start
        return current if goes_on and sessions.may_be_of_this_machine(self.blocks, str(current)) else None

    @property
    def _is_start(self) -> bool:
        return self.trigger == "session_start"
