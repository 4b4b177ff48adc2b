"""Runs of a project on a test's server, put there by plain statements of a member, and what commands see there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.encoding import ROW
from faber_ledger.ledger.log import Log
from support import server_rows
from support.server_rows import put

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.postgres import Database, Login
    from support.project import Project

FIRST, SECOND = "01K7AAAAAAAAAAAAAAAAAAAAAA", "01K7BBBBBBBBBBBBBBBBBBBBBB"  # ids of projects
REDACTIONS = "SELECT id FROM faber_ledger.event WHERE type = 'event_redacted'"


def register(database: Database, login: Login, project_id: str = FIRST, name: str = "shop") -> None:
    """Make a project of a login."""
    database.add_project(project_id, login, name)


def put_run(database: Database, login: Login, project: Project, run_id: str, project_id: str = FIRST) -> None:
    """Put the events of a run that the server lacks, and its state; tell who listens, as `sync` does."""
    run = project.root / ".fractary/runs" / run_id
    with Log.read(str(run / "ledger.db")) as log:
        rows = log.connection.execute(f"{ROW} ORDER BY seq, id").fetchall()
    with database.connect(login) as connection:
        put(connection, project_id, *rows, run_id=run_id)
    state = run / "state.json"
    if state.exists():
        put_state(database, login, run_id, state.read_text(), project_id)
    with database.connect(login) as connection:
        connection.execute("SELECT faber_ledger.tell_readers(%s)", [project_id])


def put_state(database: Database, login: Login, run_id: str, content: str, project_id: str = FIRST) -> None:
    """Put a state on the server, in place of what it has."""
    with database.connect() as connection:
        known = [name for (name,) in connection.execute(REDACTIONS)]
    with database.connect(login) as connection:
        assert server_rows.put_state(connection, project_id, content, "9", *known, run_id=run_id)  # as new as can be


def put_project(
    database: Database, login: Login, project: Project, project_id: str = FIRST, name: str = "shop"
) -> None:
    """Make a project and put all its runs there."""
    register(database, login, project_id, name)
    for ledger in sorted((project.root / ".fractary/runs").glob("*/ledger.db")):
        put_run(database, login, project, ledger.parent.name, project_id)


def asked(project: Project, url: str, *arguments: str, code: int = 0) -> Any:
    """Return the data, or the error, of a command that asks the server named by the environment."""
    done = project.faber(*arguments, "--json", env={"FABER_LEDGER_URL": url})
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)["data"] if code == 0 else json.loads(done.stderr)["error"]


def runs_of(data: Any) -> list[str]:
    """Return the ids of the runs in an answer."""
    rows: Iterable[dict[str, Any]] = data["runs"]
    return [row["run_id"] for row in rows]
