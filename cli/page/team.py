"""What the page shows of the runs of a team's server."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.reports.run_list import describe_found
from faber_ledger.cli.reports.search import Hit, group_newest, search_server
from faber_ledger.ledger.encoding import loads_object
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, write_rows
from faber_ledger.postgres.exchange import describe_state, fetch_new, fetch_state
from faber_ledger.postgres.fleet import find_runs
from faber_ledger.postgres.project import choose_projects, list_projects, newest_event
from faber_ledger.postgres.server import Server, listening, open_server

if TYPE_CHECKING:
    from faber_ledger.cli.ui.attention import Filters, Row
    from faber_ledger.files.word_query import WordQuery
    from faber_ledger.postgres.address import Address

EVERY_SECONDS, RETRY_SECONDS = 30.0, 2.0  # between two looks by the clock; before a lost server is asked again
MOST_LOGS = 8  # that are kept


class Team:
    """The runs of a team's server; what a run's log has is fetched into a temporary file, through the gate."""

    def __init__(self, address: Address, project: str | None, root: str) -> None:
        """Take the server's address, the wanted project, and the folder in which the program was started."""
        self._address, self._wanted, self._root = address, project, root
        self._logs: dict[str, tuple[str, str]] = {}  # of each run the version that was fetched, and its file
        self._lock = threading.Lock()
        self._version = 0
        with self._open_server() as (server, names):
            self.title = ", ".join(names.values()) or server.role
        self._folder = tempfile.mkdtemp(prefix="faber-ledger-")
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _open_server(self) -> Iterator[tuple[Server, dict[str, str]]]:
        """Yield the server, and the names of the projects that are shown; raises as `open_server`."""
        with open_server(self._address) as server:
            names = list_projects(server)
            yield server, {project: names[project] for project in choose_projects(names, self._wanted)}

    def _listen(self) -> None:
        is_lost = False
        while True:
            try:
                with self._open_server() as (server, names), listening(server) as listener:
                    is_lost = False
                    while True:
                        self._version += 1
                        listener.wait(names, EVERY_SECONDS)
            except LedgerError:  # each view says why, and until the server is back nothing else changes
                self._version += not is_lost
                is_lost = True
                time.sleep(RETRY_SECONDS)

    def list_rows(self, filters: Filters) -> list[Row]:
        """Return the runs that fit, as `fleet` describes them, newest first."""
        with self._open_server() as (server, names):
            rows = (describe_found(one, filters, self._root, server.role) for one in find_runs(server, list(names)))
            return [row for row in rows if filters.fit(row)]

    @contextmanager
    def open_log(self, run_id: str) -> Iterator[Log]:
        """Open a run's log; raises RunNotFound, LedgerError."""
        with self._lock:
            log = Log.read(self._fetch(run_id))  # before another thread removes the file
        with log:
            yield log

    def _fetch(self, run_id: str) -> str:
        version = self.version_of(run_id)
        known, path = self._logs.pop(run_id, ("", ""))
        if known != version:
            old = os.path.dirname(path)
            path = os.path.join(tempfile.mkdtemp(dir=self._folder), "log.db")
            with self._open_server() as (server, names):
                project = self._project_of(server, names, run_id)
                with closing(fetch_new(server, project, run_id, 0, (), lambda _: None)) as fetched:
                    write_rows(Passing([fetched.log]), path)
            shutil.rmtree(old, ignore_errors=True)  # who still reads it has its file open
        self._logs[run_id] = version, path
        while len(self._logs) > MOST_LOGS:
            _, path_before = self._logs.pop(next(iter(self._logs)))
            shutil.rmtree(os.path.dirname(path_before), ignore_errors=True)
        return path

    def _project_of(self, server: Server, names: dict[str, str], run_id: str) -> str:
        for project in names:
            if newest_event(server, project, run_id) is not None:
                return project
        raise RunNotFound(f"the server shows you no run {run_id}")

    def state_of(self, run_id: str) -> dict[str, Any]:
        """Return a run's state, empty if there is none that can be parsed; raises RunNotFound, LedgerError."""
        with self._open_server() as (server, names):
            found = fetch_state(server, self._project_of(server, names, run_id), run_id)
        return loads_object(found[0]) if found is not None else {}

    def search(self, query: WordQuery, limit: int) -> tuple[list[list[Hit]], bool]:
        """Return the newest hits by run, and whether there are more."""
        with self._open_server() as (server, names):
            return group_newest(search_server(server, query, list(names), limit), limit)

    def version_of(self, run_id: str) -> str:
        """Return what changes whenever the run does."""
        with self._open_server() as (server, names):
            project = self._project_of(server, names, run_id)
            return f"{newest_event(server, project, run_id)} {describe_state(server, project, run_id)}"

    def version(self) -> object:
        """Return what changes whenever one of the runs does."""
        return self._version
