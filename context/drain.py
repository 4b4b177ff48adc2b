"""What waits in a run's spool is recorded, in order and once, by whoever appends next."""

from __future__ import annotations

from faber_ledger.context import spool
from faber_ledger.context.arrival import Arrival
from faber_ledger.context.delivery import Call
from faber_ledger.context.environment import writer_of
from faber_ledger.context.recording import Recording
from faber_ledger.ledger.errors import StateNotWritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.context.project import Run
    from faber_ledger.context.spool import Spooled

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
    paths = spool.waiting(recording.run)
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
    """Add what a delivery means to the open transaction; tell whether its file is done with once that is durable."""
    try:
        spooled = spool.read(path)
        if spooled["run_id"] != recording.run.run_id:
            raise spool.Malformed(f"it is about the run {spooled['run_id']!r:.80}")
        _take_in(recording, spooled)
    except FileNotFoundError:
        return False
    except (spool.Malformed, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Nothing that stands in one file may hold up the others.
        aside = spool.put_aside(path)
        recording.warn(f"a waiting delivery could not be read, and was moved to {aside}: {error}")
        return False
    return True


def _take_in(recording: Recording, spooled: Spooled) -> None:
    call = Call(spooled["hook"], spooled["delivery"].encode("utf-8", "surrogateescape"), spooled["environ"])
    call.hook, call.digest = spooled["hook"], spooled["digest"]
    arrival = Arrival.spooled(spooled, call, recording.run, recording.warn)
    connection = recording.view.log.connection
    connection.execute("SAVEPOINT delivery")
    try:
        arrival.record_in(recording)
    except BaseException:
        connection.execute("ROLLBACK TO delivery")
        raise
    finally:
        connection.execute("RELEASE delivery")
