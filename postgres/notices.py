"""Wait for news of projects, which the server tells to whoever listens; after a while without any, wait no longer."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from faber_ledger.postgres.schema import CHANNEL, notification_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import psycopg

    from faber_ledger.postgres.server import Server

SETTLE_SECONDS = 0.5  # a push is many transactions, each with a notification


class Listener:
    """A connection that listens; it is the server's second one, and lost as that one is."""

    def __init__(self, server: Server, connection: psycopg.Connection[Any]) -> None:
        self._server = server
        self._connection = connection

    def wait(self, projects: Collection[str], seconds: float) -> None:
        """Wait until there is news of one of the projects, and a moment for more of it; at most so many seconds.

        Raises ServerUnavailable if the connection is lost.
        """
        wanted, latest = {notification_of(project) for project in projects}, time.monotonic() + seconds
        with self._server.translated_errors():
            while (left := latest - time.monotonic()) > 0:
                news = list(self._connection.notifies(timeout=left, stop_after=1))
                if any([one.payload in wanted for one in news]):
                    list(self._connection.notifies(timeout=min(SETTLE_SECONDS, left)))
                    return


@contextmanager
def listening(server: Server) -> Iterator[Listener]:
    """Listen to a server; raises ServerUnavailable and ServerRefused."""
    with server.translated_errors():
        raw = server.engine.raw_connection()
    try:
        connection: Any = raw.driver_connection
        with server.translated_errors():
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}")
        yield Listener(server, connection)
    finally:
        raw.invalidate()  # to close it would roll back first, on a connection that may be lost
