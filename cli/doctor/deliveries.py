"""What the hooks report: failures and time-outs in their log, repeated deliveries, and waiting deliveries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sized
from functools import partial
from typing import TYPE_CHECKING

from faber_ledger.cli.doctor.finding import Finding, Fix
from faber_ledger.cli.ui.table import plural
from faber_ledger.files.untrusted import FileRefused, read_text
from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.incoming import NO_SESSION
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.clone import inbox_folder, known_writer
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.run import HOOK_LOG, quoted_form

if TYPE_CHECKING:
    from faber_ledger.cli.doctor.patient import Patient
    from faber_ledger.runs.run import Run


DAYS = 7
LARGEST = 1024 * 1024
NEWEST = 200  # events among which the newest deliveries are looked for
LATEST = 4  # deliveries: of two installations every second one is repeated
SHOWN = 3
# Lines that are no failure, by their beginnings: what they mean, and what to do.
KINDS = (
    (
        ("state.json differed from the ledger",),
        "another tool changed what the ledger keeps in state.json",
        "nothing, if the tool adds sessions of its own; else stop it from writing there",
    ),
    (
        ("❌ ERROR: Required artifact", "⚠️ WARNING:", "Cannot evaluate condition:"),
        "sessions began without all of their context",
        "follow the message; the check workflow.artifacts says what a session that starts now would lack",
    ),
    (
        ("No active workflow found", NO_SESSION),
        "hooks recorded nothing",
        "nothing, if no run was at work then",
    ),
)
NAMED_OTHERWISE = (
    "deliveries named another hook than the one that was run",
    "correct the settings if a person wrote them",
)
HANDLED = ("it is handled as", "and is handled as")
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
    others: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        at, _, rest = line.partition(" ")
        hook, _, message = rest.partition(" ")
        seconds = seconds_of(at)
        if seconds is None or patient.at - seconds > DAYS * 86_400:
            continue
        shown = f"{hook}: {message[:200]}"
        meanings = [what for beginnings, what, _ in KINDS if message.startswith(beginnings)]
        if any([phrase in message for phrase in HANDLED]):
            meanings = [NAMED_OTHERWISE[0]]
        if meanings:
            others.setdefault(meanings[0], []).append((at, shown))
        else:
            kind = slow if any([phrase in message for phrase in SLOW]) else failed
            kind.setdefault(shown, []).append(at)
    for what, hint in (*[kind[1:] for kind in KINDS], NAMED_OTHERWISE):
        if what in others:
            at, shown = max(others[what])
            yield Finding("note", f"{what}, {_count(others[what])} at {at}: {shown}", hint)
    for kind, verb in ((slow, "took too long"), (failed, "failed")):
        newest = sorted(kind.items(), key=lambda item: item[1][-1], reverse=True)
        for message, times in newest[:SHOWN]:
            what = f"a hook {verb} {_count(times)} at {times[-1]}: {message}"
            yield Finding(
                "warning", what, f"follow the message; {HOOK_LOG} has all of them, and doctor ignores them after a week"
            )
        if len(newest) > SHOWN:
            yield Finding(
                "warning", f"… and {len(newest) - SHOWN} other messages of hooks that {verb}", f"read {HOOK_LOG}"
            )


def _count(times: Sized) -> str:
    return f"{len(times)} times, last" if len(times) > 1 else "once,"


def deliveries_come_once(patient: Patient) -> Iterator[Finding]:
    """Look for repeats among the newest deliveries of the active run, as hooks in a plugin and the settings make them.

    Only those of this clone count: others came with git. Once either installation is gone, the next sessions show it.
    """
    found = patient.newest_events(NEWEST)
    if patient.common is not None:
        writer = known_writer(patient.root)
        found = [one for one in found if one["writer"] == writer]
    newest = [(one["at"], dict(one["event"])) for one in found]
    latest = [(at, event) for at, event in newest if "delivery" in event][:LATEST]
    twice = [at for at, event in latest if event["type"] == "delivery_ignored" and event["reason"] == "repeated"]
    if twice:
        what = (
            f"of the newest {plural(len(latest), 'delivery', 'deliveries')} to {patient.active} {len(twice)} came twice"
        )
        hint = "the hooks are installed twice, perhaps by a plugin too: remove one of them"
        yield Finding("note", f"{what}, the last at {max(twice)}", hint)


def nothing_waits(patient: Patient) -> Iterator[Finding]:
    """Look for deliveries in the inbox whose hooks are gone."""
    for run in patient.runs:
        paths = list_waiting(run)
        if not paths:
            continue
        command = f"faber-ledger project {run.run_id}"
        what = f"{run.run_id}: {plural(len(paths), 'delivery', 'deliveries')} waiting in {os.path.dirname(paths[0])}"
        hint = f"the next hook records what waits, as `{command}` does; the hook log says what stopped it"
        fix = Fix(
            f"inbox {run.run_id}",
            f"{run.run_id}: record what waits in the inbox",
            (run.state_path, run.backup_path, run.ledger_path),  # no copy of a delivery, which is not masked, may stay
            partial(_record_waiting, run),
            partial(list, [command]),
        )
        yield Finding("warning", what, hint, fix)
    yield from _waits_elsewhere(patient)


def _waits_elsewhere(patient: Patient) -> Iterator[Finding]:
    """Look for deliveries to runs that this work tree has not."""
    folder = inbox_folder(patient.root)
    here = {quoted_form(run_id) for run_id in patient.all_ids}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name not in here and os.listdir(os.path.join(folder, name)):
            what = f"deliveries wait in {os.path.join(folder, name)}, for a run that is not in this worktree"
            yield Finding("note", what, "run `faber-ledger project RUN` where the run is: that records them")


def _record_waiting(run: Run, warn: Callable[[str], None]) -> None:
    drain_waiting(run, now(), warn=warn)
