"""`faber-ledger db`: the schema of the team's server, and who sees this project there."""

import os

import click

from faber_ledger.cli.ui.output import json_option, say, show, warn
from faber_ledger.cli.ui.server import server_address, url_option
from faber_ledger.cli.ui.words import table
from faber_ledger.ledger.command_errors import ServerRefused, StillSeen
from faber_ledger.postgres import project as projects
from faber_ledger.postgres.address import HINTS, NO_RIGHT
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.run import find_root
from faber_ledger.runs.settings import project_id


@click.group(short_help="Set up the team's server.")
def db() -> None:
    """Set up the team's server: its schema, and who sees this project."""


@db.command(short_help="Make or upgrade the schema.")
@url_option
@json_option
def upgrade(url: str | None, as_json: bool) -> None:
    """Make or upgrade the schema on the server, in one transaction. No ledger file is touched.

    A superuser runs it, or a role that owns the database and may create roles; later
    the schema's owner, or any superuser where that is one.

    \b
    Example: faber-ledger db upgrade --url postgresql://owner@db.example.com/ledger
    Exit codes: 0 done, or nothing to do; 1 failed; 2 wrong usage, or no server is named;
    12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    from faber_ledger.migrations.upgrade import upgrade_server  # loads Alembic, which is expensive

    with open_server(server_address(url), writing=True, has_schema=False, patience=None) as server:
        try:
            with server.transaction() as connection:
                outcome = upgrade_server(connection)
        except ServerRefused as error:
            if error.hint == HINTS[NO_RIGHT]:  # the server has no better one
                error.hint = "a superuser runs it, or a role that owns the database and has CREATEROLE"
            raise
    line = f"upgraded the server from revision {outcome.before or 'none'} to {outcome.after}"
    if outcome.before == outcome.after:
        line = f"the server is already at revision {outcome.after}"
    show(outcome._asdict(), [line], as_json=as_json)


@db.command(short_help="Let a role see this project.")
@click.argument("role")
@click.option("--admin", is_flag=True, help="Let the role admit and expel others, too.")
@url_option
@json_option
def admit(role: str, admin: bool, url: str | None, as_json: bool) -> None:
    """Let ROLE, a login of the database or a group of logins, see this project on the server.

    An admin of the project runs it, as is who pushed first, or the owner of the database.
    An admin who is admitted again stays one: `db expel` takes that right, too.

    \b
    Example: faber-ledger db admit bob
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage, or no server is named;
    12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    with open_server(server_address(url), writing=True) as server:
        may_use = projects.admit(server, project := project_id(find_root(os.getcwd())), role, as_admin=admin)
    data = {"project": project, "role": role, "admin": admin, "may_use_tables": may_use}
    show(data, [f"{role} sees this project{', and admits others' if admin else ''}"], as_json=as_json)
    if not may_use and not as_json:
        say(f"note: {role} cannot use the server without the role faber_ledger_member: the database's owner runs")
        say(f"  GRANT faber_ledger_member TO {projects.quote_role(role)};")


@db.command(short_help="Let a role see it no more.")
@click.argument("role")
@click.option("--yes", is_flag=True, help="Expel the only admin, too.")
@url_option
@json_option
def expel(role: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Let ROLE see this project on the server no more. What it has fetched it keeps.

    Whoever sees it because a group is admitted is taken out of the group, in `psql`. The only admin is
    expelled with --yes alone: then only the owner of the database admits and expels.

    \b
    Example: faber-ledger db expel bob
    Exit codes: 0 done, or it did not see it; 1 it still sees it, by a group or as a superuser, or is the
    only admin, or the project has no id yet; 2 wrong usage, or no server is named; 12 the server's schema
    is newer; 13 the server cannot be reached; 14 it refuses.
    """
    with open_server(server_address(url), writing=True) as server:
        done = projects.expel(server, project := project_id(find_root(os.getcwd())), role, may_be_last=yes)
    if done.has_no_admin:
        warn("this project has no admin now: the owner of the database runs `faber-ledger db admit --admin ROLE` here")
    data = {"project": project, "role": role, "was_member": done.was_member, "through": done.through}
    if done.through:
        what = f"still sees this project: it has the rights of {', '.join(done.through)}"
        raise StillSeen(
            f"{role} is no longer a member itself, but {what}" if done.was_member else f"{role} {what}",
            hint="in `psql`, REVOKE takes it out of a group; a superuser sees every project",
            data=data,
        )
    line = f"{role} no longer sees this project" if done.was_member else f"{role} was not admitted"
    show(data, [line], as_json=as_json)


@db.command("members", short_help="List who sees this project.")
@url_option
@json_option
def list_members(url: str | None, as_json: bool) -> None:
    """List the roles that see this project on the server.

    \b
    Example: faber-ledger db members
    Exit codes: 0 shown; 1 the project has no id yet; 2 wrong usage, or no server is
    named; 12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses,
    or you do not see the project.
    """
    with open_server(server_address(url)) as server:
        found = projects.list_members(server, project := project_id(find_root(os.getcwd())))
        if not found:
            raise ServerRefused(
                f"the role {server.role} sees no project {project} on this server", hint=projects.admission(server)
            )
    rows = [[one.role, "admin" if one.is_admin else "member"] for one in found]
    lines = table([["ROLE", "IS"], *rows])
    show({"project": project, "members": [one._asdict() for one in found]}, lines, as_json=as_json)
