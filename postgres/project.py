"""Projects on the server: which the login sees, which of them a word means, and which runs of one have news."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from faber_ledger.ledger.command_errors import NotFound, ServerRefused
from faber_ledger.postgres.tables import EVENT, PROJECT

if TYPE_CHECKING:
    from faber_ledger.postgres.server import Server


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
        made = connection.execute(select(PROJECT.c.created_at).where(PROJECT.c.id == project)).scalar()
    return None if made is None else str(made.timestamp())


def open_project(server: Server, project: str, name: str, *, writing: bool) -> str:
    """Return as `find_project`; with `writing`, a project that nobody has is made first.

    Raises ServerRefused if the login does not see the project.
    """
    made = find_project(server, project)
    if made is None and writing:
        with server.transaction() as connection:
            connection.execute(select(func.faber_ledger.register_project(project, name[:255])))
        made = find_project(server, project)
    if made is None:
        raise ServerRefused(
            f"the role {server.role} sees no project {project} on this server",
            hint="`faber-ledger sync --push` makes a new one; into one that is there its admin lets you in:"
            " `faber-ledger db admit ROLE`",
        )
    return made


def newest_event(server: Server, project: str, run_id: str | None = None) -> tuple[int, str] | None:
    """Return position and id of the newest event of a project, or of a run in it; None without one."""
    question = select(EVENT.c.position, EVENT.c.id).where(EVENT.c.project == project)
    if run_id is not None:
        question = question.where(EVENT.c.run_id == run_id)
    with server.transaction() as connection:
        found = connection.execute(question.order_by(EVENT.c.position.desc()).limit(1)).one_or_none()
    return None if found is None else (found[0], found[1])


def list_runs(server: Server, project: str, after: int, upto: int) -> list[str]:
    """Return the ids of the runs that have events at positions after `after` up to `upto`, in order."""
    with server.transaction() as connection:
        question = select(EVENT.c.run_id).distinct().where(EVENT.c.project == project)
        news = question.where(EVENT.c.position > after, EVENT.c.position <= upto)
        return sorted(connection.execute(news).scalars())


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
