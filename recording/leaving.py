"""End the session that a client has open on the run that it leaves for another one."""

from __future__ import annotations

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import BUSY_SECONDS, sqlite3
from faber_ledger.ledger.lock import RunLock
from faber_ledger.recording import sessions
from faber_ledger.recording.checkout import checkout_after
from faber_ledger.recording.recording import Recording
from faber_ledger.recording.subject import open_sessions_of
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.copies import has_events, mirror_with_events
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.progress import snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.ledger.events import Draft
    from faber_ledger.recording.checkout import Checkout
    from faber_ledger.recording.sessions import Caller
    from faber_ledger.runs.clients import SeenClient


def leave_run(
    root: str,
    seen: SeenClient,
    pid: str | None,
    checkout: Checkout | None,
    *,
    at: float,
    warn: Callable[[str], None],
    seconds: float = BUSY_SECONDS,
) -> None:
    """End what a client has open on the run of its newest session until now, as inferred; what fails is a warning.

    `checkout` is what the work tree of `root` has checked out.
    """
    if seen.run_id is None:
        return
    there = seen.root or root
    try:
        run = run_here(there, seen.run_id)
        if not (has_events(run.ledger_path) or mirror_with_events(run)):  # git may have removed the ledger alone
            return
        writer, lock = writer_of(there), RunLock(run.lock_path, seconds, gives_up=True)
        with Recording(
            run, at=at, writer=writer, warn=warn, tolerant=True, lock=lock, may_stay_in_mirror=True
        ) as recording:
            caller: Caller = {
                "client": seen.client,
                "pid": pid,
                "writer": writer,
                "at": at,
                "environment": None,
                "progress": snapshot(recording.state),
            }
            facts: list[Draft] = []
            for name in open_sessions_of(recording.view, seen.client, writer):
                end = sessions.end_session(recording.view, caller, name, "abandoned")
                facts += [end, *checkout_after(end, checkout if there == root else None)]
            if facts:
                recording.append(facts)
    except (LedgerError, OSError, sqlite3.Error) as error:
        warn(f"the session on {seen.run_id} was not ended: {error}")
