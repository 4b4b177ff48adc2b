"""Complete a run's record before it is committed: what the clone knows without a hook (DECISIONS 48, 56)."""

from __future__ import annotations

import os

from faber_ledger.ledger import clock
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.projections.fold import open_sessions
from faber_ledger.recording import sessions
from faber_ledger.recording.call import checkout_after, checkout_at_end, read_environment
from faber_ledger.recording.incoming import find_session
from faber_ledger.recording.leaving import follow_client
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.sessions import infer_start, was_seen_at_work
from faber_ledger.runs import progress
from faber_ledger.runs.clients import seen_client
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.log import lacks_ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faber_ledger.ledger.events import Draft
    from faber_ledger.recording.sessions import Caller
    from faber_ledger.runs.clients import SeenClient
    from faber_ledger.runs.run import Run


def complete_record(run: Run, *, at: float, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Begin the log of a run that has none, open the session of the client that calls, and end those of a finished run.

    All of it is inferred. Raises what `Recording` raises.
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
        if start or ends or is_new:
            recording.append(ends)
    if start:
        follow_client(run, client, caller["pid"], seen, at=at, warn=warn)


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
