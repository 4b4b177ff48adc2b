"""Who sees a project on the server: roles of the database, logins or groups of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from faber_ledger.postgres.ask import ask, ask_one

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server

MEMBER: dict[str, Any] = {"role": str, "is_admin": bool}
ADMIT = text("SELECT faber_ledger.admit(:project, :role, :as_admin)")
# Whether the role, or all who are in it, may use the tables at all.
MAY_USE = "SELECT pg_has_role(:role, 'faber_ledger_member', 'USAGE')"


class Member(NamedTuple):
    """A role that sees a project, and whether it may admit others."""

    role: str
    is_admin: bool


def admit(server: Server, project: str, role: str, *, as_admin: bool = False) -> bool:
    """Let a role see a project; return whether the role may use the tables, which the database's owner grants.

    Raises ServerRefused if there is no such role, or the login is no admin of the project.
    """
    with server.transaction() as connection:
        connection.execute(ADMIT, {"project": project, "role": role, "as_admin": as_admin})
        return bool(connection.execute(text(MAY_USE), {"role": role}).scalar())


def expel(server: Server, project: str, role: str) -> bool:
    """Let a role see a project no more; return whether it did. What it has fetched it keeps.

    Raises ServerRefused if the login is no admin of the project.
    """
    with server.transaction() as connection:
        return bool(ask_one(connection, "expel", bool, project=project, role=role))


def list_members(server: Server, project: str) -> list[Member]:
    """Return the roles that see a project, sorted; none if the login does not see it."""
    with server.transaction() as connection:
        return sorted([Member(*row) for row in ask(connection, "members", MEMBER, project=project)])
