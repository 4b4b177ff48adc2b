"""What the hooks report: failures and time-outs in their log, repeated deliveries, and waiting deliveries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding, Fix
from faber_ledger.cli.ui.table import plural
from faber_ledger.files.untrusted import FileRefused, read_text
from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.recording import spool
from faber_ledger.recording.incoming import NO_SESSION
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.clone import spool_path, spools_folder
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.run import HOOK_LOG

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient
    from faber_ledger.runs.run import Run


DAYS = 7
LARGEST = 1024 * 1024
NEWEST = 200
SHOWN = 3
# Reported elsewhere; or nothing to fix, as the end that a client sends after it has listed its plugins.
QUIET = ("No active workflow found", "❌ ERROR: Required artifact", "⚠️ WARNING:", NO_SESSION)
WRITTEN_OVER = "state.json differed from the ledger"
SLOW = ("more than", "longer than", "took too long")


def hooks_have_not_failed(patient: Patient) -> Iterator[Finding]:
    """Look for failures and time-outs of the last week in the hook log, unless it may have come with a commit."""
    path = os.path.join(patient.root, *HOOK_LOG.split("/"))
    if os.path.lexists(path) and is_tracked(path) is True:
        what = f"{HOOK_LOG} is not read: git tracks it, or cannot say, and anyone may have written its lines"
        yield Finding("note", what, "take it out of git, or run `faber-ledger doctor` again where git answers")
        return
    try:
        text = read_text(path, LARGEST) or ""
    except FileRefused as error:
        yield Finding(
            "warning", f"{HOOK_LOG} cannot be read: {error}", "move it aside; the next hook creates a new one"
        )
        return
    slow: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for line in text.splitlines():
        at, _, rest = line.partition(" ")
        hook, _, message = rest.partition(" ")
        seconds = seconds_of(at)
        if seconds is None or patient.at - seconds > DAYS * 86_400 or message.startswith(QUIET):
            continue
        kind = slow if any([phrase in message for phrase in SLOW]) else failed
        kind = written if message.startswith(WRITTEN_OVER) else kind
        kind.setdefault(f"{hook}: {message[:200]}", []).append(at)
    if written:
        message, times = max(written.items(), key=lambda item: item[1][-1])
        what = f"another tool changed what the ledger keeps in state.json, last at {times[-1]}: {message}"
        yield Finding("note", what, "nothing, if the tool adds sessions of its own; else stop it from writing there")
    for kind, verb in ((slow, "took too long"), (failed, "failed")):
        newest = sorted(kind.items(), key=lambda item: item[1][-1], reverse=True)
        for message, times in newest[:SHOWN]:
            count = f"{len(times)} times, last" if len(times) > 1 else "once,"
            what = f"a hook {verb} {count} at {times[-1]}: {message}"
            yield Finding(
                "warning", what, f"follow the message; {HOOK_LOG} has all of them, and doctor ignores them after a week"
            )
        if len(newest) > SHOWN:
            yield Finding(
                "warning", f"… and {len(newest) - SHOWN} other messages of hooks that {verb}", f"read {HOOK_LOG}"
            )


def deliveries_come_once(patient: Patient) -> Iterator[Finding]:
    """Look for repeated deliveries of the active run, for example from hooks in a plugin and in the settings."""
    newest = [(one["at"], dict(one["event"])) for one in patient.newest_events(NEWEST)]
    twice = [at for at, event in newest if event.get("reason") == "repeated" and event["type"] == "delivery_ignored"]
    if twice:
        what = f"of the newest {len(newest)} events of {patient.active} {len(twice)} are repeated deliveries"
        hint = "the hooks are installed twice, perhaps by a plugin too: remove one of them"
        yield Finding("note", f"{what}, the last at {max(twice)}", hint)


def nothing_waits(patient: Patient) -> Iterator[Finding]:
    """Look for deliveries that could not be recorded and wait in a spool, and for those moved aside."""
    for run in patient.runs:
        yield from _check_spool(run)
        aside = spool.moved_aside(run)
        if aside:
            what = f"{run.run_id}: {spool_path(run)} has deliveries that could not be recorded"
            hint = f"read and remove them (*{spool.ASIDE}); rename one to *{spool.SUFFIX} to try it again"
            yield Finding("note", what, hint)
    for run_id in _list_spools(patient) - set(patient.all_ids):
        what = f"deliveries wait for the run {run_id}, which is not in this worktree"
        hint = (
            f"run `faber-ledger project {run_id}` where the run is: that records them, as the next hook there does;"
            f" only if the run is gone, `faber-ledger run forget {run_id} --yes` removes them with its mirror"
        )
        yield Finding("note", what, hint)


def _check_spool(run: Run) -> Iterator[Finding]:
    paths = spool.waiting(run)
    if not paths:
        return
    count = plural(len(paths), "delivery", "deliveries")
    what = f"{run.run_id}: {count} waiting in {spool_path(run)}: not recorded on arrival"
    command = f"faber-ledger project {run.run_id}"
    fix = Fix(
        f"spool {run.run_id}",
        f"{run.run_id}: record what waits in the spool",
        (run.state_path, run.backup_path, run.ledger_path, *paths),
        lambda warn: drain_waiting(run, now(), warn=warn),
        lambda: [command],
    )
    hint = f"fix what stopped it, as the hook log says; the next hook records what waits, as `{command}` does"
    yield Finding("warning", what, hint, fix)


def _list_spools(patient: Patient) -> set[str]:
    """Return the ids of the runs that have deliveries in the clone's spool."""
    top = spools_folder(patient.root) or ""
    folders = [folder for folder, _, names in os.walk(top) if any([name.endswith(spool.SUFFIX) for name in names])]
    return {os.path.relpath(folder, top).replace(os.sep, "/") for folder in folders}
