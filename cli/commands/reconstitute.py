"""`faber-ledger reconstitute`: put a run's context together again (RECON)."""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.reports.reconstitution import boxed_lines, brief_lines, note_lines
from faber_ledger.cli.ui import completion
from faber_ledger.cli.ui.output import ask_number, documents_codes, json_option, json_text, say, show, tell, warn
from faber_ledger.cli.ui.which_run import match_run, named_run, run_to_load, warn_if_kept, work_id_option
from faber_ledger.context.notes import notes_of
from faber_ledger.context.reconstitution.faber_files import build_input
from faber_ledger.context.reconstitution.journal import Journal
from faber_ledger.context.reconstitution.steps import load_state, reconstitute_context, run_not_found
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import Aborted, ChoiceNeeded
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.ledger.log import Log
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.sessions import client_of
from faber_ledger.runs.active import active_run
from faber_ledger.runs.belonging import belongs_here
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.left_state import run_ids_here
from faber_ledger.runs.progress import current_phase, current_step
from faber_ledger.runs.run import find_root, find_run
from faber_ledger.runs.settings import read_user_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.notes import Note
    from faber_ledger.ledger.events import ContextReconstituted, Finding
    from faber_ledger.runs.active import ActiveRun
    from faber_ledger.runs.progress import ResumePoint
    from faber_ledger.runs.run import Run


SKIPPED = {"spec_not_readable": "spec", "issue_fetch_auth": "issue", "feedback_mismatch": "feedback"}


@click.command(short_help="Reconstitute the context of a run.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=completion.runs)
@work_id_option
@click.option("--for", "reader", type=click.Choice(["build"]), help="Print only the build skill's input.")
@click.option(
    "--skip",
    type=click.Choice(sorted(SKIPPED.values())),
    multiple=True,
    help="Continue without this if it fails, without asking; repeatable.",
)
@json_option
@documents_codes
def reconstitute(
    run: str | None, work_id: str | None, reader: str | None, skip: tuple[str, ...], as_json: bool
) -> None:
    """Load everything that a workflow needs to continue RUN (default: the active run), and record it.

    \b
    Example: faber-ledger reconstitute --json
    Exit codes: 0 done; 1 the run cannot be read, or the command was aborted; 2 wrong usage; 3 it needs --skip.
    """
    root = find_root(os.getcwd())
    log: Callable[[str], None] = (lambda line: None) if as_json or reader else tell
    active = active_run(root)
    run = named_run(root, run, work_id, "reconstitute")
    meant = _run(root, run, active, log)
    is_shown = run is None and (active.is_shown or (active.run_id is None and not belongs_here(root, meant.run_id)))
    warn_if_kept(meant)
    journal = Journal(log, warn, _Chooser(skip))
    try:
        context = reconstitute_context(meant, read_user_config(), journal)
    except (click.Abort, KeyboardInterrupt) as error:  # RECON has no exit code for it
        raise Aborted("interrupted", block="interrupted") from error
    except LedgerError as error:
        error.data |= {"block": error.block, "findings": journal.findings}
        if journal.findings and os.path.isfile(meant.ledger_path) and not is_shown:
            _record_stop(meant, journal)
        raise
    if is_shown:
        notes, others = _read_notes(meant)
    else:
        notes, others = _record(meant, _fact(context, context["resume_point"], journal.findings))
    if reader:
        data: Any = build_input(context["session_summary"], context["current_phase"])
        show(data, [json_text(data)], as_json=as_json)
        return
    data = {**context, "notes": notes, "findings": journal.findings}
    show(data, [*boxed_lines(context), *brief_lines(context), *note_lines(notes, others)], as_json=as_json)


class _Chooser:
    """Chooses an option after an ERROR: the first one if `--skip` names the error, else the one that the user picks."""

    def __init__(self, skip: tuple[str, ...]) -> None:
        self.skip = skip

    def __call__(self, code: str, question: str, options: list[str]) -> int:
        """Return the number of the chosen option; raises ChoiceNeeded without a terminal."""
        if SKIPPED[code] in self.skip:
            warn(question.partition("\n\n")[0])
            return 1
        if not sys.stdin.isatty():
            hint = f"ask the user; for option 1 run it again with --skip {SKIPPED[code]}"
            needed = ChoiceNeeded(question.partition("\n")[0], hint=hint, block=f"{question}\n\nhint: {hint}")
            needed.data["options"] = options
            raise needed
        say(question)
        try:
            return ask_number(len(options))
        except click.Abort as error:
            raise Aborted("interrupted at a question", block="Workflow aborted.") from error


def _run(root: str, named: str | None, active: ActiveRun, log: Callable[[str], None]) -> Run:
    """Return the run that is named, the active one, or the one that a scan finds; raises LedgerError."""
    if named is None and active.run_id is None:
        return run_to_load(root, None, active, log, example="reconstitute", records=False)
    if named is None and active.is_shown:
        warn(f"note: {active.shown_line}")
    named = named or active.run_id or ""
    try:
        return match_run(root, named)
    except RunNotFound as error:
        if any([run_id.startswith(named) for run_id in run_ids_here(root)]):
            raise
        raise run_not_found(find_run(root, named)) from error


def _fact(state: dict[str, Any], point: ResumePoint | None, findings: list[Finding]) -> ContextReconstituted:
    """Return the event that records a reconstitution."""
    return {
        "type": "context_reconstituted",
        "status": state["status"],
        "phase": point["phase"] if point else current_phase(state),
        "step": point["step"] if point else current_step(state),
        "mode": point["mode"] if point else None,
        "findings": findings,
    }


def _record_stop(run: Run, journal: Journal) -> None:
    """Record what was found before an ERROR ended the reconstitution, including the ERROR."""
    journal.finish()
    try:
        fact = _fact(load_state(run), None, journal.findings)
    except LedgerError:
        return  # the state cannot be read: the caller raises that error
    _record(run, {**fact, "mode": "stopped"})


def _read_notes(run: Run) -> tuple[list[Note], int]:
    """Return the newest notes of a run on which nothing is recorded, and how many are left out."""
    try:
        with Log.read(run.ledger_path) as log:
            return notes_of(log)
    except (LedgerError, sqlite3.DatabaseError, OSError):
        return [], 0


def _record(run: Run, event: ContextReconstituted) -> tuple[list[Note], int]:
    """Record the reconstitution; returns the run's newest notes and how many are left out.

    A ledger that cannot be used is only a warning.
    """
    notes: list[Note] = []
    others = 0
    try:
        with Recording(run, at=now(), writer=writer_of(run.root), warn=lambda text: warn(f"⚠️  {text}")) as recording:
            notes, others = notes_of(recording.view.log)
            recording.append([{"event": event, "client": client_of(os.environ)}])
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        warn(f"⚠️ WARNING: Reconstitution not recorded\nError: {error}\nNote: Run `faber-ledger verify {run.run_id}`")
    return notes, others
