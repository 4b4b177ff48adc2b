"""The driver's connection, which gives up a server that says nothing: no other time-out ends if a network hangs.

Whoever imports this module has loaded psycopg.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

# Parameters for libpq where the URL does not say otherwise: a server that is gone is noticed within a minute.
PARAMETERS = {
    "application_name": "faber-ledger",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # milliseconds
    "client_encoding": "UTF8",
}
# Settings of each transaction, since behind a pooler a session is everybody's: a client that hangs, or is gone, must
# not hold a project's lock for long.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # else whoever may create in a schema of the user's could take a call's place
    "statement_timeout": "120s",
    "lock_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
}
SET = b"SELECT " + b", ".join(
    [f"pg_catalog.set_config('{name}', '{value}', true)".encode() for name, value in SETTINGS.items()]
)


class BoundedConnection(psycopg.Connection[Any]):
    """A connection on which the server is never silent for more than `patience` seconds while it is asked something."""

    patience: float | None = None  # None: as long as it takes

    def begin(self) -> None:
        """Begin a transaction, with its settings; raises psycopg's errors."""
        self.execute(SET)

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Wait for what a generator of the driver waits for; raises OperationalError after too long a silence."""
        return super().wait(self._bound(gen), *args, **options)

    def _bound(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a generator of the driver, which is sent 0 ten times a second while its socket is not ready."""
        try:
            wanted = next(waiting)
            heard = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self._is_overdue(time.monotonic() - heard):
                    raise psycopg.OperationalError(f"the server has not answered for {self.patience:.0f} s")
                wanted = waiting.send(ready)
        except StopIteration as end:
            return end.value

    def _is_overdue(self, seconds: float) -> bool:
        # Nothing is due while no statement runs: then somebody waits for notifications.
        is_asked = self.pgconn.transaction_status == TransactionStatus.ACTIVE
        return self.patience is not None and seconds > self.patience and is_asked


def connect(parameters: dict[str, str], patience: float | None) -> BoundedConnection:
    """Connect with libpq's parameters; raises psycopg's errors."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it warns of, an error says as well
    connection = BoundedConnection.connect(**{**PARAMETERS, **parameters})  # type: ignore[arg-type]  # libpq's own names
    connection.patience = patience
    connection.isolation_level = IsolationLevel.READ_COMMITTED  # our triggers refuse any other
    connection.prepare_threshold = None  # behind a pooler the next transaction may run where nothing was prepared
    return connection
