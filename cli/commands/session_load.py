"""`faber-ledger session-load`: load the critical artifacts of a run (AGENT, Session Load; RELOAD)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from faber_ledger.cli.reports import session_load as report
from faber_ledger.cli.reports.loading import Loading
from faber_ledger.cli.ui import texts
from faber_ledger.cli.ui.output import documents_codes, json_option, show, tell, tell_lines, warn_lines, warn_of
from faber_ledger.cli.ui.which_run import run_option, run_to_load, warn_if_kept
from faber_ledger.context.body import COMMAND_BUDGET
from faber_ledger.context.failures import describe_failure
from faber_ledger.context.position import WHAT_THIS_IS
from faber_ledger.context.reload import Reload
from faber_ledger.files.text import clip, cut_middle, escape, units
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError, NotWritable, StateInvalid, StateMissing
from faber_ledger.runs.active import active_run
from faber_ledger.runs.run import find_root
from faber_ledger.runs.settings import read_user_config

if TYPE_CHECKING:
    from faber_ledger.runs.settings import UserConfig

# The client gives the agent a command's output up to 30,000 characters; of a longer one it keeps a file and shows 2 KB.
# Contents of 25,000, three kinds of warnings and the report stay below that.
MOST = 6  # of a kind
LONGEST = 250  # units of a line
BESIDE_CONTENTS = 4_500  # units of warnings and report
LIST_ALL = "`faber-ledger session-load --dry-run` lists all"
CUT = f"\n  … ({LIST_ALL})\n"


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


@click.command("session-load")
@documents_codes
@run_option
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
@click.option("--verbose", is_flag=True, help="Print the whole report, as on a terminal.")
@json_option
def session_load(
    run: str | None,
    trigger: str,
    artifacts: tuple[str, ...],
    minimal: bool,
    hint: str | None,
    force: bool,
    dry_run: bool,
    budget: int,
    content: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Load a run's critical artifacts, print them, and record it.

    On a terminal only the report is printed, and nothing is recorded, unless
    --content is given. Elsewhere the report is short, unless --verbose is given.

    \b
    Example: faber-ledger session-load --artifacts workflow-state,specification
    Exit codes: 0 loaded; 1 no run, its state cannot be read, a required artifact
    failed, or the load cannot be recorded; 2 wrong usage; 130 interrupted.
    A dry run ends with 1 where a required artifact would fail.
    """
    root, is_terminal = find_root(os.getcwd()), sys.stdout.isatty()
    form = Form(
        records=not dry_run and (content or not is_terminal),
        is_whole=verbose or is_terminal,
        has_steps=content and is_terminal,
        is_bounded=not (as_json or dry_run or is_terminal),
        as_json=as_json,
    )
    log: Callable[[str], None] = (lambda line: None) if as_json else tell
    meant = run_to_load(root, run, active_run(root), log, records=form.records)
    if form.records:
        warn_if_kept(meant)
    config = read_user_config()
    requested = _check_given(config, artifacts, minimal)
    is_forced = force or content or minimal or requested is not None
    try:
        loading = Loading(
            meant, config, trigger, requested, now(), warn_of, is_forced=is_forced, is_minimal=minimal, hint=hint
        )
        _warn_of_workflow(loading, form)
        if dry_run:
            _preview(loading, budget, form)
        _load(loading, budget, log, form)
    except (StateMissing, StateInvalid, NotWritable) as error:
        error.block = texts.load_failed(meant, error)
        raise


def _check_given(config: UserConfig, artifacts: tuple[str, ...], minimal: bool) -> list[str] | None:
    """Return the ids of the artifacts that are asked for; None without any. Raises LedgerError and UsageError."""
    if config["problem"]:
        raise LedgerError(config["problem"], hint="correct the file, or remove it")
    names = [name.strip() for given in artifacts for name in given.split(",") if name.strip()]
    if artifacts and not names:
        raise click.UsageError("--artifacts must not be empty.")
    if minimal and artifacts:
        raise click.UsageError("give --minimal or --artifacts, not both.")
    return names if artifacts else None


class Form(NamedTuple):
    """How a load is printed: a look at it on a terminal `records` nothing, and a report that is not whole is short."""

    records: bool
    is_whole: bool
    has_steps: bool
    is_bounded: bool
    as_json: bool


def _warn_of_workflow(loading: Loading, form: Form) -> None:
    problems = [f"⚠️ WARNING: {text}" for text in loading.problems]
    for texts_of in (problems, loading.workflow["warnings"]):
        for text in _first(texts_of, "warnings", form):
            warn_lines(text)


def _preview(loading: Loading, budget: int, form: Form) -> None:
    """Print what would be loaded, and exit with 1 where a required artifact would fail."""
    result, packet = loading.preview(budget)
    show(report.data(loading, result), report.dry_lines(loading, result, _size(packet)), as_json=form.as_json)
    click.get_current_context().exit(1 if result.required_failed else 0)


def _load(loading: Loading, budget: int, log: Callable[[str], None], form: Form) -> None:
    """Load the artifacts, with lines for what is done, and print contents and report; raises what failed."""
    log_steps = log if form.is_whole else (lambda line: None)
    if not form.records:
        log(report.LOOK)
    for line in report.config_lines(loading):
        log_steps(line)
    result = loading.read(dry=False, is_recorded=form.records)
    for line in _first(report.skipped_lines(result), "are skipped", form):
        log_steps(line)
    log_steps(f"Determined {len(loading.selected) - len(result.skipped)} artifacts to load")
    for line in report.step_lines(result) if form.has_steps else ():
        log_steps(line)
    packet, failure = loading.record(result, budget, log) if form.records else ("", None)
    if form.records and failure is None:
        log_steps("✓ Updated state metadata")
    _show(loading, result, packet, failure, form)


def _show(loading: Loading, result: Reload, packet: str, failure: Exception | None, form: Form) -> None:
    """Print what was loaded and the report; raises the failure."""
    warnings = _first(report.warnings(result), "warnings", form)
    for warning in warnings:
        warn_lines(warning)
    room = max(BESIDE_CONTENTS - units("".join(warnings)), LONGEST)
    failure = failure or _required_failure(result, form)
    start, given, rest = packet.partition(WHAT_THIS_IS)
    begins_with_head = (
        bool(given and result.loaded) and start.startswith("# ") and failure is None and not form.is_whole
    )
    if packet and not form.as_json:
        tell_lines("\n".join([*report.head_lines(loading, result), "", rest]) if begins_with_head else packet)
    lines: list[str] = []
    size = _size(packet)
    if failure is None and form.is_whole:
        lines = [*report.lines(loading, result, is_look=not form.records, is_brief=form.has_steps, given_bytes=size)]
    if failure is None and (not lines or (form.is_bounded and units("\n".join(lines)) > room)):
        short = "\n".join(
            map(escape, report.short_lines(loading, result, given_bytes=size, needs_head=not begins_with_head))
        )
        lines = cut_middle(short, room, CUT).split("\n") if short else []
    show({**report.data(loading, result), "context": packet}, lines, as_json=form.as_json)
    if failure is not None:
        raise failure


def _first(texts: Iterable[str], more: str, form: Form) -> list[str]:
    """Return the first texts, each cut to `LONGEST`, and a line that counts the rest; all if unbounded."""
    every = [*texts]
    if not form.is_bounded:
        return every
    kept = [clip(text, LONGEST * len(text.split("\n"))) for text in every[:MOST]]
    return kept if len(every) <= MOST else [*kept, f"… and {len(every) - MOST} more {more}: {LIST_ALL}"]


def _size(packet: str) -> int:
    return len(packet.encode("utf-8", "replace"))


def _required_failure(result: Reload, form: Form) -> LedgerError | None:
    """Return the error of the first required artifact that failed; None if none did."""
    if not result.required_failed:
        return None
    failed = result.required_failed[0]
    errors = [describe_failure(**one) for one in result.required_failed]
    return LedgerError(
        f"required artifact {failed['artifact']['id']}: {failed['error'].message}",
        hint="the error's recovery steps are above",
        block="\n\n".join(_first(errors, "errors", form)),
    )
