"""The projects that the login sees on a server, and which of them a word means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from faber_ledger.ledger.command_errors import NotFound
from faber_ledger.postgres.tables import PROJECT

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server


def list_projects(server: Server) -> dict[str, str]:
    """Return the name of each project that the login sees, by its id, sorted by name."""
    with server.transaction() as connection:
        found = connection.execute(select(PROJECT.c.id, PROJECT.c.name).order_by(PROJECT.c.name, PROJECT.c.id))
        return {row[0]: row[1] for row in found}


def choose_projects(known: dict[str, str], wanted: str | None) -> list[str]:
    """Return the ids of the projects that are wanted, by an id, the beginning of one, or a name; all without a word.

    Raises NotFound if the login sees none like that.
    """
    if wanted is None:
        return list(known)
    word = wanted.upper()
    found = [project for project, name in known.items() if wanted == name or (word and project.startswith(word))]
    if not found:
        names = ", ".join(sorted(set(known.values()))) or "none"
        raise NotFound(f"the server shows this role no project {wanted}", hint=f"it shows: {names}")
    return found
