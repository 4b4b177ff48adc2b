"""The runs' ledgers: their format, what `verify` finds, what git rolled back, and their open sessions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding
from faber_ledger.cli.doctor.layout import project_fix
from faber_ledger.cli.ui.table import plural
from faber_ledger.cli.worktrees.at_work import active_elsewhere
from faber_ledger.ledger import file
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.command_errors import ProjectionDiffers
from faber_ledger.ledger.errors import LedgerError, NewerFormat
from faber_ledger.ledger.file import format_of
from faber_ledger.projections.blocks import blocks_of, entry_of, newest_open
from faber_ledger.projections.fold import fold
from faber_ledger.recording.sessions import is_open_here
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.log import has_log, read_log
from faber_ledger.runs.set_aside import list_set_aside

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient
    from faber_ledger.ledger.problems import LogProblem
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run


STALE_HOURS = 24
ROLLED_BACK = "rolled_back"
RESOLVE = "faber-ledger resolve"
CHECKOUT = "git checkout"  # only the user runs it


def formats_are_known(patient: Patient) -> Iterator[Finding]:
    """Look for logs and files of a newer or an older format."""
    for run in patient.logged:
        try:
            found = format_of(run.log_path) if has_log(run) else file.FORMAT
            format_of(run.ledger_path)
        except NewerFormat as error:
            yield Finding("error", error.message, error.hint)
            continue
        except LedgerError:
            continue  # reported by the check of the logs, or set aside
        if found < file.FORMAT:
            what = f"the log of {run.run_id} has format {found}, but this program writes {file.FORMAT}"
            yield Finding("note", what, f"run `faber-ledger migrate {run.run_id}`")


def ledgers_are_sound(patient: Patient) -> Iterator[Finding]:
    """Report what `verify` finds in the logs."""
    for run, fault in _faults(patient):
        if fault.kind in (ProjectionDiffers.code, ROLLED_BACK, NewerFormat.code):
            continue  # reported by the other checks
        about = f"event {fault.event}: " if fault.event else ""
        level = "note" if fault.is_note else "error"
        yield Finding("note" if level == "note" else "error", f"{run.run_id}: {about}{fault.what}", fault.hint)
    left = len(patient.logged) - len(patient.faults)
    if left:
        what = f"{left} {'ledgers were' if left > 1 else 'ledger was'} not verified, to save time"
        yield Finding("note", what, "run `faber-ledger verify --all`")


def states_show_the_logs(patient: Patient) -> Iterator[Finding]:
    """Look for a state.json that cannot be read, or whose two blocks differ from the log."""
    for run in patient.runs:
        faults = patient.faults.get(run.run_id)
        if faults is None:
            if run.run_id not in patient.states and not state_file.is_state_ignored(run):
                yield _state_broken(run)
            continue
        differs = [fault for fault in faults if fault.kind == ProjectionDiffers.code]
        if not differs:
            continue
        is_sound = all([fault.is_note or fault.kind in (ProjectionDiffers.code, ROLLED_BACK) for fault in faults])
        restore = run.run_id not in patient.states
        what = "; ".join([fault.what for fault in differs])
        can = (
            is_sound
            and RESOLVE not in differs[0].hint
            and (not restore or state_file.read_backup(run) is not None or not os.path.lexists(run.state_path))
        )
        fix = project_fix(run, "write state.json from the log", restore=restore and os.path.lexists(run.state_path))
        yield Finding("error", f"{run.run_id}: {what}", differs[0].hint, fix if can else None)


def nothing_is_rolled_back(patient: Patient) -> Iterator[Finding]:
    """Look for events of this clone's log that the published file should have and lacks."""
    for run, fault in _faults(patient):
        if fault.kind == ROLLED_BACK:
            fix = project_fix(run, "restore what was rolled back") if CHECKOUT not in fault.hint else None
            yield Finding("warning", f"{run.run_id}: {fault.what}", fault.hint, fix)


def what_is_set_aside(patient: Patient) -> Iterator[Finding]:
    """Name what was refused, replaced or removed in the last 30 days."""
    found = list_set_aside(patient.root)
    if found:
        what = f"{plural(len(found), 'file')} set aside in the last 30 days: {os.path.dirname(found[0])}"
        names = ", ".join([os.path.basename(path) for path in found[-3:]])
        yield Finding("note", f"{what}; the newest: {names}", "look at them, or leave them: they are removed in time")


def sessions_are_open_where_they_run(patient: Patient) -> Iterator[Finding]:
    """Report the open sessions; an end is proposed only in the clone that a session runs in."""
    finished_elsewhere = []
    for run in patient.runs:
        blocks = _blocks_of(run, blocks_of(patient.state(run)))
        session_id = newest_open(blocks)
        if session_id is None:
            continue
        entry = entry_of(blocks, session_id) or {}
        environment = entry.get("environment")
        host = (environment.get("hostname") if isinstance(environment, dict) else None) or "an unknown machine"
        since = entry.get("started_at")
        what = f"{run.run_id}: {session_id} is open since {since or 'an unknown time'}, on {host}"
        status = patient.state(run).get("status")
        holder = active_elsewhere(run.root, run.run_id) if run.run_id != patient.active else None
        if holder is not None:
            yield Finding("ok", f"{what}; the run is active in {holder}")
            continue
        newest, is_here = _look_at_session(run, blocks, session_id)
        quiet = (patient.at - _last_sign(newest, since, patient.at)) / 3600
        if not is_here and status in progress.FINISHED:
            finished_elsewhere.append(f"{run.run_id}: {session_id} is open on {host}")
        elif not is_here:
            hint = f"nothing here: its client ends it on {host}, or the next start on the run ends it as abandoned"
            yield Finding("note", f"{run.run_id}: {session_id} is open on {host}, not in this clone", hint)
        elif status in progress.FINISHED:
            yield Finding("warning", f"{what}, and the run is {status}", _ending(run))
        elif quiet >= STALE_HOURS:
            hint = f"nothing if it continues: the next start ends it as abandoned; or {_ending(run)}"
            yield Finding("note", f"{what}, and nothing has been recorded for {int(quiet)} hours", hint)
        elif run.run_id != patient.active:
            yield Finding("note", f"{what}, but its run is not active here", _ending(run))
        else:
            yield Finding("ok", what)
    if finished_elsewhere:
        count = len(finished_elsewhere)
        named = "; ".join([*finished_elsewhere[:5], *([f"and {count - 5} more"] if count > 5 else [])])
        what = f"{plural(count, 'finished run')} with a session that is open in another clone: {named}"
        hint = (
            "nothing here: once the session has ended, run `faber-ledger seal RUN` in that clone, and commit and push"
        )
        yield Finding("note", what, hint)


def _blocks_of(run: Run, found: Blocks) -> Blocks:
    """Return the blocks of a run's log; those of its state where it has none that can be read."""
    try:
        with read_log(run) as log:
            return fold(log.stream())
    except (LedgerError, OSError, sqlite3.Error):
        return found


def _faults(patient: Patient) -> Iterator[tuple[Run, LogProblem]]:
    for run in patient.logged:
        for fault in patient.faults.get(run.run_id, []):
            yield run, fault


def _state_broken(run: Run) -> Finding:
    """Return the finding for a state that cannot be read."""
    try:
        state_file.read_state(run)
    except LedgerError as error:
        has_backup = os.path.lexists(run.state_path) and state_file.read_backup(run) is not None
        has_backup = has_backup and RESOLVE not in error.hint  # a backup has only one side
        fix = project_fix(run, "restore the newest backup of state.json", restore=True) if has_backup else None
        return Finding("error", error.message, error.hint, fix)
    return Finding("note", f"{run.shown(run.state_path)} could not be read just now", "run the command again")


def _ending(run: Run) -> str:
    return f"run `faber-ledger session-save --run-id {run.run_id}` to end it"


def _look_at_session(run: Run, blocks: Blocks, session_id: str) -> tuple[float | None, bool]:
    """Return when the newest event was recorded (None: unknown), and whether a session runs in this clone."""
    try:
        with read_log(run) as log:
            newest = seconds_of(next(iter(log.newest(1)))["at"])
            return newest, is_open_here(log, blocks, session_id, run.root)
    except (LedgerError, StopIteration):  # an adopted run without a log, or one that cannot be read
        return None, is_open_here(None, blocks, session_id, run.root)


def _last_sign(newest: float | None, since: object, at: float) -> float:
    """Return when something was last recorded; the ledger file's own time may be that of a checkout."""
    started = seconds_of(since) if isinstance(since, str) else None
    return max([moment for moment in (started, newest) if moment is not None], default=at)
