"""What the clone has beyond its work tree: logs of runs, and other worktrees."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.setup.missing_hooks import describe_agents_alone, hint_to_install
from faber_ledger.cli.setup.tracking import is_not_checked_out
from faber_ledger.cli.ui.git_words import not_in_git
from faber_ledger.cli.worktrees.git import list_trees, run_git
from faber_ledger.cli.worktrees.places import gone_runs, what_forget_would_lose
from faber_ledger.cli.worktrees.survey import why_gone
from faber_ledger.hooks.client_plugins import list_plugins, list_unanswered
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs import worktree_registry
from faber_ledger.runs.active import active_run
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.git import other_roots
from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.kept import not_in_tree, run_here
from faber_ledger.runs.log import read_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import is_run_id

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient
    from faber_ledger.runs.run import Run


MOST_COUNTED = 5  # runs beside the active one, whose events are counted
SECONDS = 5.0  # for all that git is asked about them
SETTINGS = ".claude/settings.json"


def logs_have_their_runs(patient: Patient) -> Iterator[Finding]:
    """Look for runs that only this clone's log still has."""
    if not patient.has_git:
        return
    for run, path in gone_runs(patient.root):
        if is_not_checked_out(patient.root, run.shown(run.ledger_path)):
            continue  # a sparse checkout: it is in HEAD
        what = f"the run {run.run_id} is in no worktree any more, but this clone's log still has its events"
        hint = f"run `faber-ledger project {run.run_id}` to restore it"
        roots = (patient.root, *other_roots(patient.root))
        if not any([active_run(root, by_author=False).run_id == run.run_id for root in roots]):
            loss = what_forget_would_lose(run, path)
            forget = f"`faber-ledger run forget {run.run_id}"
            hint += f", or {forget}`" if loss is None else f"; {forget} --yes` removes it, but {loss}"
        yield Finding("note", what, hint)


def runs_are_in_git(patient: Patient) -> Iterator[Finding]:
    """Look for what of a run is not committed, not pushed or not pulled, as far as this clone knows."""
    if not patient.has_git:
        return
    active = run_here(patient.root, patient.active) if patient.active and is_run_id(patient.active) else None
    runs = [*([active] if active is not None and active.is_kept else []), *patient.runs]
    survey = GitSurvey(patient.root, runs, SECONDS)
    if not survey.is_known:
        return
    counted = 0
    for run in runs:
        is_active = run.run_id == patient.active
        if not is_active and survey.is_all_in(run):
            continue
        counted += not is_active
        if counted > MOST_COUNTED:
            what = "other runs have changes that are not committed, pushed or pulled"
            yield Finding("note", what, "`faber-ledger status RUN` says what of one is not in git")
            return
        found = survey.facts_of(run, with_log=is_active and patient.state(run).get("status") not in FINISHED)
        seal = "faber-ledger seal" + ("" if is_active else f" {run.run_id}")
        is_shared = is_active and _is_shared(patient, run)
        missing = not_in_git(survey, found, patient.at, seal, is_shared=is_shared) if found is not None else None
        if missing is not None:
            later = not_in_tree(run) if run.is_kept else "end that first, as `git status` says"
            hint = f"run `{missing.command}`" if missing.command else later
            yield Finding("note", f"{run.run_id}: {missing.what}", hint)


def _is_shared(patient: Patient, run: Run) -> bool:
    """Return whether another clone has recorded on a run."""
    with suppress(LedgerError, OSError, sqlite3.Error), read_log(run) as log:
        return log.has_other_writer(known_writer(patient.root) or "")
    return False


def worktrees_are_in_order(patient: Patient) -> Iterator[Finding]:
    """Check that the clone's other worktrees are where git recorded them, and that hooks run in them."""
    yield from _are_there(patient)
    yield from _have_hooks(patient)


def _have_hooks(patient: Patient) -> Iterator[Finding]:
    """Look for other worktrees with a run but without hooks: untracked settings are not checked out."""
    for root in other_roots(patient.root):
        left = list_unanswered(root) if os.path.isdir(os.path.join(root, ".fractary")) else []
        if not left:
            continue
        alone = describe_agents_alone(root, left)
        if alone is not None:
            yield Finding("note", f"in the worktree {root} {alone[0]}", alone[1])
            continue
        missing = "no hook runs" if len(left) == len(HOOKS) else f"no hook runs for {', '.join(left)}"
        why, also = "", f" or merge there the commit that has {SETTINGS}"
        if _is_untracked(patient):
            why, also = f": {SETTINGS} is not tracked", f" and commit {SETTINGS} for the next one"
        hint = f"run `faber-ledger init` there,{also}; `faber-ledger init --scope user` reaches all"
        if list_plugins(root):
            hint = hint_to_install(root)
        yield Finding("warning", f"in the worktree {root} {missing}{why}", hint)


def _are_there(patient: Patient) -> Iterator[Finding]:
    """Look for worktrees that are not where git recorded them: deleted, or moved by hand."""
    if not patient.has_git:
        return
    for tree in list_trees(patient.root):
        why = why_gone(tree, patient.work_tree)
        if why is not None:
            hint = "see `faber-ledger worktree list`; if it is gone for good, run `faber-ledger worktree cleanup NAME`"
            yield Finding("warning", f"the worktree {tree.path}: {why}", hint)


def registry_can_be_read(patient: Patient) -> Iterator[Finding]:
    """Check that the registry of worktrees can be read."""
    path = worktree_registry.registry_path(patient.root)
    try:
        if path is not None:
            worktree_registry.read_records(path)
    except worktree_registry.MalformedRegistry as error:
        hint = "run `faber-ledger worktree list`, which moves it aside and creates it again"
        yield Finding("warning", f"{path} is malformed: {error}", hint)


def _is_untracked(patient: Patient) -> bool:
    path = os.path.join(patient.root, *SETTINGS.split("/"))
    return os.path.isfile(path) and bool(
        run_git("ls-files", "--error-unmatch", "--", SETTINGS, at=patient.root).returncode
    )
