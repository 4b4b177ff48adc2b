"""`faber-ledger session-load`: load the critical artifacts of a run (AGENT, Session Load; RELOAD)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.reports import session_load as report
from faber_ledger.cli.ui import completion, texts
from faber_ledger.cli.ui.output import documents_codes, json_option, show, tell, warn
from faber_ledger.cli.ui.which_run import LOAD, named_run, run_to_load, warn_if_kept, work_id_option
from faber_ledger.context import messages, reload, selection
from faber_ledger.context.artifact_source import build_surroundings
from faber_ledger.context.elsewhere import describe_elsewhere
from faber_ledger.context.packet import COMMAND_BUDGET
from faber_ledger.ledger import clock
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError, NotWritable, StateInvalid, StateMissing
from faber_ledger.ledger.file import check_file
from faber_ledger.projections import blocks
from faber_ledger.recording import sessions
from faber_ledger.recording.checkout import checkout_after, checkout_at_start
from faber_ledger.recording.environment import EnvironmentQuery
from faber_ledger.recording.leaving import follow_client
from faber_ledger.recording.recording import Recording
from faber_ledger.runs import state_file
from faber_ledger.runs.active import active_run, claim_if_active
from faber_ledger.runs.clients import seen_client
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.run import find_root
from faber_ledger.runs.settings import Settings, read_user_config
from faber_ledger.runs.united import read_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.artifact import Surroundings
    from faber_ledger.context.reload import Reload
    from faber_ledger.ledger.events import Draft, Environment
    from faber_ledger.recording.sessions import Caller
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.settings import UserConfig


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
@click.option("--trigger", type=Trigger(), default="manual", show_default=True, help="What triggered this reload.")
@click.option("--artifacts", metavar="ID,ID", help="Only these artifacts, whatever the trigger.")
@click.option("--force", is_flag=True, help="Load even what was loaded in the last five minutes.")
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and change nothing.")
@click.option(
    "--budget",
    type=click.IntRange(min=1000),
    default=COMMAND_BUDGET,
    show_default=True,
    metavar="N",
    help="How much to print of the contents, in UTF-16 code units.",
)
@click.option("--content", is_flag=True, help="Print the contents on a terminal, too.")
@json_option
@documents_codes
def session_load(
    run_id: str | None,
    work_id: str | None,
    trigger: str,
    artifacts: str | None,
    force: bool,
    dry_run: bool,
    budget: int,
    content: bool,
    as_json: bool,
) -> None:
    """Load a run's critical artifacts, print them, and record it.

    \b
    Example: faber-ledger session-load --artifacts workflow-state,specification --force
    Exit codes: 0 loaded, or a dry run; 1 no run, its state cannot be read, or a
    required artifact failed; 2 wrong usage.
    """
    root, at = find_root(os.getcwd()), now()
    log: Callable[[str], None] = (lambda line: None) if as_json else tell
    active = active_run(root)
    run_id = named_run(root, run_id, work_id, LOAD)
    run = run_to_load(root, run_id, active, log, records=not dry_run)
    if not dry_run:
        warn_if_kept(run)
    config = read_user_config()
    if config["problem"]:
        raise LedgerError(config["problem"], hint="correct the file, or remove it")
    requested = None if artifacts is None else [name.strip() for name in artifacts.split(",") if name.strip()]
    if requested == [] or run_id == "":
        raise click.UsageError("--artifacts and --run-id must not be empty.")
    try:
        loading = Loading(run, config, trigger, requested, at, force)
        if dry_run:
            tried = loading.dry_run()
            show(report.dry_data(tried), report.dry_lines(tried), as_json=as_json)
            return
        shows = as_json or content or not sys.stdout.isatty()
        result, packet, recording = loading.load(budget if shows else 0, log)
        # Again: what was recorded may make the run this work tree's own.
        claim_if_active(root, active_run(root), run.run_id, lambda text: warn(f"⚠️  {text}"))
    except (StateMissing, StateInvalid, NotWritable) as error:
        error.block = texts.load_failed(run, error)
        raise
    if packet and not as_json:
        tell(packet)
    if result.required_failed:
        failed = result.required_failed[0]
        raise LedgerError(
            f"required artifact {failed['artifact']['id']}: {failed['error'].message}",
            hint="check its path in the workflow's configuration, or run the phase that creates it",
            block=messages.required_failed(**failed),
        )
    data = report.data(run, loading.state, result, loading.session_id)
    lines = report.lines(run, loading.state, recording.blocks, result, loading.session_id)
    show({**data, "context": packet}, lines, as_json=as_json)


class Loading:
    """One session-load of one run."""

    def __init__(
        self, run: Run, config: UserConfig, trigger: str, requested: list[str] | None, at: float, force: bool
    ) -> None:
        """Read the run's state, and choose its artifacts; raises LedgerError."""
        self.run = run
        self.config = config
        self.trigger = trigger
        self.at = at
        self.force = force
        self.state: dict[str, Any] = state_file.read_state(run).value
        state_file.check_required(run, self.state)
        self.state["workflow_id"] = state_file.workflow_id_of(run, self.state)
        self.workflow = reload.workflow_of(run, self.state, config["plugin_roots"])
        self.selected = selection.select(
            self.workflow, self.state, [trigger], requested, lambda text: warn(f"⚠️ WARNING: {text}")
        )
        for warning in self.workflow["warnings"]:
            warn(warning)
        self.in_context: dict[str, dict[str, Any]] = {}
        self.session_id = ""  # that the load belongs to, once it is recorded

    def dry_run(self) -> report.DryRun:
        """Load without recording, by the rules of the real load; raises LedgerError."""
        result = self._read(self._caller(EnvironmentQuery(self.run.root).read()), dry=True)
        return report.DryRun(
            self.run.run_id, self.state, self.selected, self.in_context, self._surroundings(), self.at, result
        )

    def load(self, budget: int, log: Callable[[str], None]) -> tuple[Reload, str, Recording]:
        """Load, record and project, with a line for each step to `log`; raises LedgerError.

        Whatever takes long, above all the user's programs, runs before the run is locked: hooks wait for the lock.
        """
        environment = EnvironmentQuery(self.run.root)
        writer = writer_of(self.run.root)
        for line in report.config_lines(self.workflow, self.state):
            log(line)
        caller = self._caller(environment.read(), writer)
        result = self._read(caller, dry=False)
        for line in report.step_lines(result, len(self.selected)):
            log(line)
        for warning in report.warnings(result):
            warn(warning)
        elsewhere = describe_elsewhere(self.run) if budget else None
        with Recording(self.run, at=self.at, writer=writer, warn=lambda text: warn(f"⚠️  {text}")) as recording:
            view = recording.view
            session_id, opening = self._session(view, caller)
            self.session_id = session_id
            is_incomplete = not opening and sessions.lacks_environment(view, session_id)
            packet, loads = result.pack(
                self.run,
                view.log,
                result.other_problems,
                session_id=session_id,
                client=caller["client"],
                source="session_load",
                budget=budget,
                has_summaries_in_git=Settings(self.run, os.environ).summaries,
                environment=caller["environment"] if is_incomplete else None,
                elsewhere=elsewhere,
            )
            recording.append([*opening, *loads])
        seen = seen_client(self.run.root, caller["client"])
        client, pid, is_new = caller["client"], caller["pid"], bool(opening)
        follow_client(self.run, client, pid, seen, at=self.at, warn=lambda text: warn(f"⚠️  {text}"), is_new=is_new)
        if opening:
            log(f"✓ New session detected: {session_id}")
        log("✓ Updated state metadata")
        return result, packet if budget else "", recording

    def _surroundings(self) -> Surroundings:
        """Return what artifacts are resolved against, with the programs that may run for slash commands."""
        return build_surroundings(self.run, self.state, self.config["plugin_roots"], self.config["commands"])

    def _caller(self, environment: Environment | None, writer: str = "") -> Caller:
        writer = writer or writer_of(self.run.root)
        return sessions.caller_of(os.environ, self.state, self.at, writer, environment)

    def _read(self, caller: Caller, *, dry: bool) -> Reload:
        """Load the artifacts by what state and log say now, without taking the run's lock."""
        if not check_file(self.run.ledger_path):
            return self._gather(None, caller, dry=dry)
        with read_log(self.run) as log:
            return self._gather(sessions.View(log, blocks.blocks_of(self.state)), caller, dry=dry)

    def _gather(self, view: sessions.View | None, caller: Caller, *, dry: bool) -> Reload:
        self.in_context = reload.loads_in_context(blocks.blocks_of(self.state)) if self._goes_on(view, caller) else {}
        names = [artifact["id"] for artifact in self.selected]
        return reload.gather(
            self.selected,
            self._surroundings(),
            triggers=[self.trigger],
            at=self.at,
            in_context=self.in_context,
            last_loads=view.log.last_loads(names) if view else {},
            force=self.force,
            dry_run=dry,
            stop_at_failure=not dry,
        )

    def _session(self, view: sessions.View, caller: Caller) -> tuple[str, list[Draft]]:
        """Return the session that the load belongs to, and the facts that open it if it is new."""
        found = sessions.session_to_load_into(view, caller, is_start=self._is_start)
        if found is not None:
            return found, []
        session_id = clock.session_id(self.at, os.urandom(6))
        opening = sessions.open_session(view, caller, session_id, "session_load")
        return session_id, [*opening, *checkout_after(opening[-1], checkout_at_start(self.run))]

    def _goes_on(self, view: sessions.View | None, caller: Caller) -> bool:
        """Return whether the load belongs to a session that may have something in context; without a log, no `view`."""
        if view is not None:
            return sessions.session_to_load_into(view, caller, is_start=self._is_start) is not None
        known = blocks.blocks_of(self.state)
        current = blocks.newest_open(known)
        return current is not None and not self._is_start and sessions.may_be_of_this_machine(known, current)

    @property
    def _is_start(self) -> bool:
        return self.trigger == "session_start"
