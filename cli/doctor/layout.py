"""The folders of runs, what is in them, and the file that names the active run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding, Fix, file_fix
from faber_ledger.cli.reports.project import project_run
from faber_ledger.cli.setup.tracking import is_not_checked_out
from faber_ledger.cli.ui.git_words import hint_if_left_out
from faber_ledger.cli.ui.texts import START_ONE
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.ledger import BACKUP_ENDING
from faber_ledger.ledger.errors import InvalidRunId, LedgerError
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.kept import kept_run, not_in_tree, run_here
from faber_ledger.runs.layouts import find_run, may_be_run, places_of, run_at
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.run import (
    ACTIVE_FILES,
    RUN_FILES,
    RUNS,
    STATE,
    STATE_BACKUP,
    UNFINISHED_ENDINGS,
    Run,
    kind_of,
    with_suffix,
)

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient


FABERS = RUNS[1].split("/")
DEEPEST = 5
MOST_ENTRIES = 20_000


def runs_folder_is_one(patient: Patient) -> Iterator[Finding]:
    """Check that the folders of runs are folders in the project, and that no run has several places."""
    if not os.path.isdir(os.path.join(patient.root, ".fractary")) and hint_if_left_out(patient.root) is None:
        yield Finding("note", "there is no .fractary yet: no run has been started here", "run `faber-ledger run start`")
    for runs in RUNS:
        path = os.path.join(patient.root, *runs.split("/"))
        if os.path.islink(path):
            what = f"{runs} is a link to {os.path.realpath(path)}: git does not follow it"
            yield Finding("warning", what, "replace the link with the folder itself")
        elif os.path.lexists(path) and not os.path.isdir(path):
            yield Finding("error", f"{runs} is not a folder", "move it aside")
    for run_id in patient.all_ids:
        try:
            find_run(patient.root, run_id)
        except InvalidRunId as error:
            yield Finding("error", error.message, error.hint)
    for path, used in _unused_places(patient).items():
        what = f"{path} is not used: the run {used.run_id} is recorded in {used.shown(used.directory)}"
        hint = "compare the two, and move the one that is not used aside"
        if not path.startswith(f"{RUNS[0]}/"):  # FABER's own tools may work on it
            hint = "compare the two, and leave to FABER's tools the one that they write"
        yield Finding("warning", what, hint)


def _unused_places(patient: Patient) -> dict[str, Run]:
    """Return the states and ledgers of runs that have another place, each with the run as it is used."""
    found: dict[str, Run] = {}
    for run_id in patient.all_ids:
        try:
            used = find_run(patient.root, run_id)
        except InvalidRunId:
            continue  # it is reported as that
        for place in places_of(patient.root, run_id):
            path = place.shown(place.state_path if os.path.lexists(place.state_path) else place.ledger_path)
            is_other = place.is_recorded() and place.state_path != used.state_path
            if is_other and run_at(patient.root, path) is None:
                found.setdefault(path, used)
    return found


def runs_have_their_names(patient: Patient) -> Iterator[Finding]:
    """Look for folders with a run that no command finds, because of their name or depth."""
    for folder in patient.runs_folders:
        for path, names in _folders_below(folder):
            run_id = os.path.relpath(path, folder).replace(os.sep, "/")
            held = [name for name in RUN_FILES if name in names]
            if held and not may_be_run(run_id, os.path.relpath(folder, patient.root).replace(os.sep, "/")):
                shown = os.path.relpath(path, patient.root).replace(os.sep, "/")
                hint = "rename it to the id in its state.json: one to three parts of letters, digits and `._-`"
                yield Finding("warning", f"{shown} has {' and '.join(held)}, but its name is not a run id", hint)
            if held or path in patient.runs_folders or not path.startswith(os.path.join(patient.root, *FABERS, "")):
                continue
            for name in [
                name for name in names if fnmatchcase(name, with_suffix(STATE, "*")) and kind_of(name) is None
            ]:
                if not fnmatchcase(name, with_suffix(STATE_BACKUP, "*")):
                    shown = os.path.relpath(os.path.join(path, name), patient.root).replace(os.sep, "/")
                    hint = "name it `state-<suffix>.json`, with a suffix of letters, digits and `._-`"
                    yield Finding("warning", f"{shown} is not found, because of the suffix in its name", hint)


def folders_hold_runs_alone(patient: Patient) -> Iterator[Finding]:
    """Look for leftovers: files beside the runs, empty folders, and files of a killed writer."""
    known: dict[str, list[Run]] = {}
    for run in patient.runs:
        known.setdefault(run.directory, []).append(run)
    for folder in patient.runs_folders:
        for path, names in _folders_below(folder):
            shown = os.path.relpath(path, patient.root).replace(os.sep, "/")
            if path in known:
                for run in known[path]:
                    others = [one for one in known[path] if one is not run]
                    mine = [name for name in names if not any([one.owns(name) for one in others])]
                    yield from _find_leftovers(run, [name for name in mine if not run.suffix or run.owns(name)])
            elif path == folder:
                strays = sorted(
                    name for name in names if not name.startswith(".") and os.path.isfile(os.path.join(path, name))
                )
                for name in strays:
                    yield Finding("note", f"{shown}/{name} is among the runs, but is not a run", "move it elsewhere")
            elif not names:
                yield Finding("note", f"{shown} is empty", "remove it")


def active_run_is_there(patient: Patient) -> Iterator[Finding]:
    """Check that the active files are UTF-8 files that name runs of this project, and say which run is active."""
    named = []
    active = patient.active_run
    is_active = f"{active.run_id} is active: {active.why}"
    for name in ACTIVE_FILES:
        path = os.path.join(patient.root, *name.split("/"))
        if not os.path.lexists(path):
            continue
        run_id, problem = _read_active_file(patient, path)
        if problem is not None:
            fix = _plan_active_file(patient, path)
            hint = _hint(patient, fix)
            outcome = "hooks record nothing" if active.run_id in (None, run_id) else is_active
            yield Finding("error", f"{name} {problem}: {outcome}", hint, fix)
        else:
            named.append((name, run_id))
        if is_tracked(path) is True:
            what = f"git tracks {name}, which is this work tree's own: it conflicts in pull requests"
            hint = f"run `git rm --cached {name}`, and commit; a colleague's pull then removes his file"
            yield Finding("warning", what, hint)
    if active.run_id is not None:
        run = run_here(patient.root, active.run_id)
        if run.is_kept:
            hint = f"run `faber-ledger run resume {run.run_id}`, or check its branch out"
            place = find_run(patient.root, run.run_id)
            if is_not_checked_out(patient.root, place.shown(place.ledger_path)):
                hint = "run `git sparse-checkout add .fractary`"
            yield Finding("note", not_in_tree(run), hint)
    if active.named_too is not None:
        what = f"the active file names {active.named_too}: {is_active}"
        yield Finding("note", what, f"run `faber-ledger run resume {active.named_too}` to make that one active")
    unfinished = _list_unfinished(patient)
    if (
        active.run_id is None
        and not named
        and unfinished
        and not any([os.path.lexists(os.path.join(patient.root, *name.split("/"))) for name in ACTIVE_FILES])
    ):
        what = f"no run is active here, but {unfinished[0]} is unfinished" + (
            f", and {len(unfinished) - 1} more" if len(unfinished) > 1 else ""
        )
        yield Finding("note", what, f"run `faber-ledger run resume {unfinished[0]}` if hooks should record on it")
    for run in patient.runs:
        status = patient.state(run).get("status")
        if run.run_id == patient.active and status in FINISHED:
            what = f"the active run {run.run_id} is {status}: hooks record nothing on it"
            yield Finding("note", what, "run `faber-ledger run start` for the next, or `faber-ledger run resume RUN`")


def _read_active_file(patient: Patient, path: str) -> tuple[str, str | None]:
    """Return the run that an active file names, and what is wrong with the file, if anything."""
    if os.path.islink(path):
        return "", "is a link, which is never followed"
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return "", "is not a regular file"
        content = read_file(path) or b""
    except (LedgerError, OSError) as error:
        return "", f"cannot be read ({error})"
    try:
        lines = content[:4096].decode().removeprefix("\ufeff").strip().splitlines()
    except UnicodeDecodeError:
        return "", "is not UTF-8"
    if not lines:
        return "", "is empty"
    run_id = lines[0].strip()
    try:
        run = find_run(patient.root, run_id)
    except InvalidRunId:
        return run_id, f"names {run_id!r:.80}, which is not a run id"
    if not run.has_files() and kept_run(patient.root, run.run_id) is None:
        return run_id, f"names {run_id}, which is not here"
    return run_id, None


def _list_unfinished(patient: Patient) -> list[str]:
    return [run.run_id for run in patient.runs if patient.is_run_active(run)]


def _plan_active_file(patient: Patient, path: str) -> Fix | None:
    """Return a fix of an active file if only one run can be meant."""
    unfinished = _list_unfinished(patient)
    if len(unfinished) != 1 or not os.path.isfile(path) or os.path.islink(path):
        return None

    def plan() -> FileChange:
        return FileChange(path, read_file(path), f"{unfinished[0]}\n".encode())

    return file_fix(patient.root, plan, f"name {unfinished[0]}, the only unfinished run,")


def _hint(patient: Patient, fix: Fix | None) -> str:
    if fix is not None:
        return f"run `faber-ledger run resume {_list_unfinished(patient)[0]}`, the only unfinished run"
    if not patient.runs:
        return f"get the run with `git pull`, or {START_ONE}"
    return "get the run with `git pull`, or run `faber-ledger run resume RUN`; `faber-ledger run list` shows them"


def _find_leftovers(run: Run, names: list[str]) -> Iterator[Finding]:
    ledger = os.path.basename(run.ledger_path)
    for name in names:
        if name.endswith(UNFINISHED_ENDINGS) or name in [f"{ledger}-{one}" for one in ("wal", "shm", "journal")]:
            left = run.shown(os.path.join(run.directory, name))
            what = f"{left} was left by a killed program, or a program is at work"
            yield Finding("note", what, "remove it when no session is open")


def project_fix(run: Run, what: str, *, restore: bool = False) -> Fix:
    """Return a fix that writes a run's blocks from its log, and publishes it."""
    touched = (run.state_path, run.backup_path, run.ledger_path, run.ledger_path + BACKUP_ENDING)
    return Fix(
        f"project {run.run_id}",
        f"{run.run_id}: {what}",
        touched,
        lambda warn: project_run(run, rebuild=not restore, restore=restore, warn=warn),
        lambda: [f"faber-ledger project {run.run_id}{' --restore' if restore else ''}"],
    )


def _folders_below(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Return a runs folder and the folders below it, each with its entries, up to a limit in depth and number."""
    for seen, (path, folders, files) in enumerate(os.walk(folder)):
        folders.sort()
        depth = os.path.relpath(path, folder).count(os.sep) + (path != folder)
        # Other tools have their own folders in a run's folder: those are not runs.
        if depth >= DEEPEST or any([name in files for name in RUN_FILES]):
            nested = [name for name in folders if _holds_run(os.path.join(path, name))]
            folders[:] = nested if depth < DEEPEST else []
        yield path, [*files, *folders]
        if seen >= MOST_ENTRIES:
            return


def _holds_run(path: str) -> bool:
    return any([os.path.lexists(os.path.join(path, name)) for name in RUN_FILES])
