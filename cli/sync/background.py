"""The process that hooks start: it exchanges all runs with the server and their git refs, in a minute, and asks nobody.

What fails is in notes, for the next start and for `status`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from faber_ledger.cli.sync.arrival import remote_of
from faber_ledger.cli.sync.carried import TimeIsUp, exchange_refs, lock_sending
from faber_ledger.cli.ui.server import server_address
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.address import Address
from faber_ledger.runs.carry import CUT, SECONDS_TO_SEND, Consent, SyncedNote
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.set_aside import report

GRACE_SECONDS = 5
PATIENCE = 20.0  # seconds in which a server says nothing, so that the refs have their turn


def exchange_in_background(root: str, sync: Callable[[Address], int]) -> None:
    """Exchange all runs, once no other process of the clone does; `sync` does it with the server.

    Raises ServerUnavailable where the time is up in the middle of it, and as `exchange_refs`.
    """
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(SECONDS_TO_SEND)  # one limit for both carriers, and for the wait for the lock
    with suppress(TimeIsUp):  # another process held the lock all the time
        _exchange(root, sync)
    signal.alarm(0)


def _exchange(root: str, sync: Callable[[Address], int]) -> None:
    if joined := Consent(root).server:
        with lock_sending(root):
            _sync(root, joined, sync)
    remote = remote_of(root, is_quiet=True)
    if remote is not None:
        done = exchange_refs(remote, root, runs_here(root), _say_nothing)
        for one in done:
            if one.was_lost:
                what = f"{one.run.run_id}: {remote.name} had lost its ref, which this clone has sent again"
                report(one.run, _say_nothing, what)


def _sync(root: str, joined: str, sync: Callable[[Address], int]) -> None:
    """Exchange with the server if it is the one that this clone has joined; note why that failed, if it did."""
    note = SyncedNote(root)
    note.problem = CUT  # until this process says otherwise
    note.save()
    try:
        address = server_address(None)
        if address.digest() != joined:
            raise ServerRefused("the server is not the one that this clone has joined: run `faber-ledger team join`")
        code = sync(address)
        note.problem, note.at = "some runs were left out" if code else "", now()
    except (LedgerError, sqlite3.DatabaseError, OSError) as error:
        note.problem = str(error)
    except TimeIsUp as error:
        note.problem = str(error)
        raise ServerUnavailable(note.problem) from None
    finally:
        note.save()


def _say_nothing(message: str) -> None:
    """Ignore a warning, since nobody reads it: what matters is noted for the next start."""


def _end(*_: object) -> None:
    """End the git that waits for the remote, so that this process notes why and ends; if it does not, kill both."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
    signal.alarm(GRACE_SECONDS)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    raise TimeIsUp(f"no end within {SECONDS_TO_SEND} s")
