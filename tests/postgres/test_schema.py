"""The server's schema: the program knows each of its revisions."""

from __future__ import annotations

from faber_ledger.migrations.upgrade import list_revisions
from faber_ledger.postgres.server import REVISIONS


def test_the_program_knows_every_revision() -> None:
    assert tuple(list_revisions()) == REVISIONS
