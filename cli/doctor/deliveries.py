"""What the hooks have left: lines in their log, and deliveries that wait to be recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber_ledger.cli.doctor.finding import Finding, Fix, Level
from faber_ledger.cli.doctor.patient import Patient
from faber_ledger.cli.ui.words import plural
from faber_ledger.files.untrusted import FileRefused, read_text
from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.recording.inbox import list_waiting
from faber_ledger.recording.incoming import NO_SESSION
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.clone import inbox_folder
from faber_ledger.runs.git import is_tracked
from faber_ledger.runs.run import HOOK_LOG, Run, quoted_form

DAYS = 7
LARGEST = 1024 * 1024


class Kind(NamedTuple):
    """A kind of line in the hook log: the level, what its lines mean, what to do, and a phrase of each line."""

    level: Level
    what: str
    hint: str
    phrases: tuple[str, ...]


FOLLOW = f"follow the message; {HOOK_LOG} has all of them, and doctor ignores them after a week"
RENAMED = "deliveries named another hook than the one that was run"
WRITTEN = "another tool changed what the ledger keeps in state.json"
STOP = "nothing, if the tool adds sessions of its own; else stop it from writing there"
LACKING = "sessions began without all of their context"
IN_INBOX = "nothing: the next hook records it, and doctor says if it still waits"
SEE = "follow the message; the check workflow.artifacts says what a session that starts now would lack"
KINDS = (
    Kind("note", RENAMED, "correct the settings if a person wrote them", ("it is handled as", "and is handled as")),
    Kind("note", WRITTEN, STOP, ("state.json differed from the ledger",)),
    Kind("note", LACKING, SEE, ("❌ ERROR: Required artifact", "⚠️ WARNING:", "Cannot evaluate condition:")),
    Kind(
        "note",
        "hooks recorded nothing",
        "run `faber-ledger run list` if a run was at work then",
        ("No active workflow found", NO_SESSION),
    ),
    Kind("note", "a delivery was not recorded at once", IN_INBOX, ("; it waits in ",)),
    Kind("warning", "a hook took too long", FOLLOW, (" second",)),
    Kind("warning", "a hook warned", FOLLOW, ("",)),
)


def check_hook_log(patient: Patient) -> Iterator[Finding]:
    """Report every kind of line of the last week in the hook log, unless it may have come with a commit."""
    path = os.path.join(patient.root, *HOOK_LOG.split("/"))
    if os.path.lexists(path) and is_tracked(path) is True:
        what = f"{HOOK_LOG} is not read: git tracks it, or cannot say, and anyone may have written its lines"
        yield Finding("note", what, "take it out of git, or run `faber-ledger doctor` again where git answers")
        return
    try:
        text = read_text(path, LARGEST) or ""
    except FileRefused as error:
        what = f"{HOOK_LOG} cannot be read: {error}"
        yield Finding("warning", what, "move it aside; the next hook creates a new one")
        return
    found: dict[tuple[Kind, str], list[tuple[str, str]]] = {}
    for line in text.splitlines():
        at, _, message = line.partition(" ")
        seconds = seconds_of(at)
        if seconds is not None and patient.at - seconds <= DAYS * 86_400:
            kind = _kind_of(message.partition(" ")[2])
            shown = message.replace(" ", ": ", 1)[:230]
            found.setdefault((kind, shown if kind.level == "warning" else ""), []).append((at, shown))
    for (kind, _), lines in sorted(found.items(), key=lambda item: item[1][-1], reverse=True):
        at, shown = lines[-1]
        count = f"{len(lines)} times, last" if len(lines) > 1 else "once,"
        yield Finding(kind.level, f"{kind.what}, {count} at {at}: {shown}", kind.hint)


def _kind_of(message: str) -> Kind:
    return next(kind for kind in KINDS if any([phrase in message for phrase in kind.phrases]))


def check_waiting(patient: Patient) -> Iterator[Finding]:
    """Look for deliveries in the inbox whose hooks are gone."""
    for run in patient.runs:
        paths = list_waiting(run)
        if paths:
            waiting = plural(len(paths), "delivery", "deliveries")
            what = f"{run.run_id}: {waiting} waiting in {os.path.dirname(paths[0])}"
            hint = f"the next hook records what waits, as `{_command(run)}` does; the hook log says what stopped it"
            yield Finding("warning", what, hint, _waiting_fix(run))
    folder = inbox_folder(patient.root)
    here = {quoted_form(run_id) for run_id in patient.all_ids}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name not in here and os.listdir(os.path.join(folder, name)):
            what = f"deliveries wait in {os.path.join(folder, name)}, for a run that is not in this worktree"
            yield Finding("note", what, "run `faber-ledger project RUN` where the run is: that records them")


def _command(run: Run) -> str:
    return f"faber-ledger project {run.run_id}"


def _waiting_fix(run: Run) -> Fix:
    return Fix(
        f"inbox {run.run_id}",
        f"{run.run_id}: record what waits in the inbox",
        (run.state_path, run.backup_path, run.ledger_path),  # no copy of a delivery, which is not masked, may stay
        lambda warn: drain_waiting(run, now(), warn=warn),
        lambda: [_command(run)],
    )
