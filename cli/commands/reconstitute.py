"""`faber-ledger reconstitute`: put a run's context together again (RECON)."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.reports.loading import look_elsewhere
from faber_ledger.cli.ui import output
from faber_ledger.cli.ui.git_words import hint_to_ask
from faber_ledger.cli.ui.which_run import run_argument, run_to_load, warn_if_kept
from faber_ledger.context.body import COMMAND_BUDGET
from faber_ledger.context.position import render_position
from faber_ledger.context.reconstitution.content import PARTS, Sources, read_known, render_content
from faber_ledger.context.reconstitution.faber_files import LedgerFacts, build_input, count_sessions, event_line
from faber_ledger.context.reconstitution.journal import Journal, says_something, text_or_na
from faber_ledger.context.reconstitution.steps import load_state, point_text, reconstitute_context, run_not_found
from faber_ledger.context.selection import workflow_of
from faber_ledger.files.text import one_line
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import ChoiceNeeded
from faber_ledger.ledger.errors import LedgerError, RunNotFound, WorkflowNotFound
from faber_ledger.recording.left_facts import record_or_leave
from faber_ledger.recording.secrets.mask import mask_text
from faber_ledger.recording.sessions import client_of, live_start, session_of
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.of_work import describe_other_runs
from faber_ledger.runs.progress import FINISHED, current_phase, current_step
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.settings import read_user_config

if TYPE_CHECKING:
    from faber_ledger.context.workflow import Workflow
    from faber_ledger.ledger.events import ContextReconstituted, Finding
    from faber_ledger.runs.progress import ResumePoint

REPORT = "report"  # the part that is the documents' report
SKIPPED = {"spec_not_readable": "spec", "issue_fetch_auth": "issue", "feedback_mismatch": "feedback"}
RETRIES = {  # the options between the first and the last
    "spec_not_readable": ["write the specification again (/fractary-spec:create), then run it again"],
    "issue_fetch_auth": ["check the work plugin's credentials, then run it again"],
}


@click.command()
@output.documents_codes
@run_argument
@click.option("--for", "reader", type=click.Choice(["build"]), help="Print only the build skill's input.")
@click.option(
    "--skip",
    type=click.Choice(sorted(SKIPPED.values())),
    multiple=True,
    help="Continue without this if it fails, without asking; repeatable.",
)
@click.option("--only", type=click.Choice([*PARTS, REPORT]), multiple=True, help="Print this part alone; repeatable.")
@click.option(
    "--budget",
    type=click.IntRange(min=1000),
    default=COMMAND_BUDGET,
    show_default=True,
    metavar="N",
    help="How much to print before the report, in UTF-16 code units.",
)
@click.option("--verbose", is_flag=True, help="Print the whole report, as on a terminal.")
@output.json_option
def reconstitute(
    run: str | None,
    reader: str | None,
    skip: tuple[str, ...],
    only: tuple[str, ...],
    budget: int,
    verbose: bool,
    as_json: bool,
) -> None:
    """Load everything that a workflow needs to continue RUN (default: the active run), print it, and record it.

    What matters most comes first. On a terminal or with --verbose the report of the steps follows.

    \b
    Example: faber-ledger reconstitute --only decisions --only events
    Exit codes: 0 done; 1 the run cannot be read, or the workflow was aborted; 2 wrong usage; 3 it needs --skip;
    130 interrupted.
    """
    if only and (as_json or reader):
        raise click.UsageError("--only chooses what the text has: give it without --json and --for.")
    meant = _find_run(run, (lambda line: None) if as_json or reader else output.tell)
    report: list[str] = []
    journal = Journal(report.append, output.warn_lines, partial(_choose, skip))
    has_content = not (as_json or reader or only == (REPORT,))
    has_report = REPORT in only or (not only and (verbose or sys.stdout.isatty()))
    config = read_user_config()
    try:
        state = load_state(meant)
        elsewhere = look_elsewhere(meant, state) if has_content else None
        known = read_known(meant, state, elsewhere, client_of(os.environ), output.warn_of)
        known["before"] += describe_other_runs(meant, state) if has_content else []
        context = reconstitute_context(meant, state, config, journal, known)
    except (click.Abort, KeyboardInterrupt, LedgerError) as error:
        _stop(meant, journal, error, [] if as_json or reader else report)
        raise
    if context["resume_point"] is not None:  # a look at a finished run changes nothing
        _record(meant, _fact(context, context["resume_point"], journal.findings))
    if reader:
        data: Any = build_input(context["session_summary"], context["current_phase"], known["summaries"])
        output.show(data, output.json_text(data).split("\n"), as_json=as_json)
        return
    more = {"notes": known["notes"], "ledger_summaries": known["summaries"], "findings": journal.findings}
    if has_content:
        workflow, is_over = _find_workflow(meant, state, config["plugin_roots"]), state.get("status") in FINISHED
        about: dict[str, Any] = {"workflow": workflow, "answers": known["notes"], "asked_at": now()}
        about["branch"] = known["branch_to_switch"]
        position = render_position(meant, state, before=[] if is_over else known["before"], **about)
        sources: Sources = {"context": context, "state": state, "position": position, "known": known}
        output.tell_lines(render_content(sources, budget=budget, only=only))
    summaries = filter(says_something, [*boxed_lines(context, known), *brief_lines(context, known)])
    lines = [*report, *summaries] if has_report else []
    output.show({**context, **more}, ["", *lines] if has_content and lines else lines, as_json=as_json)


def _find_run(run: str | None, log: Callable[[str], None]) -> Run:
    """Return the run to reconstitute; raises LedgerError, with the documents' words."""
    root = find_root(os.getcwd())
    try:
        found = run_to_load(root, run, active_run(root), log, records=True, takes_up=False)
    except RunNotFound as error:
        lost = run_not_found(find_run(root, run or ""))
        lost.block += f"\n{hint_to_ask(root, run or '')}" if carries_refs(root) else ""
        raise lost from error
    warn_if_kept(found)
    return found


def _stop(run: Run, journal: Journal, error: BaseException, report: list[str]) -> None:
    """Print how far a reconstitution came, and record what it found."""
    if report:
        output.show(None, report, as_json=False)
    if isinstance(error, LedgerError):
        error.data |= {"block": error.block, "findings": journal.findings}
    if journal.findings and not lacks_ledger(run):
        _record_stop(run, journal)


def _choose(skip: tuple[str, ...], code: str, question: str, options: list[str]) -> int:
    """Return the first option after an ERROR that `skip` names, else the one that the user picks.

    Raises ChoiceNeeded without a terminal.
    """
    if SKIPPED[code] in skip:
        output.warn_lines(question.partition("\n\n")[0])
        return 1
    if not sys.stdin.isatty():
        ways = [f"run it again with --skip {SKIPPED[code]}", *RETRIES.get(code, ()), "end the workflow here"]
        hint = f"ask the user; {'; '.join([f'option {number}: {way}' for number, way in enumerate(ways, 1)])}"
        block = f"{question}\n\nhint: {hint}"
        raise ChoiceNeeded(question.partition("\n")[0], hint=hint, block=block, data={"options": options})
    output.say_lines(question)
    return output.ask_number(len(options))


def _find_workflow(run: Run, state: dict[str, Any], plugin_roots: list[str]) -> Workflow | None:
    """Return a run's workflow, which says what its steps are; None if it cannot be used."""
    try:
        return workflow_of(run, state, plugin_roots)
    except WorkflowNotFound:
        return None


def _fact(state: dict[str, Any], point: ResumePoint | None, findings: list[Finding]) -> ContextReconstituted:
    """Return the event that records a reconstitution."""
    return {
        "type": "context_reconstituted",
        "status": state["status"],
        "phase": point["phase"] if point else current_phase(state),
        "step": point["step"] if point else current_step(state),
        "mode": point["mode"] if point else None,
        "findings": [{**one, "told": mask_text(one["told"])} for one in findings],
    }


def _record_stop(run: Run, journal: Journal) -> None:
    """Record what was found before an ERROR ended the reconstitution, including the ERROR."""
    try:
        state = load_state(run)
    except LedgerError:
        return  # the state cannot be read: the caller raises that error
    if state["status"] not in FINISHED:
        _record(run, {**_fact(state, None, journal.findings), "mode": "stopped"})


def _record(run: Run, event: ContextReconstituted) -> None:
    """Record the reconstitution; a ledger that cannot be used is only a warning."""
    try:
        client, writer = client_of(os.environ), writer_of(run.root)
        with record_or_leave(run, at=now(), writer=writer, warn=output.warn_of) as recording:
            if client and (session_id := session_of(live_start(run, recording.view, client))):
                event["session_id"] = session_id
            recording.append([{"event": event, "client": client}])
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        output.warn_lines(
            f"⚠️ WARNING: Reconstitution not recorded\nError: {one_line(error)}\n"
            f"Note: Run `faber-ledger verify {run.run_id}`"
        )


# The summaries at the end (RECON, 0.8 and Context Summary)

RULE = "═" * 59
RESUMED = {
    "after_feedback": "Resuming after feedback",
    "continue": "Continuing from {}",
    "retry": "Retrying {}",
    "start": "Starting from beginning",
}


def boxed_lines(context: dict[str, Any], known: LedgerFacts) -> Iterator[str]:
    """Yield the boxed summary."""
    point, summary = context["resume_point"], context["session_summary"]
    yield ""
    yield RULE
    yield "  CONTEXT RECONSTITUTION COMPLETE"
    yield RULE
    yield f"  Run ID:        {context['run_id']}"
    yield f"  Work ID:       {text_or_na(context['work_id'])}"
    yield f"  Status:        {context['status']}"
    yield f"  Resume Mode:   {point['mode'] if point else 'N/A'}"
    yield f"  Spec:          {_spec(context)}"
    yield f"  Branch:        {_branch(context)}"
    yield f"  Events:        {len(context['events']) + known['events']} loaded"
    yield f"  Sessions:      {_sessions(context, known)} previous"
    if summary:
        yield f"  Last Phase:    {text_or_na(summary['phase_completed'])}"
        yield f"  Next Phase:    {_next_phase(summary)}"
    yield RULE
    yield ""


def brief_lines(context: dict[str, Any], known: LedgerFacts) -> Iterator[str]:
    """Yield the brief summary."""
    summary = context["session_summary"]
    yield f"✓ Context reconstituted for run: {context['run_id']}"
    yield f"  Work Item: {_work_item(context)}"
    yield f"  Spec: {_spec(context)}"
    yield f"  Branch: {_branch(context)}"
    yield f"  Status: {context['status']} → {_describe_resume(context)}"
    completed = summary["phase_completed"] if summary else None
    last = f" (last: {text_or_na(completed)} complete)" if completed else ""
    yield f"  Sessions: {_sessions(context, known)} previous{last}"
    if summary:
        yield f"  Next Phase: {_next_phase(summary)}"
    if context["events"]:
        yield f"  Last Event: {event_line(context['events'][-1])}"


def _spec(context: dict[str, Any]) -> str:
    return text_or_na(context["artifacts"].get("spec_path") or "Not created")


def _branch(context: dict[str, Any]) -> str:
    return text_or_na(context["artifacts"].get("branch_name") or "Not created")


def _sessions(context: dict[str, Any], known: LedgerFacts) -> int:
    history = context["session_history"]
    return count_sessions(history["all_summaries"] if history else [], known)


def _next_phase(summary: dict[str, Any]) -> str:
    return text_or_na(summary["remaining_phases"][0]) if summary["remaining_phases"] else "None"


def _work_item(context: dict[str, Any]) -> str:
    if context["work_id"] is None:
        return "N/A"
    issue = context["issue"]
    return f"#{text_or_na(context['work_id'])}" + (f" - {text_or_na(issue['title'])}" if issue else "")


def _describe_resume(context: dict[str, Any]) -> str:
    point = context["resume_point"]
    if point is None:
        return "Nothing to resume" if context["status"] == "completed" else "Cannot resume"
    return RESUMED[point["mode"]].format(point_text(point))
