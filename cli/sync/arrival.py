"""Runs that are at the remote: list them by their newest commits, and bring one of them here with its files."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from faber_ledger.cli.sync.ref_intake import absorb_commit
from faber_ledger.cli.sync.refs import Remote, decoded_name, read, ref_name
from faber_ledger.cli.sync.versions import DESCRIBED, FOLDER, RUN, Warn, fields_of, place_of
from faber_ledger.cli.ui.attention import REJECTED
from faber_ledger.cli.ui.server import names_server
from faber_ledger.context.branch import has_files
from faber_ledger.ledger.command_errors import AmbiguousRun, GitFailed, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.carry import sender_of
from faber_ledger.runs.git import project_key, work_tree_of
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.progress import FINISHED
from faber_ledger.runs.projecting import restore_copy
from faber_ledger.runs.run import Run, is_run_id, path_form, private_folder_of
from faber_ledger.runs.sent import Sent


class RemoteRun(NamedTuple):
    """A run as its ref's newest commit describes it; what the commit does not say is empty."""

    name: str
    commit: str
    run_id: str
    at: int
    work_id: str  # from here on as `DESCRIBED`
    branch: str
    status: str
    phase: str
    writer: str
    target: str
    pull_request: str
    agent: str
    machine: str
    open_session: str
    waits_for: str

    def state(self) -> dict[str, Any]:
        """Return what the commit says of the run's state, in the members of a state that say so."""
        approvals = {"approval": [{}], REJECTED: [{"status": "rejected"}]}.get(self.waits_for, [])
        request = {"prompt": self.waits_for.removeprefix("feedback")}
        return {"status": self.status, "pending_approvals": approvals, "feedback_request": request}


def remote_of(root: str, *, is_quiet: bool = False) -> Remote | None:
    """Return the remote that this clone exchanges its ledgers with; None if it does not."""
    consent, tree = sender_of(root), work_tree_of(root)
    if consent is None or tree is None:
        return None
    return Remote(tree.top, consent.remote, consent.url, is_quiet=is_quiet)


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

    Anybody can write a commit: one that names no run, or another than its ref does, is left out.
    """
    folder, found = project_key(root), []
    for name, commit, at, message in remote.list_newest():
        fields = fields_of(message)
        run_id = fields.get(RUN, decoded_name(name) or "")
        if is_run_id(run_id) and ref_name(run_id) == name and fields.get(FOLDER, "") == folder:
            found.append(RemoteRun(name, commit, run_id, at, *[fields.get(one, "") for one in DESCRIBED]))
    return sorted(found, key=lambda run: (-run.at, run.run_id))


def bring_run_from_refs(root: str, text: str, warn: Warn) -> str | None:
    """Fetch and absorb a run that a text names, and write the files that are missing here; return its id.

    None if this clone has not agreed to git refs, or the remote has no such run. If this clone has the run, a ref that
    cannot be absorbed is a warning, and so is a remote that does not answer, also if a server is named; else that
    raises ServerUnavailable. Raises AmbiguousRun, and as `bring_runs`.
    """
    remote = remote_of(root)
    if remote is None:
        return None
    try:
        found = find_remote_run(remote, root, text)
        runs = bring_runs(remote, root, [found] if found is not None else [], warn)
    except AmbiguousRun:
        raise
    except LedgerError as error:
        is_here = _is_here(root, text)
        what = f"{remote.name} could not be asked" if isinstance(error, GitFailed) else "nothing was fetched"
        if isinstance(error, GitFailed) and not is_here and not names_server():
            raise ServerUnavailable(f"{what}: {error.message}", hint=error.hint) from error
        if not isinstance(error, GitFailed) and not is_here:
            raise
        warn(f"{what}: {error.message}")
        return None
    return runs[0].run_id if runs else None


def bring_runs(remote: Remote, root: str, wanted: list[RemoteRun], warn: Warn) -> list[Run]:
    """Fetch runs, absorb their logs, and write the files that are missing here; return those that came.

    Of a state that is here only our two blocks change, unless `absorb_commit` takes the ref's. Raises GitFailed; and
    what a single run raises, while of several one that cannot be absorbed is a warning.
    """
    remote.fetch([one.name for one in wanted])
    brought = []
    with read(remote.top, [remote.fetched(one.name) for one in wanted]) as commits:
        for one, commit in zip(wanted, commits, strict=True):
            run = place_of(root, one.run_id, commit)
            try:
                if not run.is_recorded() and has_files(run, one.branch):  # they come with the branch
                    run = Run(root, one.run_id, private_folder_of(root, one.run_id))
                    run.is_kept = True
                else:
                    restore_copy(root, one.run_id, warn)  # so that what was not sent is merged
                absorb_commit(run, commit, remote.name, warn, brings=True)
            except (LedgerError, OSError, sqlite3.Error, RecursionError) as error:
                if len(wanted) == 1:
                    raise
                warn(f"{one.run_id}: {error.message if isinstance(error, LedgerError) else error}")
                continue
            if not Sent(run).events:
                warn(f"{one.run_id}: the ref has no valid event")
                continue
            brought.append(run)
    return brought


def find_remote_run(remote: Remote, root: str, text: str) -> RemoteRun | None:
    """Return the run at the remote whose id or path form is `text`, else the only one whose id begins with it.

    Else that of the work item `text`, unless a run here is named so; None if there is none. Raises GitFailed and
    AmbiguousRun.
    """
    runs = list_remote_runs(remote, root)
    exact = [one for one in runs if path_form(one.run_id) == path_form(text)]
    found = exact or [one for one in runs if one.run_id.startswith(text)]
    if len(found) > 1:
        raise AmbiguousRun(
            f"{text!r:.80} is the beginning of {len(found)} runs at {remote.name}",
            hint="give more of the id: `faber-ledger run list --remote` shows them",
        )
    found = found or ([] if _is_here(root, text) else list_of_work(runs, text))
    return found[0] if found else None


def _is_here(root: str, text: str) -> bool:
    return any([path_form(run.run_id).startswith(path_form(text)) for run in runs_here(root)])


def list_of_work(runs: list[RemoteRun], work_id: str) -> list[RemoteRun]:
    """Return the runs of a work item, those at work first; `runs` are the newest first."""
    return sorted([one for one in runs if one.work_id == work_id], key=lambda one: one.status in FINISHED)
