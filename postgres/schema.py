"""What the server's schema is called, which of its revisions this program knows, and how it tells of news."""

from __future__ import annotations

from faber_ledger.ledger.plain_json import sha256

SCHEMA = "faber_ledger"
REVISIONS = ("0001", "0002", "0003")  # that this program knows, oldest first; a test compares them with the migrations'
CHANNEL = "faber_ledger"  # of LISTEN and NOTIFY


def notification_of(project: str) -> str:
    """Return what a notification on `CHANNEL` says of a project: a hash, since strangers may listen, too."""
    return sha256(project.encode()).hexdigest()
