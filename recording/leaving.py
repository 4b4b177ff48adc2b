"""Follow a client to another run: note it, and end the session that it has open on the run that it leaves."""

from __future__ import annotations

import os

from faber_ledger.ledger.errors import LedgerError, Locked
from faber_ledger.ledger.file import BUSY_SECONDS, sqlite3
from faber_ledger.projections.fold import open_sessions, session_history
from faber_ledger.recording import sessions
from faber_ledger.recording.recording import Recording
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.seen import client_here, is_alive, note_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Draft
    from faber_ledger.recording.sessions import Caller
    from faber_ledger.runs.run import Run
    from faber_ledger.runs.seen import SeenClient


def follow_client(
    run: Run, client: str | None, pid: str | None, seen: SeenClient | None, *, at: float, warn: Warn, is_new: bool
) -> None:
    """Note that a client's newest session is on a run, after ending what it has left open on another run.

    `seen` is what this clone knew of the client before; `is_new` says whether the session begins now. If the other run
    is locked for too long, that is a warning, and the client's next delivery tries both again.
    """
    if client is None:
        return
    has_left = seen is not None and seen.run_id not in (None, run.run_id)
    if seen is not None and has_left and not leave_run(run.root, seen, pid, at, warn, BUSY_SECONDS):
        return
    if is_new or seen is None or seen.run_id != run.run_id:
        note_session(run.root, client, pid, run.run_id, at)


def leave_run(root: str, seen: SeenClient, pid: str | None, at: float, warn: Warn, seconds: float) -> bool:
    """End what a client has open on the run of its newest session until now, as inferred, and count what it cost.

    What fails is a warning. Return False if the run was locked, so that it is tried again.
    """
    from faber_ledger.recording.call import checkout_after, checkout_at_end  # only where a client moves

    there, run_id = seen.root or root, seen.run_id or ""
    try:
        run = run_here(there, run_id)
        if lacks_ledger(run):
            return True
        checkout = checkout_at_end(run)
        writer = writer_of(there)
        with Recording(run, at=at, writer=writer, warn=warn, tolerant=True, seconds=seconds) as recording:
            somebody = sessions.caller_of({}, recording.state, at, writer, None)
            caller: Caller = {**somebody, "client": seen.client, "pid": pid}
            facts: list[Draft] = []
            for name in open_sessions(recording.view.blocks):
                start = recording.view.log.start_of(name)
                if start is None or (start["client"], start["writer"]) != (seen.client, writer):
                    continue  # another client's, or another clone's
                end = sessions.end_session(recording.view, caller, name, "normal", is_inferred=True)
                facts += [end, *checkout_after(end, checkout)]
            if facts:
                add_cost(recording, seen)
                recording.append(facts)
    except (LedgerError, OSError, sqlite3.Error) as error:
        warn(f"the session on {run_id} was not ended: {error}")
        return not isinstance(error, Locked)
    return True


def add_cost_of_killed(recording: Recording, session_ids: Iterable[object]) -> bool:
    """Add what sessions of this clone cost whose clients' processes are gone; return whether any did.

    A living client's own end counts it.
    """
    root, log = recording.run.root, recording.view.log
    clients = [client_here(root, log.start_of(str(name))) for name in session_ids]
    return any([add_cost(recording, one) for one in clients if one is not None and is_alive(one.pid) is False])


def count_killed(run: Run, at: float, warn: Warn) -> None:
    """Record what killed clients of this clone cost, whoever has ended their sessions; what fails is a warning."""
    try:
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn) as recording:
            history = session_history(recording.view.blocks)
            killed = [entry.get("session_id") for entry in history if entry.get("end_reason") == "abandoned"]
            if add_cost_of_killed(recording, killed):
                recording.commit()
    except (LedgerError, OSError, sqlite3.Error) as error:
        warn(f"tokens were not counted: {error}")


def add_cost(recording: Recording, client: SeenClient | None) -> bool:
    """Add what a client's responses on the run cost that no event has yet, by its transcript; return whether any did.

    On another run, to which a client has moved, its responses cost that run.
    """
    from faber_ledger.recording.usage import facts_of_usage, read_usage
    from faber_ledger.runs.settings import Settings, counts_usage

    run, log, state = recording.run, recording.view.log, recording.state
    if client is None or client.transcript is None or client.run_id not in (None, run.run_id):
        return False
    starts = log.starts_of(client.client)
    if not starts or not counts_usage(Settings(run, os.environ)):
        return False
    agent = str(starts[0]["event"].get("agent"))
    found = read_usage(client.client, agent, client.transcript, log, state, recording.at)
    recording.add(facts_of_usage(found, log, client.client), at=recording.at, writer=recording.writer)
    return bool(found)
