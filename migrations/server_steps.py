"""Run the SQL files of a server's revision, in which `faber_ledger_keeper` stands for the keeper of the database."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sqlalchemy import text

from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server")
# A database that was copied, or restored elsewhere, has the keeper that it had.
KEEPER = """\
SELECT coalesce(
  (SELECT min(rolname) FROM pg_proc JOIN pg_roles ON pg_roles.oid = proowner
    WHERE pronamespace = 'faber_ledger'::regnamespace AND proname = 'my_projects'),
  (SELECT 'faber_ledger_keeper_' || oid FROM pg_database WHERE datname = current_database())
)"""


def run_steps(connection: Connection, steps: Iterable[str]) -> None:
    """Run files in their order, named below `migrations/server/` without `.sql`.

    Raises LedgerError if the functions belong to another role than a keeper, and the driver's errors.
    """
    keeper = connection.execute(text(KEEPER)).scalar_one()
    if not re.fullmatch("faber_ledger_keeper_[0-9]+", keeper):
        raise LedgerError(
            f"the functions of faber-ledger belong to the role {keeper}, which is no keeper",
            hint="restore the database with its roles: docs/guides/TEAM-SERVER.md, Backups",
        )
    plain = connection.execution_options(no_parameters=True)  # else each `%` would be a parameter
    for step in steps:
        with open(os.path.join(FOLDER, f"{step}.sql"), encoding="utf-8") as file:
            plain.exec_driver_sql(file.read().replace("faber_ledger_keeper", keeper))
