"""What `search` and `fleet` ask of a team's server: the index of words, and the functions that use it."""

from __future__ import annotations

from alembic import op

from faber_ledger.migrations.upgrade import run_steps

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add indexes and functions; the tables stay as they are."""
    run_steps(op.get_bind(), ["0002/words", "0002/search", "0002/fleet", "0001/owners"])
