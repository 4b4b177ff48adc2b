"""The schema of a team's server: tables, functions, triggers, roles and their rights."""

from __future__ import annotations

from alembic import op

from faber_ledger.migrations.upgrade import run_steps

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make everything in the schema `faber_ledger`, which is there and empty."""
    steps = ("roles", "tables", "functions", "member_calls", "words", "search", "fleet", "rights", "owners")
    run_steps(op.get_bind(), [f"0001/{step}" for step in steps])
