"""Projects on the server: which the login sees, which of them a word means, and which runs of one have news."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.files.text import quote_word
from faber_ledger.ledger.command_errors import NotFound, ServerRefused
from faber_ledger.postgres.ask import absurd_answer, ask
from faber_ledger.postgres.server_errors import NO_RIGHT

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server


REGISTER = "SELECT faber_ledger.register_project(%(project)s, %(name)s)"
# As the server's own function of that name, which only the keeper may call.
IS_OWNER = """\
SELECT pg_catalog.pg_has_role(session_user, nspowner, 'USAGE') OR pg_catalog.pg_has_role(session_user, datdba, 'USAGE')
FROM pg_catalog.pg_namespace, pg_catalog.pg_database
WHERE nspname OPERATOR(pg_catalog.=) 'faber_ledger'::name AND datname OPERATOR(pg_catalog.=) current_database()"""
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
    """Return what a login does that does not see a project; the owner of the database admits himself and others."""
    role = quote_word(server.role)
    with server.transaction() as connection:
        (is_owner,) = connection.execute(IS_OWNER).fetchone() or (False,)
    if is_owner:
        return (
            "you own the database: `faber-ledger db admit ROLE` lets a role see it, as yours; after a backup was"
            " restored on another server, `SELECT project, role FROM faber_ledger.member` in `psql` says who saw it."
            " If it has not been pushed yet, `faber-ledger sync` makes it"
        )
    return (
        f"ask an admin of the project for `faber-ledger db admit {role}`; if nobody has pushed it yet,"
        " `faber-ledger sync` makes it, and who does is its admin"
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
                role = quote_word(server.role)
                error.hint = f"ask an admin of the project for `faber-ledger db admit {role}`"
            raise
        made = find_project(server, project)
    if made is None:
        raise ServerRefused(
            f"the role {server.role} sees no project {project} on this server",
            hint=admission(server),
        )
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
