"""Start a run, make one active, or complete its record: its folder, and the session of the client that is at work."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypedDict

from faber_ledger.ledger import clock, disk
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.errors import LedgerError, NotWritable
from faber_ledger.projections.fold import empty, open_sessions, session_history
from faber_ledger.recording import sessions
from faber_ledger.recording.call import checkout_after, checkout_at_end, checkout_at_start, read_environment
from faber_ledger.recording.incoming import find_session
from faber_ledger.recording.leaving import add_cost, count_killed, follow_client
from faber_ledger.recording.recording import Recording, record_before_projecting
from faber_ledger.recording.sessions import infer_start, was_seen_at_work
from faber_ledger.runs import progress, state_write
from faber_ledger.runs.active import active_run, check_active_folder, write_active_file
from faber_ledger.runs.clone import make_below, not_writable, note_use, writer_of
from faber_ledger.runs.git import branch_of
from faber_ledger.runs.layouts import new_run
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.progress import PHASES
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.publish import is_finished_in_head
from faber_ledger.runs.run import EVENTS, RUNS, Run, path_in_clone
from faber_ledger.runs.seen import SeenClient, client_here, seen_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Draft, Recorded
    from faber_ledger.recording.sessions import Caller


class RunPlan(TypedDict):
    """What a new run is about; an id is None if there is none."""

    workflow_id: str
    work_id: str | None
    plan_id: str | None
    target: str


WORKFLOW_VERSION = "2.0"


def start_run(
    root: str,
    run_id: str,
    plan: RunPlan,
    *,
    at: float,
    environ: Mapping[str, str],
    warn: Warn,
    runs: str,
    worktree: dict[str, Any] | None = None,
) -> Run:
    """Make a run's folder with state, metadata and ledger, and make it the active one; raises LedgerError.

    `runs` is the folder of runs that it goes into, one of `RUNS`. `worktree` is what the state says about the linked
    work tree that it runs in.
    """
    run = new_run(root, run_id, runs)
    if os.path.lexists(run.directory):
        raise LedgerError(f"the run {run_id} exists already", hint=f"run `faber-ledger run resume {run_id}`")
    check_active_folder(root)
    os.makedirs(run.directory)
    note_use(root, run_id, is_taken_up=True, branch=branch_of(root))
    try:
        _make_events_folder(run)
        _fill_folder(run, plan, at, warn, worktree)
        left = _name_run(run)
    except BaseException:
        # They did not exist before, and half a run, or one that was not reported, is useless.
        for folder in (run.directory, run.private_folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    _open_session(run, left, at=at, environ=environ, source="run_start", warn=warn)
    return run


def lock_takeover(root: str) -> RunLock | None:
    """Return the lock under which a work tree's active run is looked at and replaced; None without git."""
    path = path_in_clone(root, "takeover.lock")
    if path is None:
        return None
    try:
        make_below(root, os.path.dirname(path))
    except OSError as error:
        raise not_writable(root, path, error) from error
    return RunLock(path)


def _fill_folder(run: Run, plan: RunPlan, at: float, warn: Warn, worktree: dict[str, Any] | None) -> None:
    try:
        text = json.dumps(_metadata(run.run_id, plan, at), indent=2, ensure_ascii=False) + "\n"
        disk.put(run.metadata_path, text.encode())
    except OSError as error:  # the error of a full disk names no file
        hint = "free the disk or the folder's permissions, then start the run again"
        raise NotWritable(f"cannot write {run.shown(run.metadata_path)}: {error.strerror}", hint=hint) from error
    state = {**_first_state(run.run_id, plan, at), **({"worktree": worktree} if worktree else {})}
    state_write.write_new(run, json.dumps(state, indent=2, ensure_ascii=False) + "\n")
    first: Draft = {
        "event": {
            "type": "run_started",
            "run_id": run.run_id,
            "workflow_id": plan["workflow_id"],
            "work_id": plan["work_id"],
        }
    }
    with Recording(run, at=at, writer=writer_of(run.root), warn=warn, first=first) as recording:
        recording.append(checkout_after(first, checkout_at_start(run)))


def activate_run(run: Run, *, at: float, environ: Mapping[str, str], warn: Warn) -> bool:
    """Make a run active. A client that is at work leaves its former run and gets a session on this one at once.

    Return whether it was given one: nothing is in the context of that session yet.
    """
    left = _name_run(run)
    try:
        _make_events_folder(run)  # git carries no empty folder
    except OSError as error:
        warn(f"the run's folder `events`, which FABER's tools need, cannot be made: {error.strerror}")
    is_new = _open_session(run, left, at=at, environ=environ, source="run_resume", warn=warn)
    if not lacks_ledger(run):
        count_killed(run, at, warn)
    if is_new or lacks_ledger(run):  # a session's start projects, too
        return is_new
    try:
        record_before_projecting(run, at, warn=warn)
        reproject(run, rebuild=False, warn=warn)
    except LedgerError as error:
        warn(error.message)
    return False


def _make_events_folder(run: Run) -> None:
    """Make the folder that FABER's own tools write to and do not make, for a run in theirs; raises OSError."""
    if not run.suffix and run.shown(run.directory).startswith(f"{RUNS[1]}/"):
        with suppress(FileExistsError):
            os.mkdir(os.path.join(run.directory, EVENTS))


def _name_run(run: Run) -> str | None:
    """Name a run in the active files, and return the run that was active here before; raises LedgerError."""
    check_active_folder(run.root)
    left = active_run(run.root, by_author=False).run_id
    write_active_file(run.root, run.run_id)
    note_use(run.root, run.run_id, is_taken_up=True, branch=None if run.is_kept else branch_of(run.root))
    return left


def _open_session(
    run: Run, left: str | None, *, at: float, environ: Mapping[str, str], source: str, warn: Warn
) -> bool:
    """Open a session of the client that is at work, and end the one on the run that it has `left`; return whether."""
    if sessions.client_of(environ) is None:
        return False
    writer = writer_of(run.root)
    with Recording(run, at=at, writer=writer, warn=warn) as recording:
        caller = sessions.caller_of(environ, recording.state, at, writer, read_environment(run.root))
        is_open = sessions.is_own_session(recording.view, caller)
        is_new = not (is_open or sessions.uncompacted_session(recording.view, caller))
        if is_new:
            session_id = clock.session_id(at, os.urandom(6))
            opening = sessions.open_session(recording.view, caller, session_id, source)
            recording.append([*opening, *checkout_after(opening[-1], checkout_at_start(run))])
    client = sessions.client_of(environ) or ""
    seen = seen_client(run.root, client) or SeenClient(client, None, at, at, left, run.root)
    follow_client(run, client, caller["pid"], seen, at=at, warn=warn, is_new=is_new)
    return is_new


def _first_state(run_id: str, plan: RunPlan, at: float) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "workflow_id": plan["workflow_id"],
        "workflow_version": WORKFLOW_VERSION,
        "work_id": plan["work_id"],
        **({"plan_id": plan["plan_id"]} if plan["plan_id"] else {}),
        "target": plan["target"],
        "status": "in_progress",
        "current_phase": "frame",
        "started_at": utc_text(at),
        "updated_at": utc_text(at),
        "phases": {phase: {"status": "pending"} for phase in PHASES},
        "artifacts": {},
        **empty(),
    }


def _metadata(run_id: str, plan: RunPlan, at: float) -> dict[str, Any]:
    return {"run_id": run_id, **plan, "created_at": utc_text(at)}


# Before a commit: what the clone knows without a hook (DECISIONS 48, 56)


def complete_record(run: Run, *, at: float, environ: Mapping[str, str], warn: Warn) -> list[str]:
    """Begin the log of a run that has none, open the session of the client that calls, and end those of a finished run.

    All of it is inferred. Until a commit has the run as finished, what its clients cost is counted, too. Return the
    sessions that were ended. Raises what `Recording` raises.
    """
    client, is_new = sessions.client_of(environ), lacks_ledger(run)
    environment = read_environment(run.root) if client is not None else None
    seen = seen_client(run.root, client)
    with Recording(run, at=at, writer=writer_of(run.root), warn=warn) as recording:
        caller = sessions.caller_of(environ, recording.state, at, recording.writer, environment)
        start = _missing_start(recording, caller, seen)
        if start:
            recording.add(start, at=at, writer=recording.writer)
        ends = _missing_ends(recording, caller)
        is_ending = recording.state.get("status") in progress.FINISHED and not is_finished_in_head(run)
        has_cost = is_ending and any([add_cost(recording, one) for one in _clients_here(recording, seen)])
        if start or ends or is_new or has_cost:
            recording.append(ends)
    if start:
        follow_client(run, client, caller["pid"], seen, at=at, warn=warn, is_new=True)
    return [str(dict(end["event"])["session_id"]) for end in ends if end["event"]["type"] == "session_ended"]


def _clients_here(recording: Recording, calling: SeenClient | None) -> Iterable[SeenClient]:
    """Return the calling client, and those of this clone's sessions on the run whose client has not ended itself."""
    log, root = recording.view.log, recording.run.root
    starts = [log.start_of(str(entry.get("session_id"))) for entry in session_history(recording.view.blocks)]
    open_starts = [start for start in starts if start is not None and not _has_left(log.ends_of(start))]
    found = [calling, *[client_here(root, start) for start in open_starts]]
    return {one.client: one for one in found if one is not None}.values()


def _has_left(ends: Iterable[Recorded]) -> bool:
    """Return whether one of a session's ends is its client's own, which counts what it cost."""
    deliveries = [dict(end["event"]).get("delivery") for end in ends]
    return any([isinstance(one, dict) and one.get("hook") == "SessionEnd" for one in deliveries])


def _missing_start(recording: Recording, caller: Caller, seen: SeenClient | None) -> list[Draft]:
    """Return the start of the calling client's session, if the client has none on the run."""
    view, state = recording.view, recording.state
    if caller["client"] is None or find_session(view, caller, seen) is not None:
        return []
    if state.get("status") in progress.FINISHED and not was_seen_at_work(seen, progress.finished_at(state)):
        return []
    started = infer_start(view, caller, seen, progress.text_of(state, "started_at"))
    session_id = clock.session_id(started, os.urandom(6))
    return sessions.open_session(view, caller, session_id, "inferred", inferred_at=started)


def _missing_ends(recording: Recording, caller: Caller) -> list[Draft]:
    """Return the ends of the sessions that are open in this clone on a finished run, when the run was completed."""
    view, state = recording.view, recording.state
    if state.get("status") not in progress.FINISHED:
        return []
    finished = seconds_of(progress.finished_at(state)) or caller["at"]
    checkout = checkout_at_end(recording.run)
    ends: list[Draft] = []
    for name in open_sessions(view.blocks):
        if sessions.is_open_here(view.log, view.blocks, name, recording.run.root):
            end = sessions.end_session(view, caller, name, "normal", is_inferred=True)
            end["at"] = min(finished, caller["at"])
            ends += [end, *checkout_after(end, checkout)]
    return ends
