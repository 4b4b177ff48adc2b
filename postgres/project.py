"""Projects on the server: which the login sees, who is admitted or invited, and which of its runs have news."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.files.text import escape, quote_word
from faber_ledger.ledger.command_errors import LastAdmin, NotFound, ServerRefused, ServerUnavailable
from faber_ledger.postgres.address import NO_RIGHT, USED_PASSWORD, Address
from faber_ledger.postgres.ask import NONE, Connection, absurd_answer, ask, ask_one
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from psycopg import sql

POSITION: dict[str, Any] = {"position": int, "id": str}


class ServerProject(NamedTuple):
    """A project on an open server; `key` tells it from a project of the same id on another server."""

    server: Server
    project: str
    key: str


def time_made(server: Server, project: str) -> str | None:
    """Return when a project was made on the server, which tells it from one of the same id on another server.

    None if there is none, or the login does not see it.
    """
    made = {row[0]: row[1] for row in server.ask("projects", {"id": str, "created_at": datetime})}
    try:
        return str(made[project].timestamp()) if project in made else None
    except (ValueError, OverflowError):  # a time of no zone, at an end of the calendar
        raise absurd_answer("projects") from None


def admission(server: Server) -> str:
    """Return the hint for a login that does not see a project."""
    return (
        "an admin of the project, or the owner of the database, runs"
        f" `faber-ledger db admit {quote_word(server.role)}`; if the server has no such project yet, the owner makes it"
        f" with `faber-ledger db project add --admin {quote_word(server.role)}`"
    )


CLONE: dict[str, Any] = {"role": str, "is_mine": bool}


def open_project(server: Server, project: str, writer: str) -> ServerProject:
    """Open a project for a clone, named by its writer's id, and bind the clone to the login.

    A read-only server binds nothing. Raises ServerRefused if the login does not see the project, or the
    clone is another login's.
    """
    made = time_made(server, project)
    if made is None:
        message = f"the role {server.role} sees no project {project} on this server"
        raise ServerRefused(message, hint=admission(server))
    if not server.is_read_only:
        found = server.ask("claim_clone", CLONE, limit=1, project=project, writer=writer)
        if found != [(server.role, True)]:
            owner, me = escape(str(found[0][0])) if found else "nobody", quote_word(server.role)
            raise ServerRefused(
                f"this clone (writer {writer}) is the login {owner}'s on the server, and you are {server.role}",
                hint=f"connect as {owner}, or let an admin run `faber-ledger db rebind {writer} {me}`",
            )
    return ServerProject(server, project, f"{project} {made}")


def add_project(server: Server, project: str, name: str, admin: str) -> bool:
    """Make a project with a role as its admin; return False if it exists already.

    Raises ServerRefused if the login may not do that, or the role does not exist.
    """
    asked = {"project": project, "name": name[:255], "admin": admin}
    with explained_refusal(server), server.transaction() as connection:
        return bool(ask_one(connection, "add_project", bool, **asked))


def rebind_clone(server: Server, project: str, writer: str, role: str) -> bool:
    """Bind a clone, named by its writer's id, to a login; return whether that login sees the project.

    Raises ServerRefused if this login is not an admin, or the role does not exist.
    """
    with explained_refusal(server, project), server.transaction() as connection:
        connection.execute(REBIND, {"project": project, "writer": writer, "role": role})
        members = [str(row[0]) for row in ask(connection, "members", MEMBER, project=project)]
        return bool(connection.execute(GROUPS_OF, {"role": role, "roles": members}).fetchall())


def change_removed(server: Server, function: str, project: str, event: str) -> list[str]:
    """Restore a redacted payload that the server keeps, or remove it for good, by calling a function of the server.

    Returns the runs that have the event.
    """
    with explained_refusal(server, project):
        found = server.ask(function, {function: str}, project=project, event=event)
    return [run_id for (run_id,) in found]


class Origin(NamedTuple):
    """Who wrote an event, the login whose clone that is, if any, and which login brought it."""

    writer: str
    login: str | None
    brought_by: str


def find_origins(server: Server, project: str, events: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Origin]:
    """Return the origins of events on the server, by their runs and ids."""
    columns: dict[str, Any] = {"run_id": str, "id": str, "writer": str, "role": (str, NONE), "pushed_by": str}
    runs, ids = map(list, zip(*events, strict=True))
    found = server.ask("who_brought", columns, project=project, runs=runs, ids=ids)
    return {(run_id, name): Origin(*origin) for run_id, name, *origin in found}


def who_brought(server: Server, project: str, run_id: str, ids: list[str]) -> dict[str, str]:
    """Return, by event id, whose clone wrote the event and which login brought it to the server."""
    return {
        name: f"written by {escape(one.login or one.writer)}, brought by {escape(one.brought_by)}"
        for (_, name), one in find_origins(server, project, [(run_id, name) for name in ids]).items()
    }


def newest_event(server: Server, project: str, run_id: str | None = None) -> tuple[int, str] | None:
    """Return position and id of the newest event of a project, or of a run in it; None if it has no event."""
    run = {} if run_id is None else {"run_id": run_id}
    found = server.ask("newest_event", POSITION, limit=1, project=project, **run)
    return (found[0][0], found[0][1]) if found else None


def list_runs(server: Server, project: str, after: int, upto: int) -> list[str]:
    """Return the ids of the runs that have events at positions after `after` up to `upto`, in order."""
    found = server.ask("runs_with_news", {"runs_with_news": str}, project=project, after=after, upto=upto)
    return sorted([name for (name,) in found])


def list_projects(server: Server) -> dict[str, str]:
    """Return the name of each project that the login sees, by its id, sorted by name.

    Raises ServerRefused for a login that sees none: to it the server looks empty, whatever is there.
    """
    found = server.ask("projects", {"name": str, "id": str})
    if not found:
        raise ServerRefused(f"the role {server.role} sees no project on this server", hint=admission(server))
    return {project: name for name, project in sorted(found)}


def choose_projects(known: dict[str, str], wanted: str | None) -> list[str]:
    """Return the ids of the projects that match an id, the beginning of an id, or a name; all projects for None.

    Raises NotFound if no project that the login sees matches.
    """
    if wanted is None:
        return list(known)
    word = wanted.upper()
    found = [project for project, name in known.items() if wanted == name or (word and project.startswith(word))]
    if not found:
        names = ", ".join(sorted(set(known.values())))
        raise NotFound(f"the server shows this role no project {wanted}", hint=f"it shows: {names}")
    return found


NO_ROLE, LAST_ADMIN, NOT_ACCEPTED, TAKEN = "42704", "23001", "55000", "42710"  # SQLSTATE
HINT_NO_ROLE = "check the name; `\\du` in `psql` lists the roles"
MEMBER: dict[str, Any] = {"role": str, "is_admin": bool}
ADMIT = "SELECT faber_ledger.admit(%(project)s, %(role)s, %(as_admin)s)"
REBIND = "SELECT faber_ledger.give_clone(%(project)s, %(writer)s, %(role)s)"
# Whether the role, or all who are in it, may call the server's functions at all.
MAY_USE = "SELECT pg_has_role(%(role)s, 'faber_ledger_member', 'USAGE')"
# Which of these groups a role belongs to, directly or indirectly; a superuser belongs to all.
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
    """Whether the role was a member, the members that still let it in, and whether the project is without an admin."""

    was_member: bool
    through: list[str]
    has_no_admin: bool


def admit(server: Server, project: str, role: str, *, as_admin: bool) -> bool:
    """Let a role see a project; return whether the role may use the tables, which the database's owner grants.

    Raises ServerRefused if the role does not exist or the login is not an admin, and as `Server.transaction`.
    """
    with explained_refusal(server, project), server.transaction() as connection:
        connection.execute(ADMIT, {"project": project, "role": role, "as_admin": as_admin})
        return connection.execute(MAY_USE, {"role": role}).fetchone() == (True,)


def expel(server: Server, project: str, role: str, *, may_be_last: bool) -> Expelled:
    """Remove a role's access to a project. It keeps what it has fetched.

    Raises ServerRefused if the role does not exist, or the login is not an admin of the project; without `may_be_last`
    LastAdmin for the only admin.
    """
    with explained_refusal(server, project), server.transaction() as connection:
        before = [Member(*row) for row in ask(connection, "members", MEMBER, project=project)]
        others = [one for one in before if one.role != role]
        has_no_admin = bool(before) and not any([one.is_admin for one in others])
        was_member = ask_one(connection, "expel", bool, project=project, role=role, may_be_last=may_be_last)
        if not was_member and connection.execute(EXISTS, {"role": role}).fetchone() == (0,):
            raise ServerRefused(f"the role {escape(role)} does not exist", hint=HINT_NO_ROLE)
        asked = {"role": role, "roles": [one.role for one in others]}
        found = connection.execute(GROUPS_OF, asked).fetchall()
    return Expelled(was_member, sorted([str(row[0]) for row in found]), has_no_admin and was_member)


@contextmanager
def explained_refusal(server: Server, project: str | None = None) -> Iterator[None]:
    """Set the hint of a refusal in a block: of a role that does not exist, and of a login that may not do it.

    With a `project`, raises ServerRefused if the login does not see it.
    """
    try:
        yield
    except ServerRefused as error:
        if error.data.get("sqlstate") == LAST_ADMIN:
            hint = "make another one with `faber-ledger db admit --admin ROLE`, or add --yes: then the owner admits"
            raise LastAdmin(error.message, hint=hint) from None
        if error.data.get("sqlstate") == NOT_ACCEPTED:
            error.hint = "`faber-ledger db invite` makes a new code: until it is used, the old one is the password"
        elif error.data.get("sqlstate") == NO_ROLE:
            error.hint = HINT_NO_ROLE
        elif error.data.get("sqlstate") == NO_RIGHT and project is None:
            error.hint = "the owner of the database does it, or grants you EXECUTE on faber_ledger.add_project"
        elif error.data.get("sqlstate") == NO_RIGHT and project is not None:
            if time_made(server, project) is None:
                message = f"the role {server.role} sees no project {project} on this server"
                raise ServerRefused(message, hint=admission(server)) from None
            error.hint = (
                "an admin of the project (`faber-ledger db members` names them) or the owner of the database does it"
            )
        raise


def quote_role(role: str) -> str:
    """Return a role's name quoted for SQL, with control characters escaped."""
    name = escape(role).replace('"', '""')
    return f'"{name}"'


def list_members(server: Server, project: str) -> list[Member]:
    """Return the roles that see a project, sorted; none if the login does not see it."""
    return sorted([Member(*row) for row in server.ask("members", MEMBER, project=project)])


# Invitations: a code is the login's first password, good once; after 24 hours the login sees no project by it.

SCRAM = b"scram-sha-256"


def invite(server: Server, project: str, role: str, *, as_admin: bool) -> str:
    """Make a login for a newcomer to a project, and return its code for `team join`.

    A login that has not accepted yet gets a new code. Raises ServerRefused if another role has the name, or this login
    may not create roles or is not an admin of the project.
    """
    code = secrets.token_urlsafe(12)
    asked: dict[str, Any] = {"project": project, "role": role, "as_admin": as_admin}
    try:
        with explained_refusal(server, project), server.transaction() as connection:
            create = "CREATE ROLE {} LOGIN CONNECTION LIMIT 20 IN ROLE faber_ledger_member PASSWORD {}"
            connection.execute(_statement(connection, create, role, code))
            ask_one(connection, "invite", bool, **asked)
    except ServerRefused as error:
        if error.data.get("sqlstate") != TAKEN:
            raise
        error.hint = "`faber-ledger db admit` lets a login that exists see the project; `DROP ROLE` ends an old one"
        with explained_refusal(server, project), server.transaction() as connection:
            if not ask_one(connection, "invite", bool, **asked):
                raise
            connection.execute(_statement(connection, "ALTER ROLE {} PASSWORD {}", role, code))
    return code


def accept(address: Address, code: str, save: Callable[[str], None]) -> list[str]:
    """Accept the invitation of the address's login; return the projects that it sees by it.

    `save` keeps the login's new password, before the server takes it. Raises what it raises, ServerUnavailable where
    the code is not the login's password, and ServerRefused where no invitation waits.
    """
    password = secrets.token_urlsafe(24)
    with_code = Address(address.parameters | {"password": code})
    with _opened_by_code(with_code) as server, server.transaction() as connection:
        name = "accept_invitation"
        projects = [str(project) for (project,) in ask(connection, name, {name: str})]
        if not projects:
            raise ServerRefused(
                f"no invitation waits for {server.role}: it was accepted, or is older than 24 hours",
                hint=f"ask for another one, which `faber-ledger db invite {quote_word(server.role)}` makes",
            )
        connection.execute(_statement(connection, "ALTER ROLE {} PASSWORD {}", server.role, password))
        save(password)
    return projects


@contextmanager
def _opened_by_code(address: Address) -> Iterator[Server]:
    """Open a server with a code as the password; raises as `open_server`, with a hint about a code that is refused."""
    try:
        with open_server(address, writing=True) as server:
            yield server
    except ServerUnavailable as error:
        if USED_PASSWORD in error.data:
            again = f"faber-ledger db invite {quote_word(address.parameters['user'])}"
            error.hint = f"the code is wrong, or was used: ask for another one, which `{again}` makes"
        raise


def _statement(connection: Connection, template: str, role: str, password: str) -> sql.Composed:
    """Return a statement that sets a role's password by its verifier, so that no log of the server has the password."""
    from psycopg import sql

    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), SCRAM).decode()
    return sql.SQL(template).format(sql.Identifier(role), verifier)
