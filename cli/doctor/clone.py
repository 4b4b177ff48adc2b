"""What of the runs is not in git yet, and the clone's other worktrees."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.cli.setup.hooks import describe_agents_alone, hint_to_install
from faber_ledger.cli.ui.git_words import not_in_git
from faber_ledger.cli.ui.words import plural
from faber_ledger.cli.worktrees.git import list_trees, run_git, why_gone
from faber_ledger.files.text import quote_word
from faber_ledger.hooks.client_plugins import list_unanswered
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.clone import known_writer
from faber_ledger.runs.git import other_roots
from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.kept import not_in_tree, run_here
from faber_ledger.runs.log import read_log
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import Run, is_run_id

MOST_COUNTED = 5  # runs beside the active one, whose events are counted
SECONDS = 5.0  # for all that git is asked about them


def check_in_git(patient: Patient) -> Iterator[Finding]:
    """Look for what of a run is not committed, not pushed or not pulled, as far as this clone knows."""
    if not patient.has_git:
        return
    yield from _find_refused_pull(patient)
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


def _find_refused_pull(patient: Patient) -> Iterator[Finding]:
    """Look for runs that the team's server brought before git did: git refuses to overwrite untracked files."""
    # What git ignores is listed, too: without it git would read .gitignore, which may be a pipe.
    asked = ("ls-files", "-z", "--others", "--full-name", "--", ".fractary")
    untracked = set(run_git(*asked, at=patient.root).stdout.split(b"\0")) - {b""}
    if not untracked:
        return
    theirs = run_git("ls-tree", "-r", "-z", "--name-only", "--full-tree", "@{upstream}", at=patient.root)
    met = sorted([os.fsdecode(path) for path in untracked.intersection(theirs.stdout.split(b"\0"))])
    if met:
        what = f"`git pull` refuses to overwrite {quote_word(met[0])}"
        what += f" and {plural(len(met) - 1, 'other file')}" if met[1:] else ""
        what += ": they are untracked here, since the team's server brought them, and are in the branch that is pulled"
        hint = "run `git add .fractary && git commit -m 'Runs of the server'`, then `git pull --no-rebase`: both unite"
        yield Finding("warning", what, hint)


def check_worktrees(patient: Patient) -> Iterator[Finding]:
    """Look for worktrees that are not where git has them, or in which no hook runs."""
    for tree in list_trees(patient.root) if patient.has_git else ():
        why = why_gone(tree, patient.root)
        if why is not None:
            hint = "see `faber-ledger worktree list`"
            yield Finding("warning", f"the worktree {tree.path}: {why}", hint)
    for root in other_roots(patient.root):
        left = list_unanswered(root) if os.path.isdir(os.path.join(root, ".fractary")) else []
        alone = describe_agents_alone(root, left)
        if alone is not None:
            yield Finding("note", f"in the worktree {root} {alone[0]}", alone[1])
        elif left:
            missing = "no hook runs" if len(left) == len(HOOKS) else f"no hook runs for {', '.join(left)}"
            yield Finding("warning", f"in the worktree {root} {missing}", hint_to_install(root))
