"""The server's tables as SQLAlchemy Core knows them, for queries; a test compares them with a server's own."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from faber_ledger.ledger.canonical import sha256

SCHEMA = "faber_ledger"
REVISIONS = ("0001", "0002")  # that this program knows, oldest first; a test compares them with the migrations'
CHANNEL = "faber_ledger"  # of LISTEN and NOTIFY
METADATA = MetaData(schema=SCHEMA)

PROJECT = Table(
    "project",
    METADATA,
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("id"),
)

MEMBER = Table(
    "member",
    METADATA,
    Column("project", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("is_admin", Boolean, nullable=False),
    PrimaryKeyConstraint("project", "role"),
)

# `position` and `received_at` are the server's: what an INSERT says of them is overwritten.
EVENT = Table(
    "event",
    METADATA,
    Column("project", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
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
    Column("received_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("project", "run_id", "id"),
)

# Without `content` where a redaction has emptied it.
DOCUMENT = Table(
    "document",
    METADATA,
    Column("project", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("heads", LargeBinary, nullable=False),
    Column("supersedes", ARRAY(Text), nullable=False),
    Column("content", Text),
    Column("at", Text, nullable=False),
    Column("writer", Text, nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("project", "run_id", "id"),
)


def notification_of(project: str) -> str:
    """Return what a notification on `CHANNEL` says of a project: a hash, since strangers may listen, too."""
    return sha256(project.encode()).hexdigest()
