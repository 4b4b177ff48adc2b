"""The newest state.json of each run, in place of the documents, of which a run could have several."""

from __future__ import annotations

from alembic import op

from faber_ledger.migrations.upgrade import run_steps

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Keep the newest document of each run as its state, and drop the documents with all that asked for them."""
    run_steps(op.get_bind(), ["0003/state", "0001/owners"])
