"""Alembic: the one owner of the database schema."""
