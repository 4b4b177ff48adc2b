"""`faber-ledger reconstitute`: put a run's whole context together again (RECON)."""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.output import documents_codes, json_option, json_text, say, show, tell
from faber_ledger.cli.reconstitution_report import boxed, brief, noted
from faber_ledger.cli.scan import run_to_load
from faber_ledger.context.environment import writer_of
from faber_ledger.context.findings import Journal
from faber_ledger.context.notes import notes_of
from faber_ledger.context.project import find_root, find_run, known_run, read_active_run, run_ids
from faber_ledger.context.reconstitution import reconstitute as reconstituted
from faber_ledger.context.reconstitution import run_not_found
from faber_ledger.context.recording import Recording
from faber_ledger.context.session_summaries import build_input
from faber_ledger.context.user_config import read_user_config
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import ChoiceNeeded, LedgerError, RunNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.notes import Note
    from faber_ledger.context.project import Run
    from faber_ledger.ledger.events import ContextReconstituted, Finding

SKIPPED = {"spec_not_readable": "spec", "issue_fetch_auth": "issue", "feedback_mismatch": "feedback"}


@click.command(short_help="Put a run's whole context together again.")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--for", "reader", type=click.Choice(["build"]), help="Print the build skill's input, and nothing else.")
@click.option(
    "--skip",
    type=click.Choice(sorted(SKIPPED.values())),
    multiple=True,
    help="Go on without this if it fails, unasked; may be given again.",
)
@json_option
@documents_codes
def reconstitute(run: str | None, reader: str | None, skip: tuple[str, ...], as_json: bool) -> None:
    """Load everything that a workflow needs to go on with RUN (default: the active run), and record it.

    \b
    Example: faber-ledger reconstitute --json
    Exit codes: 0 done; 1 the run cannot be read, or it was aborted; 2 wrong usage; 3 a choice is needed: --skip.
    """
    root = find_root(os.getcwd())
    log: Callable[[str], None] = (lambda line: None) if as_json or reader else tell
    meant = _run(root, run, log)
    config = read_user_config()
    if config["problem"]:
        raise LedgerError(config["problem"], hint="correct the file, or remove it")
    journal = Journal(log, say, _Chooser(skip))
    context = reconstituted(meant, config, journal)
    notes = _recorded(meant, context, journal.findings)
    if reader:
        data: Any = build_input(context["session_summary"])
        show(data, [json_text(data)], as_json=as_json)
        return
    data = {**context, "notes": notes, "findings": journal.findings}
    show(data, [*boxed(context), *brief(context), *noted(notes)], as_json=as_json)


class _Chooser:
    """Asks how to go on after an ERROR: what `--skip` names is answered with the first option, else the user is."""

    def __init__(self, skip: tuple[str, ...]) -> None:
        self.skip = skip

    def __call__(self, code: str, question: str, options: list[str]) -> int:
        """Give the number of the option chosen; raises ChoiceNeeded without a terminal."""
        if SKIPPED[code] in self.skip:
            say(question.partition("\n\n")[0])
            return 1
        if not sys.stdin.isatty():
            hint = f"ask the user; for option 1 run it again with --skip {SKIPPED[code]}"
            raise ChoiceNeeded(question.partition("\n")[0], hint=hint, block=f"{question}\n\nhint: {hint}")
        say(question)
        while True:
            chosen: int = click.prompt("", prompt_suffix="> ", type=int, err=True)
            if 1 <= chosen <= len(options):
                return chosen
            say(f"There is no number {chosen}.")


def _run(root: str, named: str | None, log: Callable[[str], None]) -> Run:
    """Give the run that is named, the active one, or the one that a scan finds; raises LedgerError."""
    named = named or read_active_run(root)
    if named is None:
        return run_to_load(root, None, log, example="reconstitute")
    try:
        return known_run(root, named)
    except RunNotFound as error:
        if any([run_id.startswith(named) for run_id in run_ids(root)]):
            raise
        raise run_not_found(find_run(root, named)) from error


def _recorded(run: Run, context: dict[str, Any], findings: list[Finding]) -> list[Note]:
    """Record the reconstitution and give the run's notes; a ledger that cannot be used stops nobody."""
    point = context["resume_point"]
    event: ContextReconstituted = {
        "type": "context_reconstituted",
        "status": context["status"],
        "phase": point["phase"] if point else context["current_phase"],
        "step": point["step"] if point else context["current_step"],
        "mode": point["mode"] if point else None,
        "findings": findings,
    }
    notes: list[Note] = []
    try:
        with Recording(run, at=now(), writer=writer_of(run.root), warn=lambda text: say(f"⚠️  {text}")) as recording:
            notes = notes_of(recording.view.log)
            recording.append([{"event": event, "client": os.environ.get("CLAUDE_CODE_SESSION_ID") or None}])
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        say(f"⚠️ WARNING: Reconstitution not recorded\nError: {error}\nNote: Run `faber-ledger verify {run.run_id}`")
    return notes
