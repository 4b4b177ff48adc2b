"""The files: their permissions, their sizes, and old backups."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding, Fix
from faber_ledger.context.messages import size_words
from faber_ledger.files.text import quote_word
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.main import LONGEST_LOG
from faber_ledger.ledger import BACKUP_ENDING
from faber_ledger.runs.git import clone_folder, common_directory
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import ACTIVE_FILES, HOOK_LOG

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


MB = 1024 * 1024
LARGE_STATE = MB  # what a reload refuses of a required artifact (AGENT, Session Load, Error Handling)
LARGE_LEDGER = 50 * MB  # above it, hosts of git repositories warn
OLD_DAYS = 30
BACKUP = re.compile(rf".*{re.escape(BACKUP_ENDING)}|state(-.*)?\.backup\.json|.*\.broken-\d+")


def files_can_be_used(patient: Patient) -> Iterator[Finding]:
    """Look for files and folders that this user, or the project's owner, cannot read or write."""
    owner = _status(patient.root)
    for path in _list_paths(patient):
        status = _status(path)
        if status is None or stat.S_ISLNK(status.st_mode) or _is_led_away(path, patient.root):
            continue
        shown = os.path.relpath(path, patient.root) if path.startswith(patient.root + os.sep) else path
        is_folder = stat.S_ISDIR(status.st_mode)
        needed = stat.S_IRWXU if is_folder else stat.S_IRUSR | stat.S_IWUSR
        # The mode does not stop root, but it stops the owner later.
        if status.st_mode & needed != needed:
            mode = stat.S_IMODE(status.st_mode)
            what = f"{shown} has the mode {mode:04o}: its owner cannot {'use' if is_folder else 'read and write'} it"
            may = _user() in (0, status.st_uid)
            fix = _chmod_fix(path, shown, mode | needed) if may else None
            yield Finding("error", what, f"run `chmod u+{'rwx' if is_folder else 'rw'} {quote_word(shown)}`", fix)
        elif not os.access(path, os.R_OK | os.W_OK | (os.X_OK if is_folder else 0)):
            what = f"{shown} cannot be {'used' if is_folder else 'read and written'} by this user"
            yield Finding("error", what, "give it to the user who records here, with `chown`")
        elif owner is not None and _user() == 0 and status.st_uid == 0 != owner.st_uid:
            what = f"{shown} belongs to root, and the project's owner cannot write it"
            yield Finding(
                "warning",
                what,
                f"run `chown --reference=. {quote_word(shown)}` in the project, and do not work here as root",
            )


def sizes_are_usual(patient: Patient) -> Iterator[Finding]:
    """Look for a state.json that is too large to reload, large ledgers, and an overgrown hook log."""
    for run in patient.runs:
        size = _size(run.state_path)
        if size > LARGE_STATE:
            what = f"{run.shown(run.state_path)} has {size_words(size)}: a reload accepts at most 1 MB"
            yield Finding(
                "warning", what, "find the member that has grown; our two blocks grow only with the number of sessions"
            )
        size = _size(run.ledger_path)
        if size > LARGE_LEDGER:
            what = f"{run.shown(run.ledger_path)} has {size_words(size)}, and git keeps each version of it"
            yield Finding("note", what, "finish the run, and start another for the next work")
    for name in (HOOK_LOG, HOOK_LOG + ".1"):
        size = _size(os.path.join(patient.root, *name.split("/")))
        if size > 2 * LONGEST_LOG:
            yield Finding(
                "note", f"{name} has {size_words(size)}: hooks keep it below {size_words(LONGEST_LOG)}", "move it aside"
            )


def backups_are_few(patient: Patient) -> Iterator[Finding]:
    """Look for backups that are not needed any more: of a finished run, or older than 30 days."""
    left_over = [
        path for run in patient.runs if patient.state(run).get("status") in FINISHED for path in run.backup_paths
    ]
    folders = [*[run.directory for run in patient.runs], os.path.join(patient.root, ".fractary", "faber")]
    kept = clone_folder(patient.root)
    if kept is not None:
        folders += [folder for folder, _, _ in os.walk(kept)]
    for folder in dict.fromkeys(folders):
        for entry in _entries(folder):
            if not BACKUP.fullmatch(entry.name):
                continue
            days = int((patient.at - entry.stat(follow_symlinks=False).st_mtime) // 86_400)
            shown = os.path.relpath(entry.path, patient.root)
            if entry.path in left_over:
                what = f"{shown} is left over from a finished run: it may contain sensitive data (END, Security)"
                yield Finding("warning", what, "remove it")
            elif days > OLD_DAYS:
                yield Finding("note", f"{shown} is a backup, {days} days old", "remove it if nothing is missing")


def _list_paths(patient: Patient) -> Iterator[str]:
    """Return the files and folders that hooks and commands read and write."""
    yield patient.root
    yield os.path.join(patient.root, ".fractary")
    yield os.path.join(patient.root, ".fractary", "faber")
    yield from [os.path.join(patient.root, *name.split("/")) for name in ACTIVE_FILES]
    yield os.path.join(patient.root, *HOOK_LOG.split("/"))
    yield from patient.runs_folders
    kept = clone_folder(patient.root)
    if kept is not None:
        yield kept
    yield from dict.fromkeys([run.directory for run in patient.runs])
    for run in patient.runs:
        yield from (run.state_path, run.ledger_path)


def _is_led_away(path: str, root: str) -> bool:
    """Return whether a path of the project, or of its git directory, leads to a place outside of both."""
    return folder_around(path, [root, common_directory(root) or root]) is None


def _chmod_fix(path: str, shown: str, mode: int) -> Fix:
    return Fix(
        f"mode {path}",
        f"give {shown} the mode {mode:04o}",
        (),  # its content stays
        lambda _: os.chmod(path, mode),
        lambda: [f"chmod {mode:04o} {shown}"],
    )


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []  # it does not exist, or the check of permissions reports it


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _size(path: str) -> int:
    status = _status(path)
    return status.st_size if status is not None else 0


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else -1
