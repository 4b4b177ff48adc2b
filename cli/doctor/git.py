"""What git does with a run's files, and how ledgers travel."""

import os
import re
from collections.abc import Iterator

from faber_ledger.cli.doctor.patient import Finding, Patient
from faber_ledger.cli.setup import tracking
from faber_ledger.cli.setup.git import CACHE, DRIVER, IGNORE_FILE, STASHES, git_file_change, settings_to_make
from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.worktrees.git import HINT_NO_WORK_TREE
from faber_ledger.files.change import without_block
from faber_ledger.files.text import quote_word
from faber_ledger.ledger import JOURNAL_ENDING
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.carry import consent_of
from faber_ledger.runs.conflicts import find_conflicts
from faber_ledger.runs.git import top_above, unused_tops, work_tree_of
from faber_ledger.runs.git_command import complaint, run_git, top_of
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.log import has_log
from faber_ledger.runs.ownership import describe_unused
from faber_ledger.runs.publish import carries_refs
from faber_ledger.runs.run import ACTIVE_FILES, ATTRIBUTES_FILE, LOGS
from faber_ledger.runs.sent import Sent

GIT_ONLY = "run `faber-ledger init --git-only`, as each clone needs it"
MUST_STAY = re.compile(
    rf"(?:^|/)(?:state(?:-[^/]*)?\.backup\.json|[^/]*(?:\.lock|{JOURNAL_ENDING}|-wal|-shm|\.backup|\.tmp))$"
    rf"|^{re.escape(LOGS)}/|^\.fractary/faber/(?:writer$|worktrees\.json)",
    re.IGNORECASE,  # as some file systems do
)
DRIVERS = ((DRIVER, "it cannot merge or show a ledger"), (STASHES, "it refuses to pull over a run's changed files"))
OUR_LINES = {
    ATTRIBUTES_FILE: "git treats a ledger as any binary file and does not merge it",
    IGNORE_FILE: "git would track backups, locks and logs of this machine",
}


def check_repository(patient: Patient) -> Iterator[Finding]:
    """Look for a git that does not answer or refuses the repository, and for a merge that stopped at our files."""
    try:
        inside = run_git("rev-parse", "--is-inside-work-tree", at=patient.root)
    except GitFailed as error:
        yield Finding("warning", error.message, error.hint)
        return
    if patient.has_git:
        top = top_of(patient.root)
        if paths := [one.path for one in (find_conflicts(patient.root, top) if top else ())]:
            yield Finding("error", f"git has stopped at {' and '.join(paths)}", "run `faber-ledger resolve`")
    elif work_tree_of(patient.root) is None and unused_tops:
        yield Finding("warning", *describe_unused())
    elif top_above(patient.root) is not None:
        yield Finding("warning", f"git cannot use the repository here: {complaint(inside)}", HINT_NO_WORK_TREE)


def check_drivers(patient: Patient) -> Iterator[Finding]:
    """Look for what this clone's git lacks to merge and show a ledger, and to pull over a changed one."""
    if not patient.has_git:
        return
    due = [one for one in settings_to_make(patient.root) if one.before != one.after]
    missing = [one.key for one in due if one.after is not None and one.key != CACHE]
    for keys, harm in DRIVERS:
        lacks = [key for key in keys if key in missing]
        if lacks:
            yield Finding("warning", f"this clone's git lacks {', '.join(lacks)}: {harm}", GIT_ONLY)


def check_lines(patient: Patient) -> Iterator[Finding]:
    """Look for our lines in the files that tell git how to merge a ledger, and what to leave out."""
    for name, harm in OUR_LINES.items() if patient.has_git else ():
        try:
            change = git_file_change(patient.root, name)
        except LedgerError as error:
            yield Finding("error", error.message, error.hint)
            continue
        if change.action == "unchanged":
            continue
        are_there = change.before is not None and without_block(change.before) != change.before
        fault = "differ from this version's" if are_there else "are missing"
        yield Finding("warning", f"our lines in {name} {fault}: {harm}", GIT_ONLY)


def check_travels(patient: Patient) -> Iterator[Finding]:
    """Look for the rules by which git ignores what must travel."""
    if not patient.has_git:
        return
    try:
        tracking.check_not_ignored(patient.root)
    except LedgerError as error:
        yield Finding("error", error.message, "change or remove the rule")
    paths = [run.shown(path) for run in patient.runs for path in tracking.files_that_travel(run)]
    for rule in tracking.rules_against(patient.root, tuple(paths)):
        yield Finding("error", f"git ignores {rule}, which must travel", "change or remove the rule")


def check_stays(patient: Patient) -> Iterator[Finding]:
    """Look for tracked files that belong to one machine, or to one work tree."""
    if not patient.has_git:
        return
    listed = run_git("ls-files", "-z", "--", ".fractary", at=patient.root).stdout
    for path in os.fsdecode(listed).split("\0"):
        remove = f"run `git rm --cached {quote_word(path)}`, which leaves the file, and commit"
        if path in ACTIVE_FILES:
            what = f"git tracks {path}, which is this work tree's own: it conflicts in pull requests"
            yield Finding("warning", what, f"{remove}; a colleague's pull then removes his file")
        elif MUST_STAY.search(path):
            what = f"git tracks {path}, which belongs to one machine and may contain private data"
            yield Finding("warning", what, remove)


def check_carry(patient: Patient) -> Iterator[Finding]:
    """Look for ledgers that are meant to travel in git refs, and do not."""
    if not patient.has_git or not carries_refs(patient.root):
        return
    consent = consent_of(patient.root)
    if consent is None:
        what = "this project's ledgers travel in git refs, and this clone sends and fetches none"
        yield Finding("warning", what, "run `faber-ledger init --carry refs` to let it")
        return
    remote = remote_of(patient.root)
    if remote is not None and remote.refusal is not None:
        yield Finding("error", remote.refusal.message, remote.refusal.hint)
        return
    for run in runs_here(patient.root):
        sent = Sent(run)
        if sent.problem and has_log(run):
            what = f"{run.run_id} was not sent: {sent.problem}"
            yield Finding("warning", what, sent.hint or "run `faber-ledger sync`")
