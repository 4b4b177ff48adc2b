"""Who sees a project on the server: roles of the database, logins or groups of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.files.text import escape
from faber_ledger.ledger.command_errors import LastAdmin, ServerRefused
from faber_ledger.postgres.ask import ask, ask_one
from faber_ledger.postgres.project import open_project
from faber_ledger.postgres.server_errors import NO_RIGHT

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server

NO_ROLE = "42704"  # SQLSTATE
RESERVED = ("public", "none")  # names that PostgreSQL gives no role, as all that begin with `pg_`
MEMBER: dict[str, Any] = {"role": str, "is_admin": bool}
ADMIT = "SELECT faber_ledger.admit(%(project)s, %(role)s, %(as_admin)s)"
# Whether the role, or all who are in it, may call the server's functions at all.
MAY_USE = "SELECT pg_has_role(%(role)s, 'faber_ledger_member', 'USAGE')"
# Of some roles those whose rights a role has: each with the groups to take it out of, and whether it is a superuser.
GROUPS_OF = """\
SELECT groups.rolname::text, ARRAY(
  SELECT direct.rolname::text FROM pg_catalog.pg_auth_members AS link
  JOIN pg_catalog.pg_roles AS direct ON direct.oid OPERATOR(pg_catalog.=) link.roleid
  WHERE link.member OPERATOR(pg_catalog.=) one.oid AND pg_catalog.pg_has_role(direct.oid, groups.oid, 'USAGE')
), one.rolsuper
FROM pg_catalog.pg_roles AS groups, pg_catalog.pg_roles AS one
WHERE one.rolname OPERATOR(pg_catalog.=) CAST(%(role)s AS name)
  AND groups.rolname OPERATOR(pg_catalog.=) ANY (CAST(%(roles)s AS name[]))
  AND pg_catalog.pg_has_role(one.oid, groups.oid, 'USAGE')"""
EXISTS = "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) CAST(%(role)s AS name)"


class Member(NamedTuple):
    """A role that sees a project, and whether it may admit others."""

    role: str
    is_admin: bool


class Expelled(NamedTuple):
    """Whether a role was admitted, and by which other roles it still is.

    `groups` are those to take it out of, none for a superuser. `has_no_admin`: so far as the login sees the project.
    """

    was_member: bool
    through: list[str]
    groups: list[str]
    is_superuser: bool
    has_no_admin: bool


def admit(server: Server, project: str, role: str, *, as_admin: bool) -> bool:
    """Let a role see a project; return whether the role may use the tables, which the database's owner grants.

    Raises ServerRefused if there is no such role, or the login is no admin of the project, and as `Server.transaction`.
    """
    try:
        with server.transaction() as connection:
            connection.execute(ADMIT, {"project": project, "role": role, "as_admin": as_admin})
            return connection.execute(MAY_USE, {"role": role}).fetchone() == (True,)
    except ServerRefused as error:
        if error.data.get("sqlstate") == NO_ROLE:
            error.hint = _describe_missing(role)
        elif "is everybody's" in error.message:  # as our own function says it
            error.hint = (
                "admit logins, or a group of your own: `CREATE ROLE shop_team NOLOGIN IN ROLE faber_ledger_member`"
                " in `psql` makes one"
            )
        else:
            _explain_no_right(error, server, project)
        raise


def expel(server: Server, project: str, role: str, *, may_be_last: bool) -> Expelled:
    """Let a role see a project no more. What it has fetched it keeps.

    Raises ServerRefused if the role does not exist, or the login is not an admin of the project; without `may_be_last`
    LastAdmin for the only admin.
    """
    try:
        with server.transaction() as connection:
            before = [Member(*row) for row in ask(connection, "members", MEMBER, project=project)]
            others = [one for one in before if one.role != role]
            was_admin = any([one.is_admin for one in before if one.role == role])
            has_no_admin = bool(before) and not any([one.is_admin for one in others])
            was_member = ask_one(connection, "expel", bool, project=project, role=role)
            if was_admin and has_no_admin and not may_be_last:
                raise LastAdmin(
                    f"{escape(role)} is the only admin of this project: without one, only the owner of the database"
                    " admits and expels",
                    hint="make another one with `faber-ledger db admit --admin ROLE`, or add --yes",
                )
            if not was_member and connection.execute(EXISTS, {"role": role}).fetchone() == (0,):
                raise ServerRefused(
                    f"the role {escape(role)} does not exist",
                    hint="`faber-ledger db members` lists who sees this project",
                )
            asked = {"role": role, "roles": [one.role for one in others]}
            found = connection.execute(GROUPS_OF, asked).fetchall()
    except ServerRefused as error:
        _explain_no_right(error, server, project)
        raise
    is_superuser = any([row[2] for row in found])
    groups = set() if is_superuser else {str(group) for row in found for group in row[1]}
    through = sorted([str(row[0]) for row in found])
    return Expelled(was_member, through, sorted(groups), is_superuser, has_no_admin and was_member)


def _describe_missing(role: str) -> str:
    """Return what to do about a role that does not exist."""
    if role in RESERVED or role.startswith("pg_"):
        return "PostgreSQL keeps this name for itself: name a login, or a group of logins (`\\du` in `psql` lists them)"
    return f"check the name; `\\du` in `psql` lists the roles, and `CREATE ROLE {quote_role(role)} …` makes one"


def _explain_no_right(error: ServerRefused, server: Server, project: str) -> None:
    """Set an error's hint for a login that may not admit and expel; raises ServerRefused without the project."""
    if error.data.get("sqlstate") == NO_RIGHT:
        open_project(server, project, "", writing=False)
        error.hint = (
            "an admin of the project (`faber-ledger db members` names them) or the owner of the database does it"
        )


def quote_role(role: str) -> str:
    """Return the name of a role as SQL takes it, in which no character hides."""
    name = escape(role).replace('"', '""')
    return f'"{name}"'


def list_members(server: Server, project: str) -> list[Member]:
    """Return the roles that see a project, sorted; none if the login does not see it."""
    with server.transaction() as connection:
        return sorted([Member(*row) for row in ask(connection, "members", MEMBER, project=project)])
