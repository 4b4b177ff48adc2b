"""The server's schema: what Alembic makes is what SQLAlchemy's tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, create_engine
from sqlalchemy.pool import NullPool

from faber_ledger.migrations.server_upgrade import list_revisions
from faber_ledger.postgres import tables

if TYPE_CHECKING:
    from support.postgres import Database


def shape(metadata: MetaData) -> dict[str, list[tuple[str, str, bool]]]:
    """Return each table's columns: name, type, whether it may be null."""
    return {
        table.name: [(column.name, kind_of(column), bool(column.nullable)) for column in table.c]
        for table in metadata.sorted_tables
    }


def kind_of(column: Column[Any]) -> str:
    """Return a column's type; PostgreSQL's `name` is a text to those who read it."""
    return type(column.type.as_generic()).__name__.replace("String", "Text")


def test_the_tables_that_are_queried_are_the_servers_own(database: Database) -> None:
    engine = create_engine(database.admin_url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
    found = MetaData(schema=tables.SCHEMA)
    found.reflect(engine, only=[table.name for table in tables.METADATA.sorted_tables])
    engine.dispose()
    assert shape(found) == shape(tables.METADATA)


def test_the_program_knows_every_revision() -> None:
    assert tuple(one.id for one in list_revisions()) == tables.REVISIONS
