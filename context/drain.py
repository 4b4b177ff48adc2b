"""What waits in a run's spool is recorded, in order and once, by whoever appends next."""

from __future__ import annotations

from faber_ledger.context import spool
from faber_ledger.context.arrival import Arrival
from faber_ledger.context.delivery import Call
from faber_ledger.context.recording import Recording
from faber_ledger.ledger.errors import LedgerError, StateNotWritten
from faber_ledger.ledger.sqlite import sqlite3
from faber_ledger.projections.fold import fold
from faber_ledger.runs.clone import writer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.spool import Spooled
    from faber_ledger.runs.run import Run

AT_ONCE = 100  # deliveries a transaction, so that a hook which is killed meanwhile has not worked for nothing


def take_in(run: Run, at: float, *, warn: Callable[[str], None]) -> None:
    """Record a run's waiting deliveries where nothing else is to be; raises as `Recording`."""
    if spool.waiting(run):
        with Recording(run, at=at, writer=writer_of(run.root), warn=warn, tolerant=True):
            pass  # whoever opens a recording takes them in


def drain(recording: Recording) -> None:
    """Record the waiting deliveries of an open recording's run; raises as `Recording.append`, but for state.json.

    Their facts are durable before their files go. A file that is no delivery is kept aside and told.
    """
    paths = spool.waiting(recording.run)[: spool.MOST_FILES]  # no hook puts more there, and a repository may
    for first in range(0, len(paths), AT_ONCE):
        taken = [path for path in paths[first : first + AT_ONCE] if _is_taken_in(recording, path)]
        try:
            recording.commit()
        except StateNotWritten as error:
            recording.warn(f"{error} - what happened is in the ledger: {error.hint}")
        for path in taken:
            spool.remove(path)
        recording.begin()
    spool.tidy(recording.run)


def _is_taken_in(recording: Recording, path: str) -> bool:
    """Add what a delivery means to the open transaction; tell whether its file is done with once that is durable.

    Nothing that stands in one file, and no file that cannot be read, may hold up the others.
    """
    try:
        spooled = spool.read(path)
        if spooled["run_id"] != recording.run.run_id:
            raise spool.Malformed(f"it is about the run {spooled['run_id']!r:.80}")
    except FileNotFoundError:
        return False
    except OSError as error:
        recording.warn(f"a waiting delivery cannot be read, and goes on waiting: {path}: {error.strerror}")
        return False
    except spool.Malformed as error:
        return _is_put_aside(recording, path, error)
    try:
        _take_in(recording, spooled)
    except (LedgerError, OSError, sqlite3.Error):  # the log's, which the next one would meet too
        raise
    except Exception as error:  # noqa: BLE001 -- a defect of ours that this one brings out each time it is tried
        recording.view.blocks = fold(recording.view.log.stream())  # it may have stopped while they were changed
        return _is_put_aside(recording, path, error)
    return True


def _is_put_aside(recording: Recording, path: str, error: Exception) -> bool:
    """Move a file that is no delivery out of the way and tell it; it stays there, so that False is given."""
    try:
        recording.warn(
            f"a waiting delivery could not be taken in, and was moved to {spool.put_aside(path)}: {error!r:.300}"
        )
    except OSError as refusal:
        recording.warn(f"{path} is no delivery ({error!s:.300}), and cannot be moved aside: {refusal.strerror}")
    return False


def _take_in(recording: Recording, spooled: Spooled) -> None:
    call = Call(spooled["hook"], spooled["delivery"].encode("utf-8", "surrogateescape"), spooled["environ"])
    call.hook, call.digest = spooled["hook"], spooled["digest"]
    arrival = Arrival.spooled(spooled, call, recording.run, recording.warn)
    log = recording.view.log
    with log.writing():
        log.connection.execute("SAVEPOINT delivery")
        try:
            arrival.record_in(recording)
        except BaseException:
            if log.connection.in_transaction:  # what a full disk refuses, SQLite takes back as a whole
                log.connection.execute("ROLLBACK TO delivery")
            raise
        log.connection.execute("RELEASE delivery")
