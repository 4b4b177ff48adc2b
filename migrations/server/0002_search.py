"""What `search` and `fleet` ask of a team's server: the index of words, the functions that use it, and sessions."""

from __future__ import annotations

import os

from alembic import op

revision = "0002"
down_revision = "0001"

STEPS = ("0002/words", "0002/search", "0002/fleet", "0001/owners")


def upgrade() -> None:
    """Add indexes and functions; the tables stay as they are."""
    connection = op.get_bind().execution_options(no_parameters=True)  # else each `%` would be a parameter
    for step in STEPS:
        with open(os.path.join(os.path.dirname(__file__), f"{step}.sql"), encoding="utf-8") as file:
            connection.exec_driver_sql(file.read())
