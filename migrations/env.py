"""Run Alembic's revisions on the connection that `upgrade` passes; opens and prints nothing itself."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
context.run_migrations()
