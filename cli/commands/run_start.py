"""`faber-ledger run start` and `run resume`; `workflow-run` is the requirement documents' name for both."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import click

from faber_ledger.cli.reports.run_list import check_is_new, find_here, is_lacking, phase_lines, stop_lines
from faber_ledger.cli.sync.agreement import describe_sending, find_work_at_remote, newest_of_work
from faber_ledger.cli.sync.arrival import bring_run_from_refs
from faber_ledger.cli.ui.git_words import hint_to_ask, ways_to_unfinished
from faber_ledger.cli.ui.output import documents_codes, json_option, say, show, tell, warn
from faber_ledger.cli.ui.server import names_server, server_options
from faber_ledger.cli.ui.which_run import (
    check_in_tree,
    complete_runs,
    hint_to_list,
    match_run,
    named_run,
    run_or_work_item,
    work_id_option,
)
from faber_ledger.cli.ui.words import place_lines
from faber_ledger.cli.worktrees import creation
from faber_ledger.cli.worktrees.git import can_add, refuse_bare
from faber_ledger.cli.worktrees.other_run import Successor, other_active_run, takeover_lines, work_to_resume
from faber_ledger.cli.worktrees.survey import update_registry
from faber_ledger.context.branch import branch_of_run, describe_other_branch, has_branch, has_files
from faber_ledger.context.workflow import load_workflow
from faber_ledger.files.text import quote_word
from faber_ledger.hooks.client_plugins import list_unanswered
from faber_ledger.ledger import clock
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import AmbiguousRun, Declined, UsageFailed
from faber_ledger.ledger.errors import LedgerError, RunNotFound, WorkflowNotFound
from faber_ledger.recording.sessions import client_of
from faber_ledger.recording.start import RunPlan, activate_run, lock_takeover, start_run
from faber_ledger.runs import state_file, state_write
from faber_ledger.runs.active import active_run
from faber_ledger.runs.carry import Consent, sender_of
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import branch_of, default_branch
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.of_work import describe_other_runs
from faber_ledger.runs.progress import DEFAULT_TARGET, DEFAULT_WORKFLOW, branch_name, resume_point
from faber_ledger.runs.projecting import find_restorable, restore_gone, restore_ignored
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run, find_root, name_part
from faber_ledger.runs.settings import project_settings, read_user_config

CANCELLED = "Workflow start cancelled. Use separate worktrees for concurrent workflows."
NOT_LOADED = "This conversation was not given the run's context: run `faber-ledger session-load`."
NO_HOOKS = "A client has not all hooks there: `faber-ledger doctor`, run there, says what to do."
ENTER_W = "Enter w to create that worktree and start there."
ADD_YES = "Add --yes to take over this worktree."
ADD_OPTION = "Add --worktree to create that worktree and start there, or --yes to take over this one."
NO_SERVER = (
    "a run of the team's server is brought with --url, or where FABER_LEDGER_URL or the user's configuration names it"
)
QUESTION = (
    "Do you want to proceed anyway? This will take over context management\n"
    "for this worktree, potentially interfering with the other workflow. [y/N]: "
)


def start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `run start` to a command."""
    for option in (
        click.option(
            "--worktree",
            "in_worktree",
            is_flag=True,
            help="Create ../PROJECT-issue-ID on the new branch feature/ID, and start there.",
        ),
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


@click.command(short_help="Start a run and make it the active one.")
@start_options
@json_option
def start(as_json: bool, yes: bool, in_worktree: bool, **given: str | None) -> None:
    """Start a run: its folder, its state.json, its ledger, and the active file; with --worktree in one of its own.

    \b
    Example: faber-ledger run start --work-id 258
    Exit codes: 0 started; 1 declined, or not started; 2 wrong usage.
    """
    begin(as_json, yes, in_worktree, given)


@click.command(short_help="Make a run the active one; show where it continues.")
@click.argument("run", required=False, metavar="[RUN]", shell_complete=complete_runs)
@click.option("--run-id", metavar="RUN", shell_complete=complete_runs, help="The same as RUN.")
@work_id_option
@click.option("--yes", is_flag=True, help="Take over from another active workflow without asking.")
@server_options
def resume(run: str | None, run_id: str | None, work_id: str | None, yes: bool, url: str | None, as_json: bool) -> None:
    """Make RUN, or the run of a work item, the active one of this worktree, and show where it continues.

    A run that this clone does not have is brought from the remote, where ledgers travel in git refs, or from the team's
    server, if one is named: its ledger, with every event checked, and its newest state.json. With --url, new events are
    fetched of any run; a state.json that is here stays.

    \b
    Example: faber-ledger run resume myproject-258-20260105-143022-a1b2c3
    Exit codes: 0 done, or there is nothing to resume; 1 declined, or its state
    cannot be read; 2 wrong usage; 3 a choice without a terminal; 10 no such run; 12 the
    server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    if run is not None and run_id is not None:
        raise click.UsageError("give RUN or --run-id, not both")
    root = find_root(os.getcwd())
    named = _name_to_resume(root, run or run_id, work_id)
    if named is None:
        active = active_run(root).run_id
        raise UsageFailed("give RUN or --work-id", hint=f"run `faber-ledger run resume {active or '--help'}`")
    resume_run(named, yes, as_json, url)


@click.command("workflow-run")
@start_options
@click.option(
    "--resume", "resumed", metavar="RUN", shell_complete=complete_runs, help="Resume this run instead of starting one."
)
@json_option
def workflow_run(resumed: str | None, as_json: bool, yes: bool, in_worktree: bool, **given: str | None) -> None:
    """Start a run, or resume one with --resume: the documents' name for `run start` and `run resume`.

    \b
    Example: faber-ledger workflow-run --work-id 258
    Exit codes: those of `run start` and `run resume`.
    """
    if resumed is None:
        begin(as_json, yes, in_worktree, given)
        return
    if in_worktree:
        raise click.UsageError("--worktree needs a new run: a resumed run is on its own branch.")
    for option in [one for one in ("work_id", "target", "plan_id", "run_id") if given[one] is not None]:
        warn(f"note: --{option.replace('_', '-')} {given[option]} is not used: a resumed run keeps its own")
    resume_run(_name_to_resume(find_root(os.getcwd()), resumed, None) or "", yes, as_json)


@documents_codes
def begin(as_json: bool, yes: bool, in_worktree: bool, given: dict[str, str | None]) -> None:
    """Start a run with the given options; raises LedgerError, and UsageError without --work-id and --target."""
    root, at = find_root(os.getcwd()), now()
    refuse_bare(root)
    _warn_of_active_file(root)
    plan, about = _plan_run(given)
    run_id = given["run_id"]
    if run_id is None:
        run_id = clock.run_id(creation.project_name(root), about, at, os.urandom(6))
    _check_new(root, run_id, plan, is_given=given["run_id"] is not None)
    warnings: list[str] = []
    started = None
    option, value = ("--work-id", given["work_id"]) if given["work_id"] else ("--target", plan["target"])
    subject = f"{option} {quote_word(value)}"
    asked = f"/fractary-faber:workflow-run {subject} [faber-ledger run start {subject}]"
    if not in_worktree:
        can_make = can_add(root) and creation.is_free(root, creation.plan_worktree(root, about))
        new = Successor(root, run_id, about, asked, offers_worktree=can_make, work_id=given["work_id"])
        with lock_takeover(root) or nullcontext():
            warnings, in_worktree = _take_over(new, yes=yes, as_json=as_json)
            if not in_worktree:
                runs = project_settings(root, os.environ).new_runs
                started = _start(root, run_id, plan, at, os.environ, "manual", runs)
    if started is not None:
        not_loaded = [NOT_LOADED] if client_of(os.environ) else []
        made, lines = None, [*_start_lines(started, plan), *place_lines(root), *not_loaded]
    else:
        own = creation.plan_worktree(root, about)
        started = _start_in_worktree(root, own, run_id, plan, at)
        lines = [
            f"✓ Worktree created: {creation.shorten_path(own.folder)} (branch {own.branch})",
            *_start_lines(started, plan),
            *([NO_HOOKS] if list_unanswered(own.root) else []),
            f"Next: cd {quote_word(creation.shorten_path(own.root))}, and start the client there",
        ]
        made = {"path": own.folder, "branch": own.branch}
    data = {"run_id": run_id, "directory": started.directory, "workflow_id": plan["workflow_id"], "warnings": warnings}
    show(data | {"worktree": made}, lines, as_json=as_json)


def _plan_run(given: dict[str, str | None]) -> tuple[RunPlan, str]:
    """Return what the run is about, also as part of a name; raises UsageError without --work-id and --target."""
    work_id, target = given["work_id"], given["target"]
    if not work_id and not target:
        raise click.UsageError("Say what the run is about with --work-id or --target.")
    plan: RunPlan = {
        "workflow_id": given["workflow"] or DEFAULT_WORKFLOW,
        "work_id": work_id or None,
        "plan_id": given["plan_id"] or None,
        "target": target or DEFAULT_TARGET.format(work_id),
    }
    return plan, name_part(work_id or target or "")


def _check_new(root: str, run_id: str, plan: RunPlan, *, is_given: bool) -> None:
    """Raise LedgerError for an id that cannot be a new run's, or a workflow that cannot be read."""
    check_is_new(root, run_id, everywhere=is_given)
    try:
        load_workflow(root, plan["workflow_id"], read_user_config()["plugin_roots"])
    except WorkflowNotFound as error:  # there is no state.json yet that could be corrected
        error.hint = error.hint.replace("correct workflow_id in state.json", "give another --workflow")
        error.block = error.block.replace("Correct workflow_id in state.json", "Give another --workflow")
        raise


def _start_in_worktree(root: str, own: creation.Plan, run_id: str, plan: RunPlan, at: float) -> Run:
    with lock_takeover(root) or nullcontext():  # of two starts for one work item the later would take the other's back
        creation.make(root, own, warn)
    try:
        load_workflow(own.root, plan["workflow_id"], read_user_config()["plugin_roots"])
        # A client that runs this command stays in its own folder, and so do its hooks: no session is opened.
        return _start(own.root, run_id, plan, at, {}, "fractary-faber", project_settings(root, os.environ).new_runs)
    except BaseException:
        creation.take_back(root, own)
        raise


def _start(
    root: str, run_id: str, plan: RunPlan, at: float, environ: Mapping[str, str], created_by: str, runs: str
) -> Run:
    member = creation.state_member(root, at, created_by)
    started = start_run(root, run_id, plan, at=at, environ=environ, warn=say, runs=runs, worktree=member)
    update_registry(root, at=at, warn=say)
    return started


def _start_lines(started: Run, plan: RunPlan) -> list[str]:
    by_ref, work_id = f"in this clone; {describe_sending(started.root)}", plan["work_id"]
    elsewhere = ways_to_unfinished(started.root, work_id) if work_id else []
    lines = [
        f"✓ Workflow started: {started.run_id}",
        *([f"  Workflow: {plan['workflow_id']}"] if plan["workflow_id"] != DEFAULT_WORKFLOW else []),
        f"  State: {started.shown(started.state_path)}",
        *([f"  Ledger: {by_ref}"] if carries_refs(started.root) else []),
        *[f"  {sentence}" for sentence in describe_other_runs(started, dict(plan))],
        *[f"  An unfinished run of this work item is {way}" for way in elsewhere],
    ]
    if not os.path.exists(os.path.join(started.root, ".fractary", ".gitignore")):
        lines.append("Run `faber-ledger init` for the client's hooks, and to keep backups and logs out of git.")
    return lines


def _name_to_resume(root: str, text: str | None, work_id: str | None) -> str | None:
    """Return the run to resume, as `named_run` does; of a work item also one that only the remote has."""
    if text is not None and work_id is None:
        text, work_id = run_or_work_item(root, text)
    try:
        named = named_run(root, text, work_id)
    except RunNotFound as error:
        named = find_work_at_remote(root, work_id or "", warn)
        if named is None:
            _add_where_else(error, root)
            raise
        return named
    is_of_work = work_id is not None and named is not None and named != text
    return newest_of_work(root, named or "", work_id or "", warn) if is_of_work else named


def resume_run(text: str, yes: bool, as_json: bool, url: str | None = None) -> None:
    """Make a run the active one; raises LedgerError."""
    root = find_root(os.getcwd())
    _warn_of_active_file(root)
    was_here, before = find_here(root, text) is not None, other_active_run(root, text)
    text = _bring_run(root, text, url, is_sure=yes)
    try:
        wanted = find_restorable(root, text) or match_run(root, text)
    except RunNotFound as error:
        _add_where_else(error, root)
        raise
    command = f"/fractary-faber:workflow-run --resume {wanted.run_id} [faber-ledger run resume {wanted.run_id}]"
    warnings: list[str] = []
    at, is_new = now(), False
    with lock_takeover(root) or nullcontext():
        there = run_here(root, wanted.run_id)
        if there.is_kept and not os.path.lexists(there.state_path) and has_files(there, default_branch(root)):
            check_in_tree(there)  # merged, and its state was never read here
        about = work_to_resume(there)
        if about is not None:  # asked before anything is written
            branch = branch_of_run(there)
            branch = branch if branch is not None and has_branch(root, branch) else None
            new = Successor(root, wanted.run_id, about, command, before=before, branch=branch)
            warnings, _ = _take_over(new, yes=yes, as_json=as_json)
        is_on_branch = branch_of(root) is not None and there.is_kept and has_files(there, branch_of_run(there))
        is_over = there.is_kept and about is None
        if not (is_on_branch or is_over):  # else they come with it, or nobody needs them
            restore_gone(root, wanted.run_id, say)
        resumed = match_run(root, wanted.run_id)
        restore_ignored(resumed, say)
        state = _state_with_status(resumed)
        point, status = resume_point(state), state["status"]
        if point is not None:
            is_new = activate_run(resumed, at=at, environ=os.environ, warn=say)
    if point is None:
        completed = "ℹ Workflow already completed - nothing to resume"
        lines = [completed if status == "completed" else "ℹ Workflow was cancelled - cannot resume"]
        lines += [] if was_here else ["  It was not in this clone: it was fetched."]
    else:
        update_registry(root, at=at, warn=say)
        lines = [f"✓ Workflow resumed: {resumed.run_id}"]
        lines += [f"  {line}" for line in [*phase_lines(resumed, state), *stop_lines(resumed, state)]]
    lines += [f"  {line}" for line in _lines_about_branch(resumed, state)]
    lines += [NOT_LOADED] if is_new else []
    data = {"run_id": resumed.run_id, "status": status, "resume_point": point, "warnings": warnings}
    show(data, lines, as_json=as_json)


def _lines_about_branch(run: Run, state: dict[str, Any]) -> Iterator[str]:
    """Yield the run's branch, if it is at work and another one is checked out here."""
    is_unclear = run.is_kept or branch_of(run.root) == default_branch(run.root)
    named = branch_of_run(run) if is_unclear else branch_name(state)
    if other := describe_other_branch(run, state, named):
        yield f"Branch: {named}{other}"


def _add_where_else(error: RunNotFound, root: str) -> None:
    """Add to an error where else the run may be, once the remote was asked."""
    if sender_of(root) is not None and "run resume" in (error.hint or ""):
        error.hint = hint_to_list(root)
    is_joined = bool(Consent(root).server) and not names_server()
    elsewhere = hint_to_ask(root) if carries_refs(root) else NO_SERVER if is_joined else ""
    error.hint += f"; {elsewhere}" if elsewhere and elsewhere not in error.hint else ""


def _state_with_status(run: Run) -> dict[str, Any]:
    """Return a run's state; one that was written from the ledger has no status, and to resume a run is to continue it.

    Raises LedgerError.
    """
    state = state_file.read_state(run).value
    if state.get("status") is None:
        with lock_run(run):
            state_write.write_members(run, {"status": "in_progress"}, warn=say)
        say("⚠️  its state had no status; it is now in_progress")
        state = state_file.read_state(run).value
    state_file.check_status(run, state)
    return state


def _bring_run(root: str, text: str, url: str | None, *, is_sure: bool) -> str:
    """Bring a run from the server, if one is named by `url`, or this clone lacks the run or its state.

    Where ledgers travel in git refs, their remote is asked first. Returns the run's id, or `text` where no server was
    asked. One that is only configured may be away: then the user is warned, and this clone decides if it has the run,
    or the project has no id. Raises as `bring_run`.
    """
    if url is None and (brought := bring_run_from_refs(root, text, warn)) is not None:
        return brought
    if url is None and not (names_server() and is_lacking(root, text)):
        return text
    from faber_ledger.cli.sync.exchange import bring_run  # most runs are here

    try:
        return bring_run(root, text, url, say, is_sure=is_sure)
    except (AmbiguousRun, RunNotFound):
        raise
    except LedgerError as error:
        is_here = find_here(root, text) is not None
        has_project = project_settings(root, os.environ).project is not None
        if url is not None or (has_project and not is_here):
            raise
        warn(f"the team's server could not be asked: {error.message}{f' ({error.hint})' if error.hint else ''}")
        return text


def _warn_of_active_file(root: str) -> None:
    if problem := active_run(root, by_author=False).problem:
        warn(f"note: {problem}")


def _take_over(new: Successor, *, yes: bool, as_json: bool) -> tuple[list[str], bool]:
    """Warn where another workflow is active in this worktree, and ask (SPEC, section 5 and Example 4).

    Where that run has another branch it is only named. Returns the warnings, which are not printed with `as_json`, and
    whether the user wants a worktree for the new run. The caller holds `lock_takeover` until the new run is active.
    Raises Declined.
    """
    other = other_active_run(new.root, new.run_id) or new.left_behind()
    if other is None:
        return [], False
    is_asked = not (other.is_over or yes or as_json) and sys.stdin.isatty()
    if is_asked:
        choices = [ENTER_W] if new.offers_worktree else []
    else:
        choices = [] if yes or as_json else [ADD_OPTION if new.offers_worktree else ADD_YES]
    warnings = takeover_lines(new, other, choices)
    for line in warnings if not as_json else []:
        tell(line)
    answer = "y" if other.is_over or yes else ""
    if is_asked:
        click.echo(QUESTION, nl=False)
        answer = sys.stdin.readline().strip().lower()
    if answer in ("y", "yes") or (answer == "w" and new.offers_worktree):
        return warnings, answer == "w"
    if as_json:
        hint = f"{'start in its own worktree with --worktree, or ' if new.offers_worktree else ''}take over with --yes"
        resume = f"go on with it by `faber-ledger run resume {other.run_id}`, or " if new.is_of_same_work(other) else ""
        raise Declined(f"another workflow is active in this worktree: {other.run_id}", hint=resume + hint)
    tell(CANCELLED)
    raise click.exceptions.Exit(1)
