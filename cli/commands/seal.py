"""`faber-ledger seal`: make a run ready for a commit: absorbed, verified, projected, published and staged."""

import os
from typing import Any

import click

from faber_ledger.cli.setup.tracking import files_that_travel, is_left_out
from faber_ledger.cli.ui.output import json_option, show, warn
from faber_ledger.cli.ui.which_run import check_in_tree, choose_run, run_argument, runs_with_ledgers
from faber_ledger.cli.ui.words import events_of_log_are, events_shown, join_names, publishing_hint
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed, NoActiveRun
from faber_ledger.ledger.errors import IntegrityError, LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.foreign import missing_in_file
from faber_ledger.ledger.verify import find_problems
from faber_ledger.recording.adoption import is_started_here
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.recording.start import complete_record
from faber_ledger.runs.active import active_run, can_be_on_branch
from faber_ledger.runs.clone import lock_run, note_use
from faber_ledger.runs.conflicts import find_conflicts
from faber_ledger.runs.git_command import git, limit_answers, named_index, top_of
from faber_ledger.runs.layouts import find_runs
from faber_ledger.runs.log import lacks_ledger, open_run_log, read_log
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.publish import carries_refs, why_not_published
from faber_ledger.runs.run import Run, find_root
from faber_ledger.runs.seen import TreeNote
from faber_ledger.runs.state_file import read_bytes, read_state

NOT_STARTED = "it has no ledger, and another clone has started it"
GIT_SECONDS = 30.0  # for one answer: git waits for a pipe in place of a file of its own without end


@click.command()
@run_argument
@click.option("--all", "every", is_flag=True, help="Every run that has a ledger.")
@click.option(
    "--pre-commit",
    is_flag=True,
    help="As git's hook of that name, which `init` installs: what cannot be done is one line, and stops no commit.",
)
@json_option
@limit_answers(GIT_SECONDS)
def seal(run: str | None, every: bool, pre_commit: bool, as_json: bool) -> None:
    """Make RUN (default: the active run) ready for a commit: record what waits, verify, publish, stage.

    Its ledger.db, state.json and metadata.json are staged, nothing else. With RUN they are
    published wherever they are, otherwise only where hooks publish them, too.

    \b
    Example: faber-ledger seal && git commit -m 'Save the session'
    Exit codes: 0 done, or there is no active run, or no git; 1 git reports an error, or
    a file cannot be written; 2 wrong usage; 10 no such run or ledger; 11 locked;
    12 newer format; 20 the ledger is damaged.
    """
    root = find_root(os.getcwd())
    top = top_of(root)
    if pre_commit:
        if run is not None or every or as_json:
            raise click.UsageError("--pre-commit goes with nothing else.")
        _seal_for_commit(root)
        return
    if top is not None:
        _check_settled(root, top)
    chosen, why = ([], None) if run or every else _find_active(root)
    if why is None and top is None:
        why = "there is no git repository here, so there is nothing to stage"
    if why is not None or top is None:
        show({"runs": [], "why": why}, [f"nothing to seal: {why}"], as_json=as_json)
        return
    results: list[dict[str, Any]] = []
    failures: list[LedgerError] = []
    for one in map(check_in_tree, chosen or _named_runs(root, run, every=every)):
        try:
            results.append(_seal(one, is_named=run is not None))
        except LedgerError as error:
            if not every:
                raise
            failures.append(error)  # the other runs are sealed, and printed, all the same
    show({"runs": results, "why": None}, map(_line, results), as_json=as_json)
    for failure in failures[1:]:
        warn(f"error: {failure.message}")
    if failures:
        raise failures[0]


def _find_active(root: str) -> tuple[list[Run], str | None]:
    """Return the run to seal where none is named, or why there is none."""
    try:
        run = choose_run(root, None)
    except NoActiveRun as error:
        return [], f"{error.message}; {error.hint}"
    if run.is_kept:
        return [], f"this work tree does not have the files of {run.run_id}"
    if lacks_ledger(run) and not _has_started_here(run):
        return [], f"the active run {run.run_id} has no ledger here"
    return [run], None


def _named_runs(root: str, named: str | None, *, every: bool) -> list[Run]:
    """Return the named run, also one without a ledger that a tool has started here, or `every` one with a ledger."""
    if named is not None and not every:
        run = choose_run(root, named)
        if lacks_ledger(run) and _has_started_here(run):
            return [run]
    return runs_with_ledgers(named, every=every, in_tree=True)


def _has_started_here(run: Run) -> bool:
    return os.path.lexists(run.state_path) and is_started_here(run, read_bytes(run))


def _check_settled(root: str, top: str) -> None:
    """Raise GitFailed if a run's file is in conflict: staging it would choose one side of other tools' keys."""
    found = find_conflicts(root, top)
    if found:
        raise GitFailed(
            f"in conflict: {', '.join([conflict.path for conflict in found])}",
            hint="run `faber-ledger resolve`, which resolves our files and shows the other conflicts",
        )


def _seal_for_commit(root: str) -> None:
    """Stage the active run, and those that the commit has already; say in a line what cannot be done.

    Nothing goes into a commit of named paths, or into one that is empty otherwise (DECISIONS 56); and nothing of a run
    that the commit removes.
    """
    names = ("diff", "--cached", "--name-only", "-z")
    if os.path.basename(named_index(root) or "").startswith("next-index-") or not git(*names, at=root):
        return
    paths, removed = [
        set(os.fsdecode(git(*names, "--relative", *more, at=root)).split("\0")) for more in ((), ("--diff-filter=D",))
    ]
    active = active_run(root, by_author=False).run_id
    for run in find_runs(root):
        own = [run.shown(path) for path in run.tracked_paths]
        is_in_commit = run.run_id == active or not paths.isdisjoint(own)
        try:
            if is_in_commit and removed.isdisjoint(own) and can_be_on_branch(root, run.run_id):
                _seal(run, is_named=False)
        except (LedgerError, OSError, sqlite3.Error) as error:
            warn(f"faber-ledger: the newest events of {run.run_id} are not in this commit: {error}")


def _seal(run: Run, *, is_named: bool) -> dict[str, Any]:
    """Make one run ready: recorded, verified, published and staged; one that `is_named` wherever it is."""
    if lacks_ledger(run) and not is_started_here(run, read_bytes(run)):
        return {"run_id": run.run_id, "events": 0, "left": 0, "why": NOT_STARTED, "staged": []}
    note_use(run.root, run.run_id, is_taken_up=True)
    complete_record(run, at=now(), environ=os.environ, warn=warn)
    with lock_run(run), open_run_log(run, warn) as opened:
        opened.commit()
    record_before_projecting(run, now(), warn=warn)  # what is not in the log yet belongs to this commit
    _check(run)
    reproject(run, rebuild=False, warn=warn, on_purpose=is_named)
    with lock_run(run):  # git takes no lock
        why = why_not_published(run, read_state(run).value, TreeNote(run), on_purpose=is_named)
        staged = _stage(run) if why is None else []
        with read_log(run) as log:
            count = log.count_events()
            is_published = carries_refs(run.root) or TreeNote(run).heads == log.heads_text()
            left = 0 if is_published else len(missing_in_file(log, run.ledger_path))
    if not staged and carries_refs(run.root):
        why = "its ledger travels in a git ref, which `faber-ledger sync` sends"
    hint = publishing_hint(run, TreeNote(run), read_state(run).value) if left and why is not None else None
    return {"run_id": run.run_id, "events": count - left, "left": left, "why": why, "hint": hint, "staged": staged}


def _check(run: Run) -> None:
    wrong = [item for item in find_problems(run.log_path) if not item.is_note]
    if wrong:
        about = f"event {wrong[0].event}: " if wrong[0].event else ""
        raise IntegrityError(
            f"the log of {run.run_id} is damaged, and is not staged: {about}{wrong[0].what}",
            hint=f"run `faber-ledger verify {run.run_id}` to see all that is wrong",
        )


def _stage(run: Run) -> list[str]:
    """Stage a run's files, and return those that changed in the index."""
    paths = [path for path in run.tracked_paths if os.path.isfile(path)]
    paths = [path for path in paths if path in files_that_travel(run) or not is_left_out(path, run.root)]
    if not paths:
        return []
    entries = ("ls-files", "--stage", "-z", "--", *paths)
    before = git(*entries, at=run.root).split(b"\0")
    git("add", "--", *paths, at=run.root)
    new = [os.fsdecode(one.partition(b"\t")[2]) for one in git(*entries, at=run.root).split(b"\0") if one not in before]
    return [name for path in paths if (name := run.shown(path)) in new]


def _line(result: dict[str, Any]) -> str:
    if result["why"] is not None:
        left = f"{events_of_log_are(result['left'])} not in the file" if result["left"] else "nothing staged"
        return f"{result['run_id']}: {left}: {result['why']}{f'; {hint}' if (hint := result.get('hint')) else ''}"
    paths, staged = result["staged"], "nothing new to stage"
    if paths:
        staged = f"staged {join_names([*map(os.path.basename, paths)])} in {os.path.dirname(paths[0])}"
    return f"{result['run_id']}: {events_shown(result['events'])}; {staged}"
