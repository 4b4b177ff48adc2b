"""Format 1, the first: its text is executed verbatim, as by the hook that creates a ledger."""

from __future__ import annotations

from alembic import op

from faber_ledger.ledger import file

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create a ledger of format 1 in an empty database."""
    connection = op.get_bind()
    connection.exec_driver_sql("DROP TABLE alembic_version")  # Alembic's own text differs from the format's
    for statement in file.statements(file.FORMAT_1):
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"PRAGMA application_id = {file.APPLICATION_ID}")
    connection.exec_driver_sql("PRAGMA user_version = 1")
