"""Who sees a project on the server: roles of the database, logins or groups of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import ServerRefused
from faber_ledger.postgres.ask import ask, ask_one
from faber_ledger.postgres.project import open_project

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server

NO_ROLE, NO_RIGHT = "42704", "42501"  # SQLSTATE
MEMBER: dict[str, Any] = {"role": str, "is_admin": bool}
ADMIT = text("SELECT faber_ledger.admit(:project, :role, :as_admin)")
# Whether the role, or all who are in it, may call the server's functions at all.
MAY_USE = "SELECT pg_has_role(:role, 'faber_ledger_member', 'USAGE')"
# Of some roles those that a role is in, or is.
GROUPS_OF = """\
SELECT groups.rolname FROM pg_catalog.pg_roles AS groups, pg_catalog.pg_roles AS one
WHERE one.rolname OPERATOR(pg_catalog.=) CAST(:role AS name)
  AND groups.rolname OPERATOR(pg_catalog.=) ANY (CAST(:roles AS name[]))
  AND pg_catalog.pg_has_role(one.oid, groups.oid, 'USAGE')"""
EXISTS = "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) CAST(:role AS name)"


class Member(NamedTuple):
    """A role that sees a project, and whether it may admit others."""

    role: str
    is_admin: bool


class Expelled(NamedTuple):
    """Whether a role was admitted, by which other roles it still is, and the other roles that are admins.

    Only an admin, or a member, learns the last two: None for the owner of the database.
    """

    was_member: bool
    through: list[str]
    admins: list[str] | None


def admit(server: Server, project: str, role: str, *, as_admin: bool = False) -> bool:
    """Let a role see a project; return whether the role may use the tables, which the database's owner grants.

    Raises ServerRefused if there is no such role, or the login is no admin of the project, and as `Server.transaction`.
    """
    try:
        with server.transaction() as connection:
            connection.execute(ADMIT, {"project": project, "role": role, "as_admin": as_admin})
            return bool(connection.execute(text(MAY_USE), {"role": role}).scalar())
    except ServerRefused as error:
        state = error.data.get("sqlstate")
        if state == NO_ROLE:
            error.hint = (
                f"check the name; `\\du` in `psql` lists the roles, and `CREATE ROLE {escape(role)} …` makes one"
            )
        elif state == NO_RIGHT:
            open_project(server, project, "", writing=False)
            error.hint = (
                "an admin of the project (`faber-ledger db members` names them) or the owner of the database does it"
            )
        raise


def expel(server: Server, project: str, role: str) -> Expelled:
    """Let a role see a project no more. What it has fetched it keeps.

    Raises ServerRefused if there is no such role, or the login is no admin of the project.
    """
    with server.transaction() as connection:
        before = [Member(*row) for row in ask(connection, "members", MEMBER, project=project)]
        was_member = ask_one(connection, "expel", bool, project=project, role=role)
        if not was_member and not connection.execute(text(EXISTS), {"role": role}).scalar():
            raise ServerRefused(
                f"there is no role {escape(role)}", hint="`faber-ledger db members` lists who sees this project"
            )
        others = [one for one in before if one.role != role]
        asked = {"role": role, "roles": [one.role for one in others]}
        through = connection.execute(text(GROUPS_OF), asked).scalars().all()
    admins = [one.role for one in others if one.is_admin] if before else None
    return Expelled(was_member, sorted(map(str, through)), admins)


def list_members(server: Server, project: str) -> list[Member]:
    """Return the roles that see a project, sorted; none if the login does not see it."""
    with server.transaction() as connection:
        return sorted([Member(*row) for row in ask(connection, "members", MEMBER, project=project)])
