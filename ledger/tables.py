"""The tables of format 1 as SQLAlchemy Core knows them, for queries; a test compares them with the format's text."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, String, Table, Text, text

METADATA = MetaData()

EVENT = Table(
    "event",
    METADATA,
    Column("seq", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("writer", Text, nullable=False),
    Column("session_id", Text),
    Column("client", Text),
    Column("parents", LargeBinary, nullable=False),
    Column("salt", LargeBinary),
    Column("payload", Text),
    Column("payload_hash", LargeBinary),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("seq", "id"),
    sqlite_with_rowid=False,
)
Index("event_id", EVENT.c.id, unique=True)
Index("event_client", EVENT.c.client, EVENT.c.seq, sqlite_where=text("type = 'session_started'"))
Index("event_session", EVENT.c.session_id, EVENT.c.seq, sqlite_where=text("type = 'session_started'"))
Index("event_compaction", EVENT.c.seq, sqlite_where=text("type = 'compaction_completed'"))
Index("event_note", EVENT.c.seq, sqlite_where=text("type = 'note_recorded'"))

HEAD = Table(
    "head",
    METADATA,
    Column("hash", LargeBinary, nullable=False),
    Column("seq", Integer, nullable=False),
    PrimaryKeyConstraint("hash"),
    sqlite_with_rowid=False,
)

PROJECTION = Table(
    "projection",
    METADATA,
    Column("projector", Integer, nullable=False),
    Column("heads", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    PrimaryKeyConstraint("projector"),
    sqlite_with_rowid=False,
)

ALEMBIC_VERSION = Table(
    "alembic_version",
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
