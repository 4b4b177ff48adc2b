"""Run the revisions of a team's server, which are in `migrations/server/`.

Those of a ledger are in `migrations/ledger/`: a hook makes a ledger without Alembic, from the text that they execute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import StaticPool

from faber_ledger.ledger.errors import LedgerError, NewerFormat

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
SCHEMA = "faber_ledger"
SERVER = "server"  # the folder of the revisions of a server
# Who owns the schema can put code of his own in it, which an upgrade would run with the rights of its login.
OWNER = """\
SELECT nspowner = me.oid OR (rolsuper AND (SELECT rolsuper FROM pg_roles WHERE oid = nspowner)), nspowner::regrole::text
FROM pg_namespace, pg_roles AS me WHERE nspname = :schema AND rolname = current_user"""
# A database that was copied, or restored elsewhere, has the keeper that it had.
KEEPER = """\
SELECT coalesce(
  (SELECT min(rolname) FROM pg_proc JOIN pg_roles ON pg_roles.oid = proowner
    WHERE pronamespace = 'faber_ledger'::regnamespace AND proname = 'my_projects'),
  (SELECT 'faber_ledger_keeper_' || oid FROM pg_database WHERE datname = current_database())
)"""
LOCK = f"COMMENT ON SCHEMA {SCHEMA} IS 'faber-ledger'"  # one upgrade at a time, and only its owner may


class Outcome(NamedTuple):
    """A server's revision before and after; they are equal if there was nothing to do. None: no schema of ours."""

    before: str | None
    after: str


def make_config(folder: str) -> Config:
    """Return Alembic's settings for the revisions in a folder of `SCRIPTS`."""
    config = Config()
    config.set_main_option("script_location", SCRIPTS.replace("%", "%%"))
    config.set_main_option("version_locations", os.path.join(SCRIPTS, folder).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")  # which no sane path has, but for a colon or a space
    return config


def list_revisions() -> list[str]:
    """Return the revisions that this program knows, oldest first."""
    return [one.revision for one in ScriptDirectory.from_config(make_config(SERVER)).walk_revisions()][::-1]


def upgrade_server(driver: Any) -> Outcome:
    """Upgrade a server to the newest revision, in one transaction on a connection of the driver's.

    Raises NewerFormat for a server of a newer program, LedgerError if another role made the schema, and what the driver
    raises if the server refuses.
    """
    driver.execute(b"SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)")
    driver.commit()  # else SQLAlchemy's first rollback takes it back
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: driver, poolclass=StaticPool, pool_reset_on_return=None
    )
    try:
        with engine.connect() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))  # to index all events takes a while
            outcome = _upgrade(connection)
            connection.commit()
            return outcome
    except DBAPIError as error:
        raise error.orig or error from None


def _upgrade(connection: Connection) -> Outcome:
    with suppress(IntegrityError), connection.begin_nested():  # another upgrade, for which this has waited, has made it
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    is_ours, owner = connection.execute(text(OWNER), {"schema": SCHEMA}).one()
    if not is_ours:
        raise LedgerError(
            f"the schema {SCHEMA} belongs to the role {owner}",
            hint=f"run it as {owner}, who could put code into the schema that runs with your rights",
        )
    connection.execute(text(LOCK))
    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    before, known = context.get_current_revision(), list_revisions()
    if before not in (None, *known):
        raise NewerFormat(
            f"the server has revision {before}, and this program knows revisions up to {known[-1]}",
            hint="upgrade faber-ledger on this machine, then run the command again",
        )
    config = make_config(SERVER)
    config.attributes.update(connection=connection, version_table_schema=SCHEMA)
    command.upgrade(config, "head")
    return Outcome(before, known[-1])


def run_steps(connection: Connection, steps: Iterable[str]) -> None:
    """Run a revision's SQL files in their order, named below `migrations/server/` without `.sql`.

    `faber_ledger_keeper` in them stands for the keeper of the database. Raises LedgerError if the functions
    belong to another role than a keeper, and the driver's errors.
    """
    keeper = connection.execute(text(KEEPER)).scalar_one()
    if not re.fullmatch("faber_ledger_keeper_[0-9]+", keeper):
        raise LedgerError(
            f"the functions of faber-ledger belong to the role {keeper}, which is not a keeper",
            hint="restore the database with its roles: docs/guides/TEAM-SERVER.md, Backups",
        )
    plain = connection.execution_options(no_parameters=True)  # else each `%` would be a parameter
    for step in steps:
        with open(os.path.join(SCRIPTS, SERVER, f"{step}.sql"), encoding="utf-8") as file:
            plain.exec_driver_sql(file.read().replace("faber_ledger_keeper", keeper))
