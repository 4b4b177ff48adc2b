"""Run Alembic's revisions on the connection that the caller passes; opens and prints nothing itself."""

from __future__ import annotations

from alembic import context

given = context.config.attributes
context.configure(
    connection=given["connection"], target_metadata=None, version_table_schema=given.get("version_table_schema")
)
context.run_migrations()
