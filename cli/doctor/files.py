"""The permissions of files, and backups that outlived their run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from faber_ledger.cli.doctor.finding import Finding, Fix
from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.disk import folder_around
from faber_ledger.runs.clone import OUT_OF_THE_WAY, find_obstacle
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import ACTIVE_FILES, HOOK_LOG, clone_folder, common_directory


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """Look for files and folders that this user, or the project's owner, cannot read or write."""
    obstacle = find_obstacle(patient.root)
    if obstacle is not None:
        yield Finding("error", f"{obstacle}: nothing is recorded", OUT_OF_THE_WAY)
    owner = os.lstat(patient.root).st_uid
    user = os.geteuid() if hasattr(os, "geteuid") else -1
    for path in _list_paths(patient):
        if not os.path.lexists(path) or os.path.islink(path) or _leads_away(path, patient.root):
            continue
        status = os.lstat(path)
        shown = os.path.relpath(path, patient.root) if path.startswith(patient.root + os.sep) else path
        is_folder = stat.S_ISDIR(status.st_mode)
        needed = stat.S_IRWXU if is_folder else stat.S_IRUSR | stat.S_IWUSR
        # The mode does not stop root, but it stops the owner later.
        if status.st_mode & needed != needed:
            mode = stat.S_IMODE(status.st_mode)
            what = f"{shown} has the mode {mode:04o}: its owner cannot {'use' if is_folder else 'read and write'} it"
            fix = _chmod_fix(path, shown, mode | needed) if user in (0, status.st_uid) else None
            yield Finding("error", what, f"run `chmod u+{'rwx' if is_folder else 'rw'} {quote_word(shown)}`", fix)
        elif not os.access(path, os.R_OK | os.W_OK | (os.X_OK if is_folder else 0)):
            what = f"{shown} cannot be {'used' if is_folder else 'read and written'} by this user"
            yield Finding("error", what, "give it to the user who records here, with `chown`")
        elif user == 0 == status.st_uid != owner:
            what = f"{shown} belongs to root, and the project's owner cannot write it"
            give = f"run `chown --reference=. {quote_word(shown)}` in the project"
            yield Finding("warning", what, f"{give}, and do not work here as root")


def check_backups(patient: Patient) -> Iterator[Finding]:
    """Look for backups of finished runs, which may contain sensitive data (END, Security)."""
    for run in patient.runs:
        for path in run.backup_paths if patient.state(run).get("status") in FINISHED else ():
            if os.path.lexists(path):
                what = f"{run.shown(path)} is left over from a finished run: it may contain sensitive data"
                is_ours = path == run.backup_path and not lacks_ledger(run)
                hint = f"run `faber-ledger project {run.run_id}`, which removes it" if is_ours else "remove it"
                yield Finding("warning", what, hint)


def _list_paths(patient: Patient) -> Iterator[str]:
    """Return the files and folders that hooks and commands read and write."""
    names = (".fractary", ".fractary/faber", *ACTIVE_FILES, HOOK_LOG)
    kept = clone_folder(patient.root)
    yield patient.root
    yield from [os.path.join(patient.root, *name.split("/")) for name in names]
    yield from (*patient.runs_folders, *([kept] if kept is not None else []))
    yield from dict.fromkeys([run.directory for run in patient.runs])
    for run in patient.runs:
        yield from run.required_paths


def _leads_away(path: str, root: str) -> bool:
    """Return whether a path of the project, or of its git directory, leads to a place outside of both."""
    return folder_around(path, [root, common_directory(root) or root]) is None


def _chmod_fix(path: str, shown: str, mode: int) -> Fix:
    what = f"give {shown} the mode {mode:04o}"
    return Fix(f"mode {path}", what, (), lambda _: os.chmod(path, mode), lambda: [f"chmod {mode:04o} {shown}"])
