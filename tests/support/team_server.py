"""Clones of a project on several machines, and the server that they share."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from psycopg.rows import dict_row

from faber_ledger.ledger.encoding import COLUMNS, canonical, compute_hash
from faber_ledger.ledger.log import Log
from faber_ledger.postgres.ask import MOST_EVENTS
from support.command import COMMAND, Command
from support.folders import make_folder
from support.forged_events import add_head, forged_row
from support.project import RUN, Project, heed_interrupts
from support.server_rows import put

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from support.postgres import Database

FORGED = "01KE0000000000000000000001"

MANY = 2 * MOST_EVENTS  # events, for a push of two whole batches


class Team:
    """Three clones of one project, whose members share a login of the server."""

    def __init__(self, database: Database, clones: list[Project]) -> None:
        self.database = database
        self.clones = clones
        self.login = database.login()
        self.url = database.url(self.login)
        settings = json.loads((clones[0].root / ".fractary/faber/ledger.json").read_text())
        self.project: str = settings["project"]
        database.add_project(self.project, self.login)

    def sync(self, clone: Project, *words: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `sync` in a clone, and leave out what it says at the clone's first exchange."""
        done = clone.faber("sync", *words, env={"FABER_LEDGER_URL": url or self.url})
        said = done.stderr.splitlines(keepends=True)
        done.stderr = "".join([line for line in said if not line.startswith("this clone's first exchange")])
        return done

    def synced(self, clone: Project, *words: str) -> dict[str, Any]:
        """Run `sync` in a clone, which must not warn; return what it says of the one run."""
        done = self.sync(clone, "--json", *words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        data = json.loads(done.stdout)["data"]
        assert "warnings" not in data, data
        (run,) = data["runs"]
        return dict(run)

    def export(self, clone: Project, run_id: str = RUN) -> bytes:
        """Return what `export` writes of a run."""
        done = clone.faber("export", run_id)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.encode()

    def rows(self) -> list[dict[str, Any]]:
        """Return all events on the server, in the order of their positions."""
        with self.database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("SELECT * FROM faber_ledger.event ORDER BY position").fetchall()

    def forged(self, clone: Project, text: str = "FORGED", **changes: Any) -> dict[str, Any]:
        """Return a note's row after a clone's newest event, as a member could make one."""
        payload = canonical({"kind": "note", "text": text, "phase": None, "step": None})
        row = forged_row(clone.ledger_path, **{"payload": payload, **changes})
        return dict(zip(COLUMNS, row, strict=True))

    def forge_into(self, clone: Project, **changes: Any) -> dict[str, Any]:
        """Put a forged row into a clone's own ledger, and return it."""
        row = self.forged(clone, **changes)
        add_head(clone.ledger_path, tuple(row.values()))
        return row

    def put(self, row: dict[str, Any], run_id: str = RUN) -> None:
        """Push a row whatever it says, as a member may."""
        with self.database.connect(self.login) as connection:
            put(connection, self.project, tuple(row[name] for name in COLUMNS), run_id=run_id)


MACHINES = {"first": "dev-machine-1", "second": "laptop", "third": "ci"}


@cache
def _clones() -> Path:
    """Make the project with a session and a note in its run, and two clones of it, once a process."""
    folder = make_folder()
    first = Project.noted(folder / "first")
    for name in ("second", "third"):
        first.clone(folder / name, MACHINES[name])
    return folder


def made_team(database: Database, folder: Path) -> Team:
    """Make a team of three clones, with a session and a note in the run."""
    for name in MACHINES:
        shutil.copytree(_clones() / name, folder / name, symlinks=True)
        config = folder / name / ".git/config"
        config.write_text(config.read_text().replace(str(_clones()), str(folder)))
    return Team(database, [Project(folder / name, hostname=host) for name, host in MACHINES.items()])


def start_of(run_id: str, name: str = FORGED, **changes: Any) -> dict[str, Any]:
    """Return the row of a start without a parent, as its own hash says."""
    payload = canonical({"run_id": run_id, "workflow_id": "w", "work_id": None})
    envelope = (1, name, "run_started", 1, "2026-01-05T14:30:22Z", "f" * 32, None, None)
    row = (*envelope, b"", bytes(16), payload, None)
    return {**dict(zip(COLUMNS, (*row, compute_hash((*row, None))), strict=True)), **changes}


def with_hash(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "hash": compute_hash(tuple(row.values()))}


def fresh(team: Team, folder: Path) -> Project:
    """Make the project on another machine, which has none of the team's runs."""
    project = Project.made(folder, run_id="another-run")
    project.write(".fractary/faber/ledger.json", (team.clones[0].root / ".fractary/faber/ledger.json").read_bytes())
    return project


def fill(clone: Project, count: int) -> int:
    """Append notes to a clone's log; return how many events it has then."""
    with Log.open(str(clone.ledger_path), "OFF") as log:
        drafts = [
            {"event": {"type": "note_recorded", "kind": "note", "text": f"note {n}", "phase": None, "step": None}}
            for n in range(count)
        ]
        log.append(drafts, at=1_800_000_000.0, writer="e" * 32)  # type: ignore[arg-type]  # they are drafts
        log.commit()
        return len(list(log.stream()))


def started(clone: Project, url: str, *words: str, command: str = "sync") -> subprocess.Popen[str]:
    """Start a command in a clone, which knows the server at a URL."""
    return Command(
        [COMMAND, command, *words],
        cwd=clone.root,
        env=clone.environment({"FABER_LEDGER_URL": url}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_batch(connection: psycopg.Connection[tuple[Any, ...]], after: int = 0) -> int:
    """Wait until the server has more than `after` events, as a connection in autocommit sees it; return how many."""
    latest = time.monotonic() + 60
    while True:
        ((count,),) = connection.execute("SELECT count(*) FROM faber_ledger.event").fetchall()
        if count > after:
            return int(count)
        assert time.monotonic() < latest, f"no more than {count} events"


class Watching:
    """A command that goes on until it is interrupted, or until the test ends, of which single lines are read."""

    def __init__(self, project: Project, url: str | None, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [COMMAND, *command],
            cwd=project.root,
            env=project.environment({"FABER_LEDGER_URL": url, **environment}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=heed_interrupts,  # noqa: PLW1509  # a test's process may have been started in the background
        )

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def next_line(self) -> str:
        return read_line(self.process.stdout)

    def said(self) -> str:
        return read_line(self.process.stderr)

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code, and what was said since."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors.decode()


def read_line(stream: IO[bytes] | None, seconds: float = 60) -> str:
    """Return the next line, byte by byte, so that none waits in a buffer."""
    assert stream is not None
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([stream], [], [], seconds)[0], f"nothing after {line!r}"
        piece = os.read(stream.fileno(), 1)
        assert piece, f"it has ended after {line!r}"
        line += piece
    return line.decode()
