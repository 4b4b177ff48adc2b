"""Which runs a command is about: a named one, the active one, one found by a scan, or all that have a ledger."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TypeVar

import click

from faber_ledger.cli.ui import texts
from faber_ledger.cli.ui.git_words import hint_if_left_out, hint_without_runs
from faber_ledger.cli.ui.output import ask_number, tell, warn
from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.command_errors import AmbiguousRun, NoActiveRun, RunShown, SeveralActiveRuns
from faber_ledger.ledger.errors import InvalidRunId, LedgerError, Locked, NotWritable, RunNotFound, StateMissing
from faber_ledger.ledger.lock import RunLock
from faber_ledger.projections.fold import fold
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import ActiveRun, active_run, claimed_in_worktree, shown_line
from faber_ledger.runs.active_file import remember_use
from faber_ledger.runs.belonging import belongs_here
from faber_ledger.runs.copies import mirror_with_events
from faber_ledger.runs.kept import not_in_tree, run_here
from faber_ledger.runs.left_state import bring_copy_up_to_date, refresh_runs_here, run_ids_here, runs_here
from faber_ledger.runs.lost import lacks_ledger, loss_of
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.run import Run, find_root, find_run, path_form, run_ids
from faber_ledger.runs.united import read_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from faber_ledger.projections.blocks import Blocks


R = TypeVar("R")


def run_with_ledger(text: str | None, work_id: str | None = None, example: str = "", *, root: str | None = None) -> Run:
    """Return the named run, or that of the work item, else the active one.

    `root` is the project to look in, instead of the one that the current folder belongs to. Raises like `choose_run`
    and `named_run`, and RunNotFound if it has no ledger.
    """
    root = root or find_root(os.getcwd())
    run = choose_run(root, named_run(root, text, work_id, example))
    if lacks_ledger(run):
        lost = loss_of(run)
        if lost is not None:
            raise RunNotFound(lost[0], hint=lost[1])
        raise RunNotFound(
            f"the run {run.run_id} has no ledger yet",
            hint=f"its first event creates one: run `faber-ledger session-load --run-id {run.run_id}`",
        )
    return run


def run_to_project(text: str | None, *, needs_ledger: bool = True) -> Run:
    """Return the named run, else the active one, if it has a ledger, or a mirror to restore it from.

    Without `needs_ledger` neither is required, since a backup of the state can be restored without. Raises like
    `run_with_ledger`.
    """
    root = find_root(os.getcwd())
    named = text or active_run(root).run_id
    try:
        run = find_run(root, named) if named else None
    except InvalidRunId:
        run = None
    if run is None or not lacks_ledger(run) or mirror_with_events(run) is None:
        return run_with_ledger(text) if needs_ledger else choose_run(root, text)
    os.makedirs(run.directory, exist_ok=True)
    return run


def warn_if_kept(run: Run) -> None:
    """Warn if the work tree lacks the run, so that what is recorded stays below the git directory."""
    if run.is_kept:
        warn(f"⚠️  {not_in_tree(run)}")


def check_in_tree(run: Run) -> Run:
    """Return a run that the work tree has; raises RunNotFound for a kept one."""
    if run.is_kept:
        place = find_run(run.root, run.run_id)
        resume = f"run `faber-ledger run resume {run.run_id}` to bring them back, or check its branch out"
        hint = hint_if_left_out(run.root, place) or resume
        raise RunNotFound(f"this work tree does not have the files of {run.run_id}", hint=hint)
    return run


def recheck_under_lock(run: Run, compare: Callable[[], list[R]]) -> list[R]:
    """Return how log and state.json differ, as `compare` finds it; look again under the lock if they do.

    A hook may have written one and not yet the other. Without a lock file no hook has written here; if the lock is not
    available, the first answer stands.
    """
    found = compare()
    if found and os.path.exists(run.lock_path):
        with suppress(Locked, NotWritable), RunLock(run.lock_path):
            return compare()
    return found


def fold_log(run: Run) -> Blocks:
    """Return the two blocks folded from a run's log; raises like `read_log`."""
    with read_log(run) as log:
        return fold(log.stream())


def project_again(run: Run, *, rebuild: bool, redacted: bool = False) -> None:
    """Write a run's blocks as `reproject` does, and warn where a missing state.json was restored from.

    If no backup and no commit has one, it stays missing: one made from the log alone would, once committed, remove the
    other tools' keys in every clone.
    """
    try:
        source = reproject(run, rebuild=rebuild, warn=warn, redacted=redacted).source
    except StateMissing:
        message = f"{run.shown(run.state_path)} is missing, and no backup and no commit of a local branch has one"
        warn(f"note: {message}: it is left so; `faber-ledger project {run.run_id}` writes one from the ledger")
        return
    if source is not None:
        warn(f"note: {run.shown(run.state_path)} was missing and is taken from {source}")


def runs_with_ledgers(text: str | None, *, every: bool, root: str | None = None) -> list[Run]:
    """Return the one run, or with `every` all runs of the work tree with a ledger; raises like `run_with_ledger`."""
    if not every:
        return [run_with_ledger(text, root=root)]
    if text is not None:
        raise click.UsageError("give RUN or --all, not both")
    root = root or find_root(os.getcwd())
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    return [run for run in runs if os.path.lexists(run.ledger_path)]


def runs_to_report(text: str | None, *, every: bool, root: str | None = None) -> list[Run]:
    """Return the one run, or with `every` all runs that this clone has, also those that the work tree lacks.

    Warns about those that are left out because their ledger is gone; raises like `run_with_ledger`.
    """
    if not every or text is not None:
        return runs_with_ledgers(text, every=every, root=root)
    runs = []
    for run in runs_here(root or find_root(os.getcwd())):
        if os.path.lexists(run.ledger_path):
            runs.append(run)
            continue
        lost = loss_of(run)
        why = f"{lost[0]}: {lost[1]}" if lost is not None else "it has no ledger"
        warn(f"{run.run_id} is left out: {why}")
    return runs


LOAD = "session-load --run-id"


def run_to_load(
    root: str,
    run_id: str | None,
    active: ActiveRun,
    log: Callable[[str], None],
    example: str = LOAD,
    *,
    records: bool = True,
) -> Run:
    """Return the run to load; raises LedgerError if there is none, or several and no terminal to ask on.

    A run that is shown, not used, is not taken by a command that `records`, unless it is named.
    """
    named = run_id or active.run_id
    if named is not None:
        try:
            return choose_run(root, run_id, active, records=records)
        except AmbiguousRun:
            raise
        except RunNotFound as error:
            error.block = texts.run_not_found(find_run(root, named)) + ("" if run_id else f"\n{escape(error.message)}")
            raise
    runs = _unfinished_runs(root)
    used = [(run, state) for run, state in runs if belongs_here(root, run.run_id)]
    if records and not used and len(runs) == 1:
        raise _shown(runs[0][0].run_id)
    runs = used if records and used else runs
    if not runs:
        reason = active.reason_none
        more = [text for text in (reason, hint_without_runs(root)) if text]
        if example != LOAD:
            more.append(f"name one: `faber-ledger {example} RUN`")
        no_workflow = texts.no_workflow_to_load(*_newest_run(root))
        block = "\n".join([no_workflow, *[escape(f"{text[0].upper()}{text[1:]}") for text in more]])
        hint = more[-1] if more else _hint_without_run(root)
        raise NoActiveRun("No active workflow found" + (f": {reason}" if reason else ""), hint=hint, block=block)
    if len(runs) == 1:
        log(f"✓ Auto-detected active workflow: {runs[0][0].run_id}")
        if not used:
            warn(f"note: {shown_line(runs[0][0].run_id)}")
        return runs[0][0]
    chosen = _ask_for_run(runs, example)
    if records:
        remember_use(root, chosen.run_id)
    return chosen


def _newest_run(root: str) -> list[str]:
    """Return the id of the run of this clone that was started last; nothing if it has none that can be read."""
    runs = [(seconds_of(state.get("started_at")) or 0.0, run.run_id) for run, state in _with_states(runs_here(root))]
    return [max(runs)[1]] if runs else []


def _shown(run_id: str) -> RunShown:
    line = shown_line(run_id)
    return RunShown(
        line, hint=f"run `faber-ledger run resume {quote_word(run_id)}`, or name the run", block=escape(line)
    )


work_id_option = click.option(
    "--work-id", metavar="ID", help="The run of this work item: the one at work, otherwise the newest."
)


def named_run(root: str, text: str | None, work_id: str | None, example: str) -> str | None:
    """Return the run that a command names, by its id or else by its work item; None if it names none.

    Of a work item's runs it is the one at work, else the newest; of several at work, the user is asked. Raises
    RunNotFound for a work item without a run, and SeveralActiveRuns without a terminal.
    """
    if work_id is None:
        return text
    if not work_id:
        raise click.UsageError("--work-id must not be empty.")
    if text is not None:
        warn(f"note: --work-id {work_id} is not used, since the run is named: {text}")
        return text
    runs = [(run, state) for run, state in _with_states(refresh_runs_here(root)) if is_of_work(state, work_id)]
    if not runs:
        raise RunNotFound(f"no run here has the work item {work_id}", hint=_hint_to_list(root))
    at_work = [(run, state) for run, state in runs if state.get("status") in progress.ACTIVE]
    here = [(run, state) for run, state in at_work if claimed_in_worktree(root, run.run_id) is None] or at_work
    if len(here) > 1:
        return _ask_for_run(here, example).run_id
    newest = max(runs, key=lambda one: (seconds_of(one[1].get("started_at")) or 0.0, one[0].run_id))
    return (here[0] if here else newest)[0].run_id


def is_of_work(state: dict[str, Any], work_id: str) -> bool:
    """Return whether a state is that of a run of the work item."""
    known = state.get("work_id")
    return isinstance(known, (str, int)) and not isinstance(known, bool) and str(known) == work_id


def _unfinished_runs(root: str) -> list[tuple[Run, dict[str, Any]]]:
    """List the unfinished runs with their states, without those claimed in other work trees."""
    return [
        (run, state)
        for run, state in _with_states(runs_in_tree(root))
        if state.get("status") in progress.ACTIVE and claimed_in_worktree(root, run.run_id) is None
    ]


def runs_in_tree(root: str) -> Iterator[Run]:
    """Yield the work tree's runs, without those behind a link that leads out of it."""
    for run_id in run_ids(root):
        with suppress(InvalidRunId):
            yield find_run(root, run_id)


def _with_states(runs: Iterable[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield those of the runs whose state can be read, each with its state."""
    for run in runs:
        with suppress(LedgerError):
            yield run, state_file.read_state(run).value


def _ask_for_run(runs: list[tuple[Run, dict[str, Any]]], example: str) -> Run:
    lines = ["Multiple active workflows found. Please select:"]
    for number, (run, state) in enumerate(runs, 1):
        phase, started = state.get("current_phase") or "unknown", state.get("started_at") or "unknown"
        lines.append(escape(f"{number}. {run.run_id} ({phase} phase, started {started})"))
    if not sys.stdin.isatty():
        names = [run.run_id for run, _ in runs]
        commands = [f"  faber-ledger {example} {quote_word(name)}" for name in names]
        block = "\n".join([*lines, "", "Name one:", *commands])
        hint = f"name one: `faber-ledger {example} RUN`"
        raise SeveralActiveRuns("Multiple active workflows found", hint=hint, block=block, data={"candidates": names})
    for line in lines:
        tell(line)
    chosen = runs[ask_number(len(runs)) - 1][0]
    tell(f"  (`faber-ledger run resume {chosen.run_id}` makes it the active run: then nothing is asked)")
    return chosen


def match_run(root: str, text: str) -> Run:
    """Return the run whose id is `text` or begins with it; raises InvalidRunId, or RunNotFound for none or several."""
    run = _run_here(root, text)
    if run.is_recorded():
        return run
    known = run_ids_here(root)
    is_plan = any([path_form(run_id).startswith(f"{text}/") for run_id in known])
    if run.has_files() and not is_plan:
        return run
    return _run_here(root, pick_run_id(text, known, hint_if_left_out(root) or _hint_to_list(root)))


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

    close = get_close_matches(text, known, n=4, cutoff=0.4)
    similar = f"; near it are: {', '.join(close)}" if close else ""
    raise RunNotFound(f"there is no run {text}{similar}", hint=hint)


def _hint_to_list(root: str) -> str:
    return (
        "run `faber-ledger run list` to see the runs of this project" if run_ids_here(root) else _hint_without_run(root)
    )


def _run_here(root: str, text: str) -> Run:
    """Return the run as `run_here` does; a kept one's state is as the commit has it that a checkout left."""
    run = run_here(root, text)
    if run.is_kept:
        bring_copy_up_to_date(find_run(root, text))
    return run


def choose_run(root: str, text: str | None, active: ActiveRun | None = None, *, records: bool = False) -> Run:
    """Return the run that a command is about: the named one, else the active one.

    A run that is shown, not used, is taken with a note; by a command that `records` only if it is named, and from then
    on it is used. Raises like `match_run`, and NoActiveRun or RunShown.
    """
    if text is not None:
        named = match_run(root, text)
        if records:
            remember_use(root, named.run_id)
        return named
    active = active or active_run(root)
    if active.run_id is None:
        message = "no run is active here" + (f": {active.reason_none}" if active.reason_none else "")
        hint = _hint_to_restore(root, active) or hint_without_runs(root)
        raise NoActiveRun(message, hint=hint or _hint_without_run(root))
    if active.is_shown:
        if records:
            raise _shown(active.run_id)
        warn(f"note: {active.shown_line}")
    problem = active.find_problem()
    if problem is not None:
        problem.hint = _hint_to_restore(root, active) or _hint_to_name_another(root, problem)
        raise problem
    return _run_here(root, active.run_id)


def _hint_to_name_another(root: str, problem: LedgerError) -> str:
    """Return how to make another run the active one than the one that is missing, or whose name is not an id."""
    newest = _newest_run(root)
    another = f"make {newest[0]} active with `faber-ledger run resume {newest[0]}`" if newest else texts.START_ONE
    return f"get it with `git pull`, or {another}" if isinstance(problem, RunNotFound) else another


def _hint_without_run(root: str) -> str:
    return "name one; `faber-ledger run list` shows them" if run_ids_here(root) else f"no runs yet: {texts.START_ONE}"


def _hint_to_restore(root: str, active: ActiveRun) -> str:
    from faber_ledger.runs.projecting import find_removed_run  # only if the run's folder is missing

    taken = find_removed_run(root, active)
    return f"`faber-ledger run resume {taken}` restores the run that was active here" if taken else ""
