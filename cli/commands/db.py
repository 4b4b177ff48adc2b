"""`faber-ledger db`: the schema of the team's server, and who sees and decides what in this project there."""

import os
import signal
from contextlib import suppress

import click

from faber_ledger.cli.setup.membership import run_steps, save_configuration, save_password
from faber_ledger.cli.ui.output import say, show, warn
from faber_ledger.cli.ui.server import server_address, server_options
from faber_ledger.cli.ui.words import table
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import NotFound, ServerRefused, StillSeen
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres import project as projects
from faber_ledger.postgres.address import NO_RIGHT, VARIABLE, Address
from faber_ledger.postgres.local import LocalServer, serve_locally
from faber_ledger.postgres.server import open_server
from faber_ledger.runs.carry import join_server
from faber_ledger.runs.run import find_root, state_base
from faber_ledger.runs.settings import project_id, project_settings, read_user_config


@click.group()
def db() -> None:
    """Set up the team's server: its schema, and who sees this project."""


@db.command(short_help="Make or upgrade the schema.")
@server_options
def upgrade(url: str | None, as_json: bool) -> None:
    """Make or upgrade the schema on the server, in one transaction. No ledger file is touched.

    A superuser runs it, or a role that owns the database and may create roles; later the schema's owner.

    \b
    Example: faber-ledger db upgrade --url postgresql://owner@db.example.com/ledger
    Exit codes: 0 done, or nothing to do; 1 failed; 2 wrong usage;
    12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    from faber_ledger.migrations.upgrade import upgrade_server  # loads Alembic, which is expensive

    with open_server(server_address(url), writing=True, has_schema=False, patience=None) as server:
        try:
            with server.transaction() as connection:
                outcome = upgrade_server(connection)
        except ServerRefused as error:
            if error.data.get("sqlstate") == NO_RIGHT:
                error.hint = "a superuser runs it, or a role that owns the database and has CREATEROLE"
            raise
    line = f"upgraded the server from revision {outcome.before or 'none'} to {outcome.after}"
    if outcome.before == outcome.after:
        line = f"the server is already at revision {outcome.after}"
    show(outcome._asdict(), [line], as_json=as_json)


@db.command(short_help="Run a local server, for a try.")
@click.option("--port", type=click.IntRange(1024, 65535), default=54329, show_default=True, help="On loopback.")
def serve(port: int) -> None:
    """Run a server on this machine until Ctrl-C, for a try; it answers this machine alone, and wants a password.

    It makes this project, with you as its admin, writes the password to ~/.pgpass and the URL to your configuration,
    sends this clone's runs and shows the fleet. A project without an id is set up first. Its data stay in
    ~/.local/state/faber-ledger/server, from which it starts again. It needs the extra `server`.

    \b
    Example: faber-ledger db serve
    Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 it does not start, or the extra is missing; 2 wrong usage; 11 it runs
    already.
    """
    root = find_root(os.getcwd())
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        serve_locally(os.path.join(state_base(), "faber-ledger", "server"), port) as server,
    ):
        _set_up(root, server)
        say(f"serving {server.address} until Ctrl-C; in another shell:")
        say("  faber-ledger db invite NAME")
        server.wait()
    say("the server has ended; `faber-ledger db serve` starts it again")


def _set_up(root: str, server: LocalServer) -> None:
    """Make schema and project, the user's files and this clone ready; a step of the last that fails is a warning."""
    from faber_ledger.migrations.upgrade import upgrade_server  # loads Alembic, which is expensive

    save_password(server.address, server.password)
    is_named = (os.environ.get(VARIABLE) or read_user_config()["url"]) in (None, server.url)
    if is_named:
        save_configuration(server.url, [server.role])
    if project_settings(root, os.environ).project is None:
        run_steps(root, [["init"]], say)
    with open_server(server.address, writing=True, has_schema=False) as opened, opened.transaction() as connection:
        upgrade_server(connection)
    with open_server(server.address, writing=True) as opened:
        name = project_id(root)
        projects.add_project(opened, name, os.path.basename(root) or name, server.role)
    if is_named:
        join_server(root, server_address(None).digest())
    try:
        run_steps(root, [["sync", "--all"], ["fleet", "--no-pager"]], say, server.url)
    except LedgerError as error:
        warn(f"{error.message}: {error.hint}")
    if not is_named:
        say(f"you have named another server; where you try this one: export {VARIABLE}='{server.url}'")


@db.command(short_help="Let a role see this project.")
@click.argument("role")
@click.option("--admin", is_flag=True, help="Let the role admit and expel others, too.")
@server_options
def admit(role: str, admin: bool, url: str | None, as_json: bool) -> None:
    """Let ROLE, a login of the database or a group of logins, see this project on the server.

    An admin of the project runs it, or the owner of the database.
    An admin who is admitted again stays one: `db expel` takes that right, too.

    \b
    Example: faber-ledger db admit bob
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached; 14 it refuses.
    """
    with open_server(server_address(url), writing=True) as server:
        may_use = projects.admit(server, project := project_id(find_root(os.getcwd())), role, as_admin=admin)
    data = {"project": project, "role": role, "admin": admin, "may_use_tables": may_use}
    show(data, [f"{role} sees this project{', and admits others' if admin else ''}"], as_json=as_json)
    if not may_use and not as_json:
        say(f"note: {role} cannot use the server without the role faber_ledger_member: the database's owner runs")
        say(f"  GRANT faber_ledger_member TO {projects.quote_role(role)};")


@db.command("invite", short_help="Make a login for a newcomer.")
@click.argument("name")
@click.option("--admin", is_flag=True, help="Let the newcomer admit and expel others, too.")
@server_options
def invite_login(name: str, admin: bool, url: str | None, as_json: bool) -> None:
    """Make the login NAME, and print a code for `team join`, good once and for 24 hours.

    The owner of the database runs it, or an admin of the project who may create roles.

    \b
    Example: faber-ledger db invite ben
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached; 14 it refuses.
    """
    if not name:
        raise click.UsageError("the name is empty")
    address = server_address(url)
    with open_server(address, writing=True) as server:
        code = projects.invite(server, project := project_id(find_root(os.getcwd())), name, as_admin=admin)
    theirs = Address({**address.parameters, "user": name})
    data = {"project": project, "role": name, "admin": admin, "code": code, "url": theirs.with_options}
    lines = [f"{code}", f"  is {name}'s code, good once and for 24 hours. In a clone of the project {name} runs:"]
    show(data, [*lines, f"  faber-ledger team join {quote_word(theirs.with_options)}"], as_json=as_json)


@db.command(short_help="Stop a role from seeing it.")
@click.argument("role")
@click.option("--yes", is_flag=True, help="Expel the only admin, too; then the database's owner decides alone.")
@server_options
def expel(role: str, yes: bool, url: str | None, as_json: bool) -> None:
    """Stop ROLE from seeing this project on the server. It keeps what it has fetched.

    Whoever sees it through a group is taken out of the group, in `psql`.

    \b
    Example: faber-ledger db expel bob
    Exit codes: 0 done, or it did not see it; 1 it still sees it, is the only admin, or the project
    has no id yet; 2 wrong usage; 12 the server's schema
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
@server_options
def list_members(url: str | None, as_json: bool) -> None:
    """List the roles that see this project on the server.

    \b
    Example: faber-ledger db members
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached; 14 it refuses.
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


@db.group(short_help="Make this project on the server.")
def project() -> None:
    """Make this project on the server."""


@project.command("add", short_help="Make this project, with an admin.")
@click.option("--admin", required=True, metavar="ROLE", help="Who admits others to the project.")
@server_options
def add_project(admin: str, url: str | None, as_json: bool) -> None:
    """Make this project on the server, with the login ROLE as its admin. Nothing is pushed.

    The owner of the database runs it, or a role that he grants EXECUTE on faber_ledger.add_project.

    \b
    Example: faber-ledger db project add --admin ann
    Exit codes: 0 done, or it is there; 1 the project has no id yet; 2 wrong usage;
    12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    root = find_root(os.getcwd())
    name = project_id(root)
    with open_server(server_address(url), writing=True) as server:
        is_new = projects.add_project(server, name, os.path.basename(root) or name, admin)
    line = f"made project {name}, with {admin} as its admin"
    if not is_new:
        how = f"faber-ledger db admit --admin {quote_word(admin)}"
        line = f"the server has project {name} already, and its admins are as before: `{how}` adds one"
    show({"project": name, "is_new": is_new}, [line], as_json=as_json)


@db.command(short_help="Give a clone to a login.")
@click.argument("writer")
@click.argument("role")
@server_options
def rebind(writer: str, role: str, url: str | None, as_json: bool) -> None:
    """Bind the clone with the id WRITER to the login ROLE. A clone is bound to the first login that used it.

    An admin of the project runs it.

    \b
    Example: faber-ledger db rebind 01M8556RJFTK48M85Z46CAN2DY ann
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 12 the server's schema
    is newer; 13 the server cannot be reached; 14 it refuses.
    """
    with open_server(server_address(url), writing=True) as server:
        sees = projects.rebind_clone(server, name := project_id(find_root(os.getcwd())), writer, role)
    if not sees:
        warn(f"note: {role} does not see this project: `faber-ledger db admit {quote_word(role)}` lets it")
    show({"project": name, "writer": writer, "role": role}, [f"clone {writer} is {role}'s"], as_json=as_json)


@db.command(short_help="Put back what a redaction removed.")
@click.argument("event")
@server_options
def restore(event: str, url: str | None, as_json: bool) -> None:
    """Put back on the server the payload of EVENT, a whole id, within 30 days of its redaction.

    An admin of the project runs it. A clone shows it again after `faber-ledger redact --undo`.

    \b
    Example: faber-ledger db restore 01M8556RJFTK48M85Z46CAN2DY
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 10 nothing of it
    is kept; 12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    _change_removed("restore_event", event, "put back: the payload of {} in {}", url, as_json)


@db.command(short_help="Remove a redacted payload for good.")
@click.argument("event")
@server_options
def purge(event: str, url: str | None, as_json: bool) -> None:
    """Remove at once the redacted payload of EVENT that the server keeps for 30 days.

    An admin of the project runs it.

    \b
    Example: faber-ledger db purge 01M8556RJFTK48M85Z46CAN2DY
    Exit codes: 0 done; 1 the project has no id yet; 2 wrong usage; 10 nothing of it
    is kept; 12 the server's schema is newer; 13 the server cannot be reached; 14 it refuses.
    """
    _change_removed("purge_event", event, "removed for good: the payload of {} in {}", url, as_json)


def _change_removed(function: str, event: str, line: str, url: str | None, as_json: bool) -> None:
    with open_server(server_address(url), writing=True) as server:
        runs = projects.change_removed(server, function, name := project_id(find_root(os.getcwd())), event)
    if not runs:
        raise NotFound(f"the server keeps nothing of the event {event}", hint="give the whole id of a redacted event")
    show({"project": name, "event": event, "runs": runs}, [line.format(event, run) for run in runs], as_json=as_json)
