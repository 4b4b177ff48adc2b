"""The first schema of a team's server: tables, functions, triggers, roles and row-level security."""

from __future__ import annotations

import os

from alembic import op

revision = "0001"
down_revision = None

STEPS = ("roles", "tables", "functions", "rights", "owners")


def upgrade() -> None:
    """Make everything in the schema `faber_ledger`, which is there and empty."""
    connection = op.get_bind().execution_options(no_parameters=True)  # else each `%` would be a parameter
    for step in STEPS:
        with open(os.path.join(os.path.dirname(__file__), revision, f"{step}.sql"), encoding="utf-8") as file:
            connection.exec_driver_sql(file.read())
