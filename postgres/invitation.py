"""Invite somebody to a project on the server, and accept: a code is the login's first password, good once.

After 24 hours the login sees no project by it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from faber_ledger.ledger.command_errors import ServerRefused
from faber_ledger.postgres.address import Address
from faber_ledger.postgres.ask import Connection, ask
from faber_ledger.postgres.project import explained_refusal
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from psycopg import sql

INVITE = "SELECT faber_ledger.invite(%(project)s, %(role)s, %(as_admin)s)"
TAKEN = "42710"  # SQLSTATE
SCRAM = b"scram-sha-256"


def invite(server: Server, project: str, role: str, *, as_admin: bool) -> str:
    """Make a login for a newcomer to a project, and return the code with which it is taken over.

    Raises ServerRefused if the role exists, or this login may not create roles or is no admin of the project.
    """
    code = secrets.token_urlsafe(12)
    try:
        with explained_refusal(server, project), server.transaction() as connection:
            create = "CREATE ROLE {} LOGIN IN ROLE faber_ledger_member PASSWORD {}"
            connection.execute(_statement(connection, create, role, code))
            connection.execute(INVITE, {"project": project, "role": role, "as_admin": as_admin})
    except ServerRefused as error:
        if error.data.get("sqlstate") == TAKEN:
            error.hint = "`faber-ledger db admit` lets a login that exists see the project; `DROP ROLE` ends an old one"
        raise
    return code


def accept(address: Address, code: str) -> tuple[list[str], str]:
    """Accept the invitation of the address's login; return the projects that it sees by it, and its new password.

    Raises ServerUnavailable where the code is not the login's password, and ServerRefused where no invitation waits.
    """
    password = secrets.token_urlsafe(24)
    with_code = Address(address.parameters | {"password": code})
    with open_server(with_code, writing=True) as server, server.transaction() as connection:
        name = "accept_invitation"
        projects = [str(project) for (project,) in ask(connection, name, {name: str})]
        if not projects:
            raise ServerRefused(
                f"no invitation waits for {server.role}: it was accepted, or is older than 24 hours",
                hint="ask for another one",
            )
        connection.execute(_statement(connection, "ALTER ROLE {} PASSWORD {}", server.role, password))
    return projects, password


def _statement(connection: Connection, template: str, role: str, password: str) -> sql.Composed:
    """Return a statement about a role's password, of which the server and its log see the verifier alone."""
    from psycopg import sql

    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), SCRAM).decode()
    return sql.SQL(template).format(sql.Identifier(role), verifier)
