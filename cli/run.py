"""`faber-ledger run`: start, resume and list the runs of a project; `workflow-run` is the documents' name for both."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from faber_ledger.cli.output import documents_codes, json_option, say, show, tell
from faber_ledger.cli.run_list import run_list
from faber_ledger.context import state as states
from faber_ledger.context.packet import position
from faber_ledger.context.project import find_root, find_run, known_run
from faber_ledger.context.resume import resume_point
from faber_ledger.context.start import active_elsewhere, start_run, take_up
from faber_ledger.context.user_config import read_user_config
from faber_ledger.context.workflow import load_workflow
from faber_ledger.ledger import identity
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.start import Plan

DEFAULT_WORKFLOW = "fractary-faber:default"
CANCELLED = "Workflow start cancelled. Use separate worktrees for concurrent workflows."
QUESTION = (
    "Do you want to proceed anyway? This will take over context management\n"
    "for this worktree, potentially interfering with the other workflow. [y/N]: "
)


@click.group(short_help="Start, resume and list runs.")
def run() -> None:
    """Start, resume and list the runs of this project."""


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a run's start."""
    for option in (
        click.option("--yes", is_flag=True, help="Take over from another active workflow without asking."),
        click.option("--target", help="What is being worked on, in words.", metavar="TEXT"),
        click.option("--plan-id", help="The plan that this run carries out.", metavar="ID"),
        click.option(
            "--workflow", default=DEFAULT_WORKFLOW, show_default=True, help="The workflow's id.", metavar="ID"
        ),
        click.option(
            "--run-id", metavar="RUN", help="The new run's id, instead of one made from project, work item and time."
        ),
        click.option("--work-id", help="The work item, for example an issue's number.", metavar="ID"),
    ):
        command = option(command)
    return command


run.add_command(run_list)


@run.command(short_help="Start a run and make it the active one.")
@start_options
@json_option
def start(as_json: bool, yes: bool, **given: str | None) -> None:
    """Start a run: its folder, its state.json, its ledger, and the active file.

    \b
    Example: faber-ledger run start --work-id 258
    Exit codes: 0 started; 1 declined, or it could not be; 2 wrong usage.
    """
    begin(as_json, yes, given)


@run.command(short_help="Make a run the active one; say where it goes on.")
@click.argument("run_id", metavar="RUN")
@click.option("--yes", is_flag=True, help="Take over from another active workflow without asking.")
@json_option
def resume(run_id: str, yes: bool, as_json: bool) -> None:
    """Make a run the active one of this worktree, and say where it goes on.

    \b
    Example: faber-ledger run resume myproject-258-20260105-143022-a1b2c3
    Exit codes: 0 done, or there is nothing to resume; 1 declined, or its state
    cannot be read; 2 wrong usage; 10 no such run.
    """
    go_on(run_id, yes, as_json)


@click.command("workflow-run", short_help="Alias of `run start`; --resume: of `run resume`.")
@start_options
@click.option("--resume", "resumed", metavar="RUN", help="Resume this run instead of starting one.")
@json_option
def workflow_run(resumed: str | None, as_json: bool, yes: bool, **given: str | None) -> None:
    """Start a run, or resume one with --resume: the documents' name for `run start` and `run resume`.

    \b
    Example: faber-ledger workflow-run --work-id 258
    Exit codes: those of `run start` and `run resume`.
    """
    if resumed is None:
        begin(as_json, yes, given)
    else:
        go_on(resumed, yes, as_json)


@documents_codes
def begin(as_json: bool, yes: bool, given: dict[str, str | None]) -> None:
    """Start a run with the options given; raises LedgerError, and UsageError if nothing says what it is about."""
    root, at = find_root(os.getcwd()), now()
    work_id, target = given["work_id"], given["target"]
    if not work_id and not target:
        raise click.UsageError("Say what the run is about with --work-id or --target.")
    plan: Plan = {
        "workflow_id": given["workflow"] or DEFAULT_WORKFLOW,
        "work_id": work_id or None,
        "plan_id": given["plan_id"] or None,
        "target": target or f"Work item {work_id}",
    }
    about = _segment(work_id or target or "")
    run_id = given["run_id"] or identity.run_id(_segment(os.path.basename(root)) or "run", about, at, os.urandom(6))
    new = find_run(root, run_id)
    if os.path.lexists(new.directory):
        raise LedgerError(f"the run {run_id} exists already", hint=f"run `faber-ledger run resume {run_id}`")
    load_workflow(root, plan["workflow_id"], read_user_config()["plugin_roots"])
    _take_over(root, run_id, about, yes, as_json)
    started = start_run(root, run_id, plan, at=at, warn=say)
    show(
        {"run_id": run_id, "directory": started.directory, "workflow_id": plan["workflow_id"]},
        [
            f"✓ Workflow started: {run_id}",
            f"  Workflow: {plan['workflow_id']}",
            f"  State: {started.shown('state.json')}",
            f"  Ledger: {started.shown('ledger.db')}",
        ],
        as_json=as_json,
    )


def go_on(text: str, yes: bool, as_json: bool) -> None:
    """Make a run the active one; raises LedgerError."""
    root = find_root(os.getcwd())
    resumed = known_run(root, text)
    state = states.read_state(resumed).value
    point = resume_point(state)
    if point is None:
        lines = [
            "ℹ Workflow already completed - nothing to resume"
            if state.get("status") == "completed"
            else f"ℹ Workflow was {state.get('status')} - cannot resume"
        ]
    else:
        _take_over(root, resumed.run_id, _segment(str(state.get("work_id") or "resumed")), yes, as_json)
        take_up(resumed, at=now(), environ=os.environ, source="run_resume", warn=say)
        lines = [
            f"✓ Workflow resumed: {resumed.run_id}",
            *[f"  {line}" for line in position(resumed.run_id, state)[2:]],
        ]
    show({"run_id": resumed.run_id, "status": state.get("status"), "resume_point": point}, lines, as_json=as_json)


def _segment(text: str) -> str:
    """Make a part of a run id of a text: its letters, digits, dots, dashes and underscores."""
    kept = "".join([letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text])
    return kept.strip("._-")[:60].rstrip("._-")


def _take_over(root: str, run_id: str, about: str, yes: bool, as_json: bool) -> None:
    """Warn where another workflow is active in this worktree, and ask (SPEC, section 5 and Example 4)."""
    other = active_elsewhere(root, run_id)
    if other is None:
        return
    line = say if as_json else tell
    active, status = other
    if status is None or status in states.FINISHED:
        line(f"ℹ The active run was {active} ({status or 'its state cannot be read'}); {run_id} takes its place.")
        return
    worktree = f"../{_segment(os.path.basename(root)) or 'project'}-issue-{about}"
    for text in (
        "⚠️  WARNING: Another workflow is active in this worktree",
        f"   Active: {active}",
        f"   New: {run_id}",
        "",
        "Recommendation: Use separate worktrees for concurrent workflows:",
        f"  git worktree add {worktree} -b feature/{about}",
        f"  cd {worktree}",
        f"  /fractary-faber:workflow-run --work-id {about} [faber-ledger run start --work-id {about}]",
        "",
    ):
        line(text)
    if not yes and not _agreed(as_json):
        line(CANCELLED)
        click.get_current_context().exit(1)


def _agreed(as_json: bool) -> bool:
    if not sys.stdin.isatty():
        return False
    click.echo(QUESTION, nl=False, err=as_json)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
