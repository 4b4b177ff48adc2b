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
from faber_ledger.runs.progress import snapshot
from faber_ledger.runs.seen import client_here, is_alive, note_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.ledger.events import Draft, Recorded
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
            caller: Caller = {
                "client": seen.client,
                "pid": pid,
                "writer": writer,
                "at": at,
                "environment": None,
                "progress": snapshot(recording.state),
                "by": {},
            }
            facts: list[Draft] = []
            for name in open_sessions(recording.view.blocks):
                start = recording.view.log.start_of(name)
                if start is None or (start["client"], start["writer"]) != (seen.client, writer):
                    continue  # another client's, or another clone's
                end = sessions.end_session(recording.view, caller, name, "abandoned")
                facts += [end, *checkout_after(end, checkout)]
                last = start
            if facts:
                recording.append([*facts, *_facts_of_cost(recording, seen, last, at)])
    except (LedgerError, OSError, sqlite3.Error) as error:
        warn(f"the session on {run_id} was not ended: {error}")
        return not isinstance(error, Locked)
    return True


def add_cost_of_killed(recording: Recording, ends: list[Draft], at: float) -> None:
    """Add what the session cost that a start ends, if it was this clone's and its client's process is gone.

    Another one is counted by its own end. Every start ends all that is open: there is one at most.
    """
    for end in ends:
        start = recording.view.log.start_of(str(dict(end["event"]).get("session_id")))
        seen = client_here(recording.run.root, start)
        if start is not None and seen is not None and is_alive(seen.pid) is False:
            recording.add(_facts_of_cost(recording, seen, start, at), at=at, writer=recording.writer)
            return


def count_killed(run: Run, at: float, warn: Warn) -> None:
    """Record what killed clients of this clone cost, whoever has ended their sessions; what fails is a warning."""
    try:
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn) as recording:
            facts: dict[str, list[Draft]] = {}
            for entry in session_history(recording.view.blocks):
                if entry.get("end_reason") == "abandoned":
                    start = recording.view.log.start_of(str(entry.get("session_id")))
                    seen = client_here(run.root, start)
                    if start is not None and seen is not None and is_alive(seen.pid) is False:
                        facts[seen.client] = _facts_of_cost(recording, seen, start, at)
            if any(facts.values()):
                recording.append([fact for found in facts.values() for fact in found])
    except (LedgerError, OSError, sqlite3.Error) as error:
        warn(f"tokens were not counted: {error}")


def _facts_of_cost(recording: Recording, seen: SeenClient, start: Recorded, at: float) -> list[Draft]:
    """Return what a client's responses cost that no event has yet, by its transcript."""
    from faber_ledger.recording.usage import facts_of_usage, read_usage
    from faber_ledger.runs.settings import Settings, counts_usage

    if seen.transcript is None or not counts_usage(Settings(recording.run, os.environ)):
        return []
    log = recording.view.log
    found = read_usage(seen.client, str(start["event"].get("agent")), seen.transcript, log, recording.state, at)
    return facts_of_usage(found, log, seen.client)
