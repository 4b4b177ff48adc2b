"""Which runs a command is about: a named one, the active one, one found by a scan, or all that have a ledger."""

import functools
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import click

from faber_ledger.cli.ui import texts
from faber_ledger.cli.ui.git_words import command_to_fetch, hint_to_ask, hint_to_switch, no_runs_text, runs_elsewhere
from faber_ledger.cli.ui.output import ask_number, tell, warn, warn_of
from faber_ledger.context.branch import branch_of_run, has_files, not_in_tree, where_files_are
from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.command_errors import AmbiguousRun, NoActiveRun, SeveralActiveRuns
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, Locked, NotWritable, RunNotFound
from faber_ledger.runs import progress
from faber_ledger.runs.active import ActiveRun, active_run, is_finished, name_if_none_is, write_active_file
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.clone import lock_run, note_use
from faber_ledger.runs.git import default_branch
from faber_ledger.runs.kept import run_here, run_ids_here, runs_here
from faber_ledger.runs.layouts import find_run, find_runs
from faber_ledger.runs.log import has_log, lacks_ledger, read_log
from faber_ledger.runs.of_work import is_of_work, runs_of_work, start_of, with_states
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import Run, find_root, path_form
from faber_ledger.runs.state_file import read_state
from faber_ledger.runs.state_write import refresh_copy_if_newer

R = TypeVar("R")
Command: TypeAlias = Callable[..., Any]
Say: TypeAlias = Callable[[str], None]


def run_with_ledger(text: str | None) -> Run:
    """Return the run that a command is about, as `choose_run` does; raises like it, and RunNotFound without ledger."""
    root = find_root(os.getcwd())
    run = choose_run(root, text)
    if lacks_ledger(run):
        if not os.path.lexists(run.state_path):
            raise RunNotFound(
                f"the run {run.run_id} has neither a ledger nor a state", hint=hint_to_list(root, run.run_id)
            )
        hint = f"its first event creates one: run `faber-ledger session-load --run-id {run.run_id}`"
        if carries_refs(root):
            hint = f"`faber-ledger {command_to_fetch(root)}` fetches it, if it was sent; else {hint}"
        raise RunNotFound(f"the run {run.run_id} has no ledger {'here' if carries_refs(root) else 'yet'}", hint=hint)
    absorb_first(run)
    return run


def absorb_first(run: Run) -> None:
    """Absorb the published file of a run that this clone has no log of, and keep its state for branches without it."""
    if has_log(run) or lacks_ledger(run):
        return
    with suppress(LedgerError, OSError, sqlite3.Error):  # the command itself says what is wrong
        read_log(run).close()
        refresh_copy_if_newer(run, read_state(run), warn)


def run_to_project(text: str | None, *, needs_ledger: bool) -> Run:
    """Return the named run, else the active one, if it has a ledger; this clone takes it up.

    Without `needs_ledger` neither is required, since a backup of the state can be restored without. Raises like
    `run_with_ledger`, and like `check_in_tree` if a branch has the files, which then could not be checked out.
    """
    root = find_root(os.getcwd())
    named = text or active_run(root).run_id
    try:
        run = find_run(root, named) if named else None
    except InvalidRunId:
        run = None
    if run is None or not has_log(run) or run.is_recorded():
        run = run_with_ledger(text) if needs_ledger else choose_run(root, text)
    else:
        kept = run_here(root, run.run_id)
        if any([has_files(kept, branch) for branch in (branch_of_run(kept), default_branch(root))]):
            check_in_tree(kept)
        os.makedirs(run.directory, exist_ok=True)
    note_use(root, run.run_id, is_taken_up=True)
    return run


def warn_if_kept(run: Run) -> None:
    """Warn if the work tree lacks the run, and it is not finished: what is recorded stays below the git directory."""
    if run.is_kept and not is_finished(run):
        warn_of(not_in_tree(run, branch_of_run(run)))


def check_in_tree(run: Run) -> Run:
    """Return a run that the work tree has; raises RunNotFound for a kept one."""
    if run.is_kept:
        raise RunNotFound(
            f"this work tree does not have the files of {run.run_id}", hint=where_files_are(run, branch_of_run(run))
        )
    return run


def recheck_under_lock(run: Run, compare: Callable[[], list[R]]) -> list[R]:
    """Return how log and state.json differ, as `compare` finds it; look again under the lock if they do.

    A hook may have written one and not yet the other. Without a lock file no hook has written here; if the lock is not
    available, the first answer stands.
    """
    found = compare()
    if found and os.path.exists(run.lock_path):
        with suppress(Locked, NotWritable), lock_run(run):
            return compare()
    return found


def runs_with_ledgers(text: str | None, *, every: bool, in_tree: bool = False) -> list[Run]:
    """Return the one run, or with `every` all that this clone has with a ledger; raises like `run_with_ledger`.

    If `in_tree`, all are only those of the work tree.
    """
    if not every:
        return [run_with_ledger(text)]
    if text is not None:
        raise click.UsageError("give RUN or --all, not both")
    root = find_root(os.getcwd())
    return [run for run in (find_runs(root) if in_tree else runs_here(root)) if not lacks_ledger(run)]


def run_to_load(
    root: str, run_id: str | None, active: ActiveRun, say: Say, *, records: bool, takes_up: bool = True
) -> Run:
    """Return the run to load as `choose_run` does; its errors have the documents' words."""
    try:
        return choose_run(root, run_id, active, say=say, records=records, takes_up=takes_up)
    except NoActiveRun as error:
        no_workflow = texts.no_workflow_to_load(*_newest_run(root))
        more = [text for text in (active.problem, error.hint) if text]
        error.block = "\n".join([no_workflow, *[escape(f"{text[0].upper()}{text[1:]}") for text in more]])
        raise
    except RunNotFound as error:
        error.block = texts.run_not_found(find_run(root, run_id or ""))
        raise


def _newest_run(root: str) -> list[str]:
    """Return the id of the run of this clone that was started last; nothing if it has none that can be read."""
    runs = [start_of(run, state) for run, state in with_states(runs_here(root))]
    return [max(runs)[1]] if runs else []


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the runs that this clone has to the shell."""
    try:
        known = run_ids_here(find_root(os.getcwd()))
    except LedgerError:
        return []
    return [run_id for run_id in known if run_id.casefold().startswith(incomplete.casefold())]


work_id_option = click.option(
    "--work-id", metavar="ID", help="The run of this work item: the newest at work, otherwise the newest."
)
_run_names: dict[str, Any] = {"metavar": "RUN", "shell_complete": complete_runs}


def _names_run(*parameters: Callable[[Command], Command], is_quiet: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds the ways to name a run to a command, which gets `run`, None if none is named.

    If it `is_quiet`, the other runs of a work item are not named.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call_command(*, run: str | None, work_id: str | None, run_id: str | None = None, **others: Any) -> Any:
            if run is not None and run_id is not None:
                raise click.UsageError("give RUN or --run-id, not both")
            if "" in (run, run_id):
                raise click.UsageError("--run-id must not be empty")
            named = run if run_id is None else run_id
            if named is not None or work_id is not None:
                named = named_run(find_root(os.getcwd()), named, work_id, is_quiet=is_quiet)
            return command(run=named, **others)

        decorated: Command = call_command
        ways: list[Callable[[Command], Command]] = [work_id_option, *parameters]
        for parameter in ways:
            decorated = parameter(decorated)
        return decorated

    return decorate


_run_id_and_argument = (
    click.option("--run-id", help="The same as RUN.", **_run_names),
    click.argument("run", required=False, metavar="[RUN]", shell_complete=complete_runs),
)
run_argument = _names_run(*_run_id_and_argument)
quiet_run_argument = _names_run(*_run_id_and_argument, is_quiet=True)
run_option = _names_run(click.option("--run-id", "--run", "run", help="Which run is meant.", **_run_names))


def named_run(root: str, text: str | None, work_id: str | None, *, is_quiet: bool = False) -> str | None:
    """Return the run that a command names, by its id or else by its work item; None if it names none.

    An id that no run here has may be a work item's. Of several runs of a work item it is the newest at work, else the
    newest; the others are named, unless it `is_quiet`. Raises RunNotFound for a work item without a run.
    """
    if text is not None and work_id is None:
        text, work_id = run_or_work_item(root, text)
    if work_id is None:
        return text
    if not work_id:
        raise click.UsageError("--work-id must not be empty.")
    if text is not None:
        warn(f"note: --work-id {work_id} is not used, since the run is named: {text}")
        return text
    chosen, *others = [run.run_id for run in runs_of_work_here(root, work_id)]
    if others and not is_quiet:
        warn(f"note: {chosen} is meant; the work item {work_id} also has {', '.join(others)}")
    return chosen


def run_or_work_item(root: str, text: str) -> tuple[str | None, str | None]:
    """Return a text as a run's name, and None; or None, and the text as a work item, if only that is known here."""
    try:
        return match_run(root, text).run_id, None
    except RunNotFound:
        return (None, text) if any(runs_of_work(root, text)) else (text, None)
    except LedgerError:
        return text, None


def runs_of_work_here(root: str, work_id: str) -> list[Run]:
    """Return the runs of a work item that this clone has, as `runs_of_work` orders them; raises RunNotFound."""
    runs = [run for run, _ in runs_of_work(root, work_id)]
    if not runs:
        hint = f"`faber-ledger run resume --work-id {quote_word(work_id)}` fetches one that the remote has"
        hint = hint if sender_of(root) is not None else hint_to_list(root, work_id=work_id)
        raise RunNotFound(f"no run here has the work item {work_id}", hint=hint)
    return runs


def _ask_for_run(runs: list[tuple[Run, dict[str, Any]]]) -> Run:
    lines = ["Multiple active workflows found. Please select:"]
    for number, (run, state) in enumerate(runs, 1):
        phase, started = state.get("current_phase") or "unknown", state.get("started_at") or "unknown"
        lines.append(escape(f"{number}. {run.run_id} ({phase} phase, started {started})"))
    if not sys.stdin.isatty():
        names, example = [run.run_id for run, _ in runs], _command()
        commands = [f"  {example} {quote_word(name)}" for name in names]
        block = "\n".join([*lines, "", "Name one:", *commands])
        hint = f"name one: `{example} RUN`"
        raise SeveralActiveRuns("Multiple active workflows found", hint=hint, block=block, data={"candidates": names})
    for line in lines:
        tell(line)
    return runs[ask_number(len(runs)) - 1][0]


def _command() -> str:
    """Return the command that runs, as far as the place of a run's id."""
    context = click.get_current_context()
    has_option = any(["--run-id" in parameter.opts for parameter in context.command.params])
    return f"faber-ledger {' '.join(context.command_path.split()[1:])}{' --run-id' if has_option else ''}"


def match_run(root: str, text: str) -> Run:
    """Return the run whose id is `text` or begins with it; raises InvalidRunId, or RunNotFound for none or several."""
    run = run_here(root, text)
    if run.is_recorded():
        return run
    known = run_ids_here(root)
    is_plan = any([path_form(run_id).startswith(f"{text}/") for run_id in known])
    if run.has_files() and not is_plan:
        return run
    try:
        return run_here(root, pick_run_id(text, known, ""))
    except RunNotFound as error:
        error.hint = hint_to_list(root, text)
        raise


def pick_run_id(text: str, known: Sequence[str], hint: str) -> str:
    """Return the id that is `text` or begins with it; raises AmbiguousRun, and RunNotFound with the hint."""
    if text in known:
        return text
    near = [run_id for run_id in known if run_id.startswith(text) or path_form(run_id).startswith(text)]
    if len(near) == 1:
        return near[0]
    if near:
        more = f" and {len(near) - 5} more" if len(near) > 5 else ""
        raise AmbiguousRun(
            f"{text} is the beginning of several runs: {', '.join(near[:5])}{more}",
            hint="give more of the id",
            data={"candidates": near},
        )
    from difflib import get_close_matches  # only after a typing error

    close = get_close_matches(text, known, n=4, cutoff=0.85)
    similar = f"; near it are: {', '.join(close)}" if close else ""
    raise RunNotFound(f"there is no run {text}{similar}", hint=hint)


def hint_to_list(root: str, missing: str = "", *, work_id: str = "") -> str:
    """Return which command leads to the run, or the run of a work item, that is missing here, or shows the runs.

    Another branch may have it, or the remote. Without it, other branches' runs at work are named if none is here.
    """
    if missing and sender_of(root) is not None:
        return hint_to_ask(root, missing)
    there = runs_elsewhere(root)
    named = [one for one in there if missing and path_form(one.run_id).startswith(path_form(missing))]
    named += [one for one in there if work_id and is_of_work(one.state, work_id)]
    statuses = [state.get("status") for _, state in with_states(runs_here(root))] if there and not named else []
    if all([status in progress.FINISHED for status in statuses]):
        named = named or [one for one in there if not one.is_finished]
    if named:
        return hint_to_switch(root, named)
    if not run_ids_here(root):
        return no_runs_text(root)
    elsewhere = f"; {hint_to_ask(root)}" if carries_refs(root) else ""
    return f"run `faber-ledger run list` to see the runs of this clone{elsewhere}"


def choose_run(
    root: str,
    text: str | None,
    active: ActiveRun | None = None,
    *,
    records: bool = False,
    takes_up: bool = True,
    say: Say = warn,
) -> Run:
    """Return the run that a command is about: the named one, else the active one, else the one that a scan finds.

    A command that `records` takes the run up if it `takes_up`; a run that only the scan found becomes the active one.
    `say` gets a line on what the scan found. Raises like `match_run`, NoActiveRun, and SeveralActiveRuns without a
    terminal.
    """
    if text is not None:
        run, active = match_run(root, text), None
    else:
        active = active or active_run(root)
        if active.problem and active.run_id is not None:
            warn(f"note: {active.problem}")
        run = run_here(root, active.run_id) if active.run_id is not None else _scan(root, active, say)
    if records:
        note_use(root, run.run_id, is_taken_up=takes_up)
    if records and active is not None and active.run_id is None:
        write_active_file(root, run.run_id)
        say(f"✓ {run.run_id} is the active run of this work tree now")
    elif records and active is not None:
        name_if_none_is(root, active, run.run_id, warn)
    return run


def _scan(root: str, active: ActiveRun, say: Say) -> Run:
    """Return the unfinished run of the work tree, or the one of several that the user chooses."""
    found = with_states(find_runs(root))
    runs = [(run, state) for run, state in found if state.get("status") in progress.ACTIVE]
    if not runs:
        message = "no run is active here" + (f": {active.problem}" if active.problem else "")
        raise NoActiveRun(message, hint=hint_to_list(root))
    if active.problem:
        warn(f"note: {active.problem}")
    if len(runs) > 1:
        return _ask_for_run(runs)
    say(f"✓ Auto-detected active workflow: {runs[0][0].run_id}")
    return runs[0][0]
