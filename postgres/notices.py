"""Tell of a project's news, and wait for it, as the server tells whoever listens; after a while without any, go on."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.postgres.schema import CHANNEL, notification_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from faber_ledger.postgres.ask import Connection
    from faber_ledger.postgres.server import Server

SETTLE_SECONDS = 0.5  # a sync tells of each run that it pushed
TELL = "SELECT faber_ledger.tell_readers(%(project)s)"


def tell_readers(server: Server, project: str) -> None:
    """Tell who listens that a project has news; nothing if the server cannot: whoever watches also looks by the clock.

    In a transaction of its own: the server's queue of notifications can be full, and what was pushed is there.
    """
    with suppress(ServerRefused, ServerUnavailable), server.transaction() as connection:
        connection.execute(TELL, {"project": project})


class Listener:
    """A connection that listens; it is the server's second one, and lost as that one is."""

    def __init__(self, server: Server, connection: Connection) -> None:
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
        connection = server.connect()
    try:
        with server.translated_errors():
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}".encode())
        yield Listener(server, connection)
    finally:
        connection.close()
