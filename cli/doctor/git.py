"""What git does with a run's files: drivers, attributes, what it ignores, and what it must track."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding, Fix, file_fix
from faber_ledger.cli.setup.git_config import (
    CACHE,
    DRIVER,
    is_autostash_refused,
    list_switched_off,
    make_settings,
    settings_to_make,
)
from faber_ledger.cli.setup.git_files import IGNORE_FILE, git_file_change
from faber_ledger.cli.setup.ignored import check_not_ignored, files_that_travel, rules_against
from faber_ledger.cli.setup.tracking import is_not_checked_out, list_altered, list_unseen
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.worktrees.git import is_forgotten, require_work_tree, run_git
from faber_ledger.files.change import without_block
from faber_ledger.files.text import quote_word
from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.command_errors import GitFailed, NoWorkTree
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.conflicts import find_conflicts
from faber_ledger.runs.git import unused_tops
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.ownership import describe_unused
from faber_ledger.runs.run import ATTRIBUTES_FILE, COPY_ENDINGS, HOOK_LOG, LOGS
from faber_ledger.runs.settings import PATH

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


GIT_ONLY = "run `faber-ledger init --git-only`, as each clone needs it"
COPIES = "|".join([re.escape(ending) for ending in COPY_ENDINGS])
MUST_STAY = re.compile(
    rf"(?:^|/)(?:state(?:-[^/]*)?\.backup\.json|[^/]*(?:\.lock|{JOURNAL_ENDING}|-wal|-shm|{COPIES}))$"
    rf"|^{re.escape(LOGS)}/|^\.fractary/faber/(?:writer$|worktrees\.json)",
    re.IGNORECASE,  # as some file systems do
)
# Of those, what no command reads if git tracks it.
NAMES = rf"\.lock|\.db{JOURNAL_ENDING}"
NOT_READ = re.compile(rf"(?:/ledger(?:-[^/]*)?(?:{NAMES})|^{re.escape(HOOK_LOG)})$", re.IGNORECASE)


def git_is_there(patient: Patient) -> Iterator[Finding]:
    """Check for git: without it nothing travels to other machines."""
    try:
        version = run_git("--version", at=patient.root).stdout.decode("utf-8", "replace").strip()
        inside = run_git("rev-parse", "--is-inside-work-tree", at=patient.root)
    except GitFailed as error:
        yield Finding("warning", error.message, error.hint)
        return
    if patient.has_git:
        yield Finding("ok", version)
        top = top_of(patient.root)
        for conflict in find_conflicts(patient.root, top) if top else ():
            yield Finding("error", f"a merge stopped at {conflict.path}", "run `faber-ledger resolve`")
    elif patient.work_tree is None and unused_tops:
        yield Finding("warning", *describe_unused())
    elif is_forgotten(patient.root):
        try:
            require_work_tree(patient.root)
        except NoWorkTree as error:
            yield Finding("error", error.message, error.hint)
    elif patient.work_tree is not None:
        complaint = inside.stderr.decode("utf-8", "replace").strip().splitlines()
        what = f"git cannot use the repository here: {complaint[-1] if complaint else '?'}"
        yield Finding("warning", what, "see what `git status` says")
    else:
        what = "this is not a git repository: the ledger stays on this machine"
        yield Finding("note", what, "run `git init` if it should travel")


def drivers_are_registered(patient: Patient) -> Iterator[Finding]:
    """Check that this clone's git config has the drivers that merge and show a ledger."""
    if not patient.has_git:
        return
    due = [one for one in settings_to_make(patient.root) if one.key in DRIVER and one.before != one.after]
    harmful = [one.key for one in due if one.after is None]
    missing = [one.key for one in due if one.key not in harmful]
    if harmful:
        what = f"git knows no name and email to commit with: with {CACHE}, `git log -p` and `git diff` fail"
        hint = "set user.name and user.email with `git config`, or run `faber-ledger init --git-only`, which unsets it"
        yield Finding("warning", what, hint, _git_config_fix(patient))
    if missing == [CACHE]:
        what = f"this clone's git lacks {CACHE}: `git log -p`, `-S` and `-G` read every version of a ledger each time"
        yield Finding("note", what, "run `faber-ledger init --git-only`, which sets it", _git_config_fix(patient))
        missing = []
    if missing:
        what = f"this clone's git lacks {', '.join(missing)}: it cannot merge or show a ledger"
        yield Finding("warning", what, GIT_ONLY, _git_config_fix(patient))


def pulls_go_over_changes(patient: Patient) -> Iterator[Finding]:
    """Check merge.autoStash and rebase.autoStash: a log changes often, and git refuses to pull over a change."""
    if not patient.has_git:
        return
    if is_autostash_refused(patient.root):
        yield Finding("ok", "merge.autoStash and rebase.autoStash are left off, as chosen in `init`")
    for key in list_switched_off(patient.root):
        what = f"{key} is switched off: git refuses to pull over a changed ledger"
        hint = (
            f"run `git config --unset {key}`, then `faber-ledger init --git-only`; `init --no-autostash` leaves it off"
        )
        yield Finding("note", what, hint)
    due = [
        one.key for one in settings_to_make(patient.root) if one.key.endswith("utoStash") and one.before != one.after
    ]
    unset = [key for key in due if key in ("merge.autoStash", "rebase.autoStash")]
    if unset:
        what = f"{' and '.join(unset)} not set: git refuses to pull over a changed ledger"
        yield Finding("warning", what, GIT_ONLY, _git_config_fix(patient))


def files_are_seen(patient: Patient) -> Iterator[Finding]:
    """Look for what keeps git from noticing changes: flags in its index, and the rules of a sparse checkout."""
    if patient.has_git:
        yield from [Finding("warning", obstacle.what, obstacle.hint) for obstacle in list_unseen(patient.root)]


def files_are_stored_as_they_are(patient: Patient) -> Iterator[Finding]:
    """Look for filters, such as Git LFS, and for pointers that they left in git in place of a ledger."""
    if patient.has_git:
        found = list_altered(patient.root, patient.runs)
        yield from [Finding("warning", obstacle.what, obstacle.hint) for obstacle in found]


def attributes_are_written(patient: Patient) -> Iterator[Finding]:
    """Check the attributes that name the drivers."""
    yield from _block(patient, ATTRIBUTES_FILE, "git treats a ledger as any binary file and does not merge it")


def local_files_are_ignored(patient: Patient) -> Iterator[Finding]:
    """Check the rules that keep backups, locks and logs out of git."""
    yield from _block(patient, IGNORE_FILE, "git would track backups, locks and logs of this machine")


def tracked_files_are_not_ignored(patient: Patient) -> Iterator[Finding]:
    """Look for rules by which git ignores what it must track: the active file, each state.json and ledger.db."""
    if not patient.has_git:
        return
    try:
        check_not_ignored(patient.root)
    except LedgerError as error:
        yield Finding("error", error.message, "change or remove the rule")
    paths = tuple(run.shown(path) for run in patient.runs for path in files_that_travel(run))
    for rule in rules_against(patient.root, paths):
        yield Finding("error", f"git ignores {rule}, which must travel", "change or remove the rule")


def local_files_are_untracked(patient: Patient) -> Iterator[Finding]:
    """Look for tracked files that belong to one machine."""
    if not patient.has_git:
        return
    listed = os.fsdecode(run_git("ls-files", "-z", "--", ".fractary", at=patient.root).stdout).split("\0")
    for path in [path for path in listed if MUST_STAY.search(path)]:
        what = f"git tracks {path}, which belongs to one machine and may contain private data"
        hint = f"run `git rm --cached {quote_word(path)}`, which leaves the file, and commit"
        if NOT_READ.search(path):
            what = f"git tracks {path}, which belongs to one machine: its content is ignored here"
            if os.path.lexists(os.path.join(patient.root, path)):
                hint += "; then move the file aside, or its content counts again"
        yield Finding("warning", what, hint)


def pulls_meet_no_fetched_runs(patient: Patient) -> Iterator[Finding]:
    """Look for files of runs that are untracked here and in the branch that is pulled: git refuses to overwrite them.

    So it is where the team's server brought a run before git did.
    """
    if not patient.has_git:
        return
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


def summaries_go_where_they_should(patient: Patient) -> Iterator[Finding]:
    """Report what happens to summaries of compactions, and look for a setting that other clones do not get."""
    try:
        settings = patient.settings
    except LedgerError:
        return  # reported by the check of the active file
    place = settings.places["summaries"]
    if settings.summaries:
        yield Finding("ok", f"summaries of compactions are recorded and committed (`summaries` is true: {place})")
    elif patient.common is None:
        yield Finding("ok", f"summaries of compactions are not kept without git (`summaries` is false: {place})")
    else:
        yield Finding("ok", f"summaries of compactions stay in this clone (`summaries` is false: {place})")
        for rule in rules_against(patient.root, (PATH,)) if place == PATH else ():
            what = f"git ignores {rule}: other clones do not get it, and record summaries of compactions"
            yield Finding("warning", what, "change or remove the rule")


def _block(patient: Patient, name: str, otherwise: str) -> Iterator[Finding]:
    """Check for our block in one of the files that git reads."""
    if not patient.has_git:
        return
    try:
        change = git_file_change(patient.root, name)
    except LedgerError as error:
        yield Finding("error", error.message, error.hint)
        return
    if change.action == "unchanged" or is_not_checked_out(patient.root, name):
        return  # `git.seen` reports what is left out; git reads it from its index
    what = f"{name} does not exist" if change.before is None else f"our lines in {name} are missing"
    what += f": {otherwise}"
    if change.before is not None and without_block(change.before) != change.before:
        what = f"our lines in {name} differ from this version's"
    fix = file_fix(patient.root, lambda: git_file_change(patient.root, name), "put our lines")
    yield Finding("warning", what, GIT_ONLY, fix)


def _git_config_fix(patient: Patient) -> Fix:
    config = os.path.join(patient.common, "config") if patient.common else ""
    return Fix(
        "git config",
        "register the merge and diff drivers, and autoStash, in this clone's git config",
        (config,),
        lambda _: make_settings(patient.root, settings_to_make(patient.root)),
        lambda: [one.command for one in settings_to_make(patient.root) if one.before != one.after],
    )
