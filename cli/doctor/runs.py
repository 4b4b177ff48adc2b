"""The runs: their permissions and backups, which one is active, what was set aside, what `verify` finds."""

import os
import stat
from collections.abc import Iterator

from faber_ledger.cli.doctor.patient import Finding, Level, Patient
from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.cli.ui.words import plural
from faber_ledger.context.branch import branch_of_run, where_files_are
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.disk import folder_around
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import state_file
from faber_ledger.runs.active import MOVE_FOLDER
from faber_ledger.runs.clone import OUT_OF_THE_WAY, find_obstacle
from faber_ledger.runs.conflicts import paths_in_conflict
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import ACTIVE_FILES, HOOK_LOG, RUNS, Run, clone_folder, common_directory
from faber_ledger.runs.set_aside import ROWS, list_set_aside

ROLLED_BACK = "rolled_back"


def check_active(patient: Patient) -> Iterator[Finding]:
    """Look for an active file that names nothing usable, and for an active run on which nothing is recorded."""
    active, at_work = patient.active_run, [run for run in patient.runs if patient.is_run_active(run)]
    if active.problem:
        outcome = f"{active.run_id} is active: {active.why}" if active.run_id is not None else "hooks record nothing"
        is_folder = any([os.path.isdir(os.path.join(patient.root, *name.split("/"))) for name in ACTIVE_FILES])
        first = f"{MOVE_FOLDER}, then " if is_folder else ""
        yield Finding("error", f"{active.problem}; {outcome}", first + _hint_to_name(patient, at_work))
    elif active.run_id is None and at_work:
        what = f"no run is active here, but {at_work[0].run_id} is unfinished"
        what += f", and {len(at_work) - 1} more" if at_work[1:] else ""
        resume = f"run `faber-ledger run resume {at_work[0].run_id}`"
        yield Finding("note", what, f"{resume} if hooks should record on it")
    if active.run_id is None:
        return
    run = run_here(patient.root, active.run_id)
    if run.is_kept and patient.state(run).get("status") not in FINISHED:
        what = f"this work tree does not have the files of {run.run_id}"
        yield Finding("note", what, where_files_are(run, branch_of_run(run)))


def _hint_to_name(patient: Patient, at_work: list[Run]) -> str:
    if len(at_work) == 1:
        return f"run `faber-ledger run resume {at_work[0].run_id}`, the only unfinished run"
    if not patient.runs:
        return f"get the run with `git pull`, or {START_ONE}"
    return "get the run with `git pull`, or run `faber-ledger run resume RUN`; `faber-ledger run list` shows them"


def check_ledgers(patient: Patient) -> Iterator[Finding]:
    """Report what `verify` finds wrong with the logs and their published files, and states that cannot be read."""
    stopped = {path for paths in paths_in_conflict(patient.root).values() for path in paths}  # which `git` reports
    for run in patient.runs:
        is_stopped = run.shown(run.state_path) in stopped
        faults = [fault for fault in patient.faults.get(run.run_id, []) if not fault.is_note]
        for fault in faults:
            if is_stopped and fault.kind == ProjectionDiffers.code:
                continue
            about = f"event {fault.event}: " if fault.event else ""
            level: Level = "warning" if fault.kind == ROLLED_BACK else "error"
            yield Finding(level, f"{run.run_id}: {about}{fault.what}", fault.hint)
        is_unread = run.run_id not in {**patient.faults, **patient.states} and not is_stopped
        if is_unread and not state_file.is_state_ignored(run):
            try:
                state_file.read_state(run)
            except LedgerError as error:
                yield Finding("error", error.message, error.hint)
    left = len(patient.logged) - len(patient.faults)
    if left:
        yield Finding("note", f"{plural(left, 'ledger')} not verified, to save time", "run `faber-ledger verify --all`")


def check_set_aside(patient: Patient) -> Iterator[Finding]:
    """Name what was refused, replaced or removed in the last 30 days (DECISIONS 52)."""
    found = list_set_aside(patient.root)
    if found:
        what = f"{plural(len(found), 'file')} set aside in the last 30 days: {os.path.dirname(found[0])}"
        names = ", ".join([os.path.basename(path) for path in found[-3:]])
        hint = "look at them, or leave them: they are removed in time"
        if any([path.endswith(ROWS) for path in found]):
            hint += f"; *{ROWS} has in clear what others redacted, which `faber-ledger redact --undo` puts back"
        yield Finding("note", f"{what}; the newest: {names}", hint)


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """Look for files and folders that this user cannot read or write."""
    obstacle = find_obstacle(patient.root)
    if obstacle is not None:
        yield Finding("error", f"{obstacle}: nothing is recorded", OUT_OF_THE_WAY)
    for path in _list_paths(patient):
        is_outside = folder_around(path, [patient.root, common_directory(patient.root) or patient.root]) is None
        if not os.path.lexists(path) or os.path.islink(path) or is_outside:
            continue
        status = os.lstat(path)
        shown = os.path.relpath(path, patient.root) if path.startswith(patient.root + os.sep) else path
        is_folder = stat.S_ISDIR(status.st_mode)
        needed = stat.S_IRWXU if is_folder else stat.S_IRUSR | stat.S_IWUSR
        # The mode does not stop root, but it stops the owner later.
        is_usable = os.access(path, os.R_OK | os.W_OK | (os.X_OK if is_folder else 0))
        if status.st_mode & needed != needed or not is_usable:
            what = f"{shown} cannot be {'used' if is_folder else 'read and written'} by this user"
            rights = f"`chmod u+{'rwx' if is_folder else 'rw'} {quote_word(shown)}`"
            yield Finding("error", what, f"run {rights}, or give it to the user who records here, with `chown`")


def check_backups(patient: Patient) -> Iterator[Finding]:
    """Look for backups of finished runs, which may contain sensitive data (END, Security)."""
    ours: list[Run] = []
    for run in patient.runs:
        for path in run.backup_paths if patient.state(run).get("status") in FINISHED else ():
            if path == run.backup_path and not lacks_ledger(run):
                ours += [run] if os.path.lexists(path) else []
            elif os.path.lexists(path):
                what = f"{run.shown(path)} is left over from a finished run: it may contain sensitive data"
                yield Finding("warning", what, "remove it")
    if ours:
        first = ours[0].shown(ours[0].backup_path)
        what = f"left over from {plural(len(ours), 'finished run')}, perhaps with sensitive data: {first}"
        each = "; then again for each of the others" if ours[1:] else ""
        yield Finding("note", what, f"run `faber-ledger project {ours[0].run_id}`, which removes it{each}")


def _list_paths(patient: Patient) -> Iterator[str]:
    """Return the files and folders that hooks and commands read and write."""
    names = (".fractary", ".fractary/faber", *ACTIVE_FILES, HOOK_LOG, *RUNS)
    kept = clone_folder(patient.root)
    yield patient.root
    yield from [os.path.join(patient.root, *name.split("/")) for name in names]
    yield from [kept] if kept is not None else []
    yield from dict.fromkeys([run.directory for run in patient.runs])
    for run in patient.runs:
        yield from run.required_paths
