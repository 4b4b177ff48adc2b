"""A connection to the team's server: checked when it is opened, every error of the driver as one of ours, its news."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.encoding import sha256
from faber_ledger.ledger.errors import LedgerError, NewerFormat
from faber_ledger.postgres.address import Address, is_interrupted, load_driver, translate, translate_read_only
from faber_ledger.postgres.ask import (
    MOST_ROWS,
    NONE,
    Connection,
    Kinds,
    absurd_answer,
    ask,
    check_rows,
    translate_decode_errors,
)

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row
    from faber_ledger.postgres.connection import BoundedConnection  # loads psycopg

OLDEST_VERSION = 14
PATIENCE = 150.0  # seconds; a statement may take 120
FACTS = """\
SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only, session_user AS role,
  EXISTS (SELECT FROM pg_namespace WHERE nspname = 'faber_ledger') AS has_schema,
  (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'faber_ledger') AS may_use_schema,
  (
    SELECT owner.rolname::text FROM pg_namespace JOIN pg_roles AS owner ON owner.oid = nspowner
    WHERE nspname = 'faber_ledger' AND NOT owner.rolsuper
      AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
  ) AS lesser_owner,
  EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'faber_ledger' AND relname = 'alembic_version'
  ) AS has_revision"""
FACT_KINDS: list[tuple[str, Kinds]] = [
    ("version", int),
    ("encoding", str),
    ("is_read_only", bool),
    ("role", str),
    ("has_schema", bool),
    ("may_use_schema", (bool, NONE)),
    ("lesser_owner", (str, NONE)),
    ("has_revision", bool),
]
LONGEST_REVISION = 32  # characters, as Alembic's column has
HINT_UPGRADE = "the owner of the database runs `faber-ledger db upgrade`"


class Server:
    """An open connection to the team's server; one statement at a time."""

    def __init__(self, address: Address, patience: float | None) -> None:
        self.address = address
        self._patience = patience
        self._connection: BoundedConnection | None = None
        self.role = ""  # the login
        self.is_read_only = False

    def connect(self) -> BoundedConnection:
        """Return a new connection, which the caller closes; raises psycopg's errors."""
        from faber_ledger.postgres.connection import connect  # the extra; `open_server` has loaded it

        return connect(self.address.parameters, self._patience)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run a block in one READ COMMITTED transaction: committed at its end, rolled back if anything is raised.

        After an error the next transaction connects again. Raises ServerUnavailable and ServerRefused.
        """
        connection, self._connection = self._connection, None
        with self.translated_errors():
            if connection is None:
                connection = self.connect()
            try:
                connection.begin()
                yield connection
                connection.commit()
            except BaseException:
                connection.close()  # it may be lost: nothing more is asked of it, and the server rolls back
                raise
        self._connection = connection

    def ask(
        self, function: str, columns: Mapping[str, Kinds], *, limit: int = MOST_ROWS, **arguments: Any
    ) -> list[Row]:
        """Return the rows that a function answers, in a transaction of its own; raises as that, and as `ask`."""
        with self.transaction() as connection:
            return ask(connection, function, columns, limit=limit, **arguments)

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise ServerUnavailable, ServerRefused or KeyboardInterrupt in place of what the driver raises in a block."""
        import psycopg  # the extra; `open_server` has loaded it

        try:
            yield
        except psycopg.Error as error:
            if is_interrupted(error):
                raise KeyboardInterrupt from None
            raise translate(error, self.address) from None  # a traceback would show what was sent

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


@contextmanager
def open_server(
    address: Address, *, writing: bool = False, has_schema: bool = True, patience: float | None = PATIENCE
) -> Iterator[Server]:
    """Open a server and check that this program can use it; without `has_schema`, its schema is not looked at.

    A server that does not answer a question for `patience` seconds is unavailable; None waits without a limit.
    Raises ServerUnavailable if it cannot be reached, or takes no change where `writing` is wanted; ServerRefused if it
    refuses the login, lacks the schema or has an older one; NewerFormat for a newer one; LedgerError without psycopg,
    and for a server that is too old.
    """
    load_driver()
    server = Server(address, patience)
    try:
        _check(server, writing=writing, has_schema=has_schema)
        yield server
    finally:
        server.close()


def _check(server: Server, *, writing: bool, has_schema: bool) -> None:
    from psycopg.rows import namedtuple_row  # the extra

    with server.transaction() as connection, translate_decode_errors("current_setting"):
        found = connection.cursor(row_factory=namedtuple_row).execute(FACTS).fetchall()
        check_rows("current_setting", FACT_KINDS, found)
    if len(found) != 1:
        raise absurd_answer("current_setting")
    facts: Any = found[0]
    server.role, server.is_read_only = server.address.screen(facts.role), facts.is_read_only
    if facts.version < OLDEST_VERSION:
        raise LedgerError(
            f"the server has PostgreSQL {facts.version}, and faber-ledger needs {OLDEST_VERSION} or later",
            hint="upgrade the server",
        )
    if facts.encoding != "UTF8":
        raise LedgerError(
            f"the database has the encoding {server.address.screen(facts.encoding)}, and events need UTF8",
            hint="use a database in UTF8",
        )
    if facts.lesser_owner is not None:  # who can put code into the schema, which would run with all rights
        owner = server.address.screen(facts.lesser_owner)
        raise ServerRefused(
            f"the role {server.role} is a superuser, and the schema {SCHEMA} belongs to {owner}, who is not one",
            hint=f"run it as {owner}{', or as a member' if has_schema else ''}",
        )
    if writing and facts.is_read_only:
        raise translate_read_only(server.address)
    if not has_schema:
        return
    if not facts.has_schema:
        raise ServerRefused("the database has no schema of faber-ledger", hint=HINT_UPGRADE)
    if not facts.may_use_schema:
        raise ServerRefused(
            f"the role {server.role} may not use the schema {SCHEMA}",
            hint="if it is to see a project: the owner of the database grants it the role faber_ledger_member, and an"
            " admin of the project runs `faber-ledger db admit ROLE`",
        )
    if not facts.has_revision:
        raise ServerRefused("the database has no schema of faber-ledger", hint=HINT_UPGRADE)
    _check_revision(server)


def _read_revision(server: Server) -> str | None:
    with server.transaction() as connection:
        found = connection.execute(f"SELECT version_num FROM {SCHEMA}.alembic_version LIMIT 2".encode()).fetchall()
    return str(found[0][0])[:LONGEST_REVISION] if len(found) == 1 and found[0][0] is not None else None


def _check_revision(server: Server) -> None:
    """Raise ServerRefused for an older schema than this program's, and NewerFormat for a newer one."""
    revision = _read_revision(server)
    if revision == REVISIONS[-1]:
        return
    if revision is None or revision in REVISIONS:
        raise ServerRefused(
            f"the server has revision {revision or 'none'} of the schema, and this program needs {REVISIONS[-1]}",
            hint=HINT_UPGRADE,
        )
    raise NewerFormat(
        f"the server has revision {server.address.screen(revision)} of the schema,"
        f" and this program knows revisions up to {REVISIONS[-1]}",
        hint="upgrade faber-ledger on this machine, then run the command again",
    )


SCHEMA = "faber_ledger"
REVISIONS = ("0001",)  # that this program knows, oldest first; a test compares them with the migrations'
CHANNEL = "faber_ledger"  # of LISTEN and NOTIFY


def notification_of(project: str) -> str:
    """Return what a notification on `CHANNEL` says of a project: a hash, since strangers may listen, too."""
    return sha256(project.encode()).hexdigest()


SETTLE_SECONDS = 0.5  # a sync tells of each run that it pushed
TELL = "SELECT faber_ledger.tell_readers(%(project)s)"


def tell_readers(server: Server, project: str) -> None:
    """Notify the listeners that a project has news; a failure is ignored, since they also look from time to time.

    In a transaction of its own, because a full queue of notifications must not undo the push.
    """
    with suppress(ServerRefused, ServerUnavailable), server.transaction() as connection:
        connection.execute(TELL, {"project": project})


class Listener:
    """A connection that listens; it is the server's second one, and lost as that one is."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self._server = server
        self._connection = connection

    def wait(self, projects: Collection[str], seconds: float) -> None:
        """Wait for news of one of the projects, and a moment for more of it, `seconds` at most.

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
