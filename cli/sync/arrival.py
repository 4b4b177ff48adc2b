"""Runs that are at the remote: list them by their newest commits, and bring one of them here with its files."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.cli.sync.carried import Warn, absorb_commit
from faber_ledger.cli.sync.refs import METADATA, STATE, Remote, decoded_name, read, ref_name
from faber_ledger.files.text import one_line
from faber_ledger.ledger import disk
from faber_ledger.ledger.command_errors import AmbiguousRun, GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.recording.server_state import write_missing_state
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.git import project_key
from faber_ledger.runs.git_command import top_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.run import Run, is_run_id, path_form

LONGEST_FIELD = 200
NAMES = ("Work-Item", "Branch", "Status", "Phase", "Writer")


class RemoteRun(NamedTuple):
    """A run as its ref's newest commit describes it; what the commit does not say is empty."""

    name: str
    commit: str
    run_id: str
    work_id: str
    branch: str
    status: str
    phase: str
    writer: str
    at: int


def remote_of(root: str, *, is_quiet: bool = False) -> Remote | None:
    """Return the remote that this clone exchanges its ledgers with; None if it does not."""
    consent, top = sender_of(root), top_of(root)
    return Remote(top, consent.remote, is_quiet=is_quiet) if consent is not None and top is not None else None


def required_remote(root: str) -> Remote:
    """Return the remote that this clone exchanges its ledgers with; raises LedgerError if it does not."""
    remote = remote_of(root)
    if remote is None:
        raise LedgerError(
            "this clone exchanges no ledgers with a remote", hint="run `faber-ledger init --carry refs` to agree to it"
        )
    return remote


def list_remote_runs(remote: Remote, root: str) -> list[RemoteRun]:
    """Return the project's runs at the remote, the newest first; raises GitFailed.

    A commit is anybody's: one that names no run, or another than its ref does, is left out.
    """
    folder, found = project_key(root), []
    for name, commit, at, message in remote.list_newest():
        fields = dict([line.partition(": ")[::2] for line in message.splitlines() if ": " in line])
        run_id = fields.get("Run", decoded_name(name) or "")
        if is_run_id(run_id) and ref_name(run_id) == name and fields.get("Folder", "") == folder:
            work_id, branch, status, phase, writer = [one_line(fields.get(one, ""), LONGEST_FIELD) for one in NAMES]
            found.append(RemoteRun(name, commit, run_id, work_id, branch, status, phase, writer, at))
    return sorted(found, key=lambda run: (-run.at, run.run_id))


def bring_run_from_refs(root: str, text: str, warn: Warn) -> str | None:
    """Fetch and absorb a run that a text names, and write the files that are missing here; return its id.

    None where nobody agreed to git refs, or the remote has no such run, or does not answer: then this clone decides.
    Raises AmbiguousRun.
    """
    remote = remote_of(root)
    if remote is None:
        return None
    try:
        found = find_remote_run(remote, root, text)
        if len(found) > 1:
            raise AmbiguousRun(
                f"{text!r:.80} is the beginning of {len(found)} runs at {remote.name}",
                hint="give more of the id: `faber-ledger run list --remote` shows them",
            )
        runs = bring_runs(remote, root, found, warn)
    except GitFailed as error:
        warn(f"{remote.name} was not asked: {error.message}")
        return None
    return runs[0].run_id if runs else None


def bring_runs(remote: Remote, root: str, wanted: list[RemoteRun], warn: Warn) -> list[Run]:
    """Fetch runs, absorb their logs, and write the files that are missing here; return those that came.

    Of a state that is here only our two blocks change. Raises GitFailed and LedgerError.
    """
    remote.fetch([one.name for one in wanted])
    brought = []
    with read(remote.top, [one.commit for one in wanted]) as commits:
        for one, files in zip(wanted, commits, strict=True):
            run = find_run(root, one.run_id)
            absorb_commit(run, one.commit, files, remote.name, warn)
            if lacks_ledger(run):
                warn(f"{one.run_id}: the ref has no event that a ledger takes")
                continue
            _write_missing(run, files, warn)
            brought.append(run)
    return brought


def _write_missing(run: Run, files: dict[str, str], warn: Warn) -> None:
    try:
        if STATE in files and not os.path.lexists(run.state_path):
            with open(files[STATE], "rb") as file, read_log(run) as log:
                write_missing_state(run, file.read().decode("utf-8", "replace"), log)
        if METADATA in files and not os.path.lexists(run.metadata_path):
            with open(files[METADATA], "rb") as file:
                os.makedirs(os.path.dirname(run.metadata_path), exist_ok=True)
                disk.put(run.metadata_path, file.read())
    except (LedgerError, OSError) as error:
        warn(f"{run.run_id}: its files cannot be written: {error}")


def find_remote_run(remote: Remote, root: str, text: str) -> list[RemoteRun]:
    """Return the runs at the remote whose id or path form is `text`, else those whose id begins with it."""
    runs = list_remote_runs(remote, root)
    exact = [one for one in runs if path_form(one.run_id) == path_form(text)]
    return exact or [one for one in runs if one.run_id.startswith(text)]
