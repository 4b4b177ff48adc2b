"""Projects on the server: which the login sees, who is admitted to one, and which of its runs have news."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.command_errors import LastAdmin, NotFound, ServerRefused
from faber_ledger.postgres.address import NO_RIGHT
from faber_ledger.postgres.ask import absurd_answer, ask, ask_one
from faber_ledger.postgres.server import Server

REGISTER = "SELECT faber_ledger.register_project(%(project)s, %(name)s)"
POSITION: dict[str, Any] = {"position": int, "id": str}


class Remote(NamedTuple):
    """A project on an open server; `key` tells it from a project of the same id on another server."""

    server: Server
    project: str
    key: str


def find_project(server: Server, project: str) -> str | None:
    """Return when a project was made on the server, which tells it from one of the same id on another server.

    None if there is none, or the login does not see it.
    """
    with server.transaction() as connection:
        made = {row[0]: row[1] for row in ask(connection, "projects", {"id": str, "created_at": datetime})}
    try:
        return str(made[project].timestamp()) if project in made else None
    except (ValueError, OverflowError):  # a time of no zone, at an end of the calendar
        raise absurd_answer("projects") from None


def admission(server: Server) -> str:
    """Return what a login does that does not see a project."""
    return (
        "an admin of the project, or the owner of the database, runs"
        f" `faber-ledger db admit {quote_word(server.role)}`; if nobody has pushed it yet, `faber-ledger sync` makes"
        " it, and who does is its admin"
    )


def open_project(server: Server, project: str, name: str, *, writing: bool) -> str:
    """Return as `find_project`; with `writing`, a project that nobody has is made first.

    Raises ServerRefused if the login does not see the project.
    """
    made = find_project(server, project)
    if made is None and writing:
        try:
            with server.transaction() as connection:
                connection.execute(REGISTER, {"project": project, "name": name[:255]})
        except ServerRefused as error:
            if error.data.get("sqlstate") == NO_RIGHT:  # somebody else has made it
                error.hint = admission(server)
            raise
        made = find_project(server, project)
    if made is None:
        message = f"the role {server.role} sees no project {project} on this server"
        raise ServerRefused(message, hint=admission(server))
    return made


def newest_event(server: Server, project: str, run_id: str | None = None) -> tuple[int, str] | None:
    """Return position and id of the newest event of a project, or of a run in it; None without one."""
    run = {} if run_id is None else {"run_id": run_id}
    with server.transaction() as connection:
        found = ask(connection, "newest_event", POSITION, limit=1, project=project, **run)
    return (found[0][0], found[0][1]) if found else None


def list_runs(server: Server, project: str, after: int, upto: int) -> list[str]:
    """Return the ids of the runs that have events at positions after `after` up to `upto`, in order."""
    with server.transaction() as connection:
        found = ask(connection, "runs_with_news", {"runs_with_news": str}, project=project, after=after, upto=upto)
    return sorted([name for (name,) in found])


def list_projects(server: Server) -> dict[str, str]:
    """Return the name of each project that the login sees, by its id, sorted by name.

    Raises ServerRefused for a login that sees none: to it the server looks empty, whatever is there.
    """
    with server.transaction() as connection:
        found = ask(connection, "projects", {"name": str, "id": str})
    if not found:
        raise ServerRefused(f"the role {server.role} sees no project on this server", hint=admission(server))
    return {project: name for name, project in sorted(found)}


def choose_projects(known: dict[str, str], wanted: str | None) -> list[str]:
    """Return the ids of the projects that are wanted, by an id, the beginning of one, or a name; all without a word.

    Raises NotFound if the login sees none like that.
    """
    if wanted is None:
        return list(known)
    word = wanted.upper()
    found = [project for project, name in known.items() if wanted == name or (word and project.startswith(word))]
    if not found:
        names = ", ".join(sorted(set(known.values())))
        raise NotFound(f"the server shows this role no project {wanted}", hint=f"it shows: {names}")
    return found


NO_ROLE = "42704"  # SQLSTATE
HINT_NO_ROLE = "check the name; `\\du` in `psql` lists the roles"
MEMBER: dict[str, Any] = {"role": str, "is_admin": bool}
ADMIT = "SELECT faber_ledger.admit(%(project)s, %(role)s, %(as_admin)s)"
# Whether the role, or all who are in it, may call the server's functions at all.
MAY_USE = "SELECT pg_has_role(%(role)s, 'faber_ledger_member', 'USAGE')"
# Of some roles those whose rights a role has: it is in them, or a superuser.
GROUPS_OF = """\
SELECT groups.rolname::text FROM pg_catalog.pg_roles AS groups, pg_catalog.pg_roles AS one
WHERE one.rolname OPERATOR(pg_catalog.=) CAST(%(role)s AS name)
  AND groups.rolname OPERATOR(pg_catalog.=) ANY (CAST(%(roles)s AS name[]))
  AND pg_catalog.pg_has_role(one.oid, groups.oid, 'USAGE')"""
EXISTS = "SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) CAST(%(role)s AS name)"


class Member(NamedTuple):
    """A role that sees a project, and whether it may admit others."""

    role: str
    is_admin: bool


class Expelled(NamedTuple):
    """Whether a role was admitted, the members whose rights it has, and whether the project has no admin any more."""

    was_member: bool
    through: list[str]
    has_no_admin: bool


def admit(server: Server, project: str, role: str, *, as_admin: bool) -> bool:
    """Let a role see a project; return whether the role may use the tables, which the database's owner grants.

    Raises ServerRefused if the role does not exist or the login is not an admin, and as `Server.transaction`.
    """
    try:
        with server.transaction() as connection:
            connection.execute(ADMIT, {"project": project, "role": role, "as_admin": as_admin})
            return connection.execute(MAY_USE, {"role": role}).fetchone() == (True,)
    except ServerRefused as error:
        if error.data.get("sqlstate") == NO_ROLE:
            error.hint = HINT_NO_ROLE
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
                raise ServerRefused(f"the role {escape(role)} does not exist", hint=HINT_NO_ROLE)
            asked = {"role": role, "roles": [one.role for one in others]}
            found = connection.execute(GROUPS_OF, asked).fetchall()
    except ServerRefused as error:
        _explain_no_right(error, server, project)
        raise
    return Expelled(was_member, sorted([str(row[0]) for row in found]), has_no_admin and was_member)


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
