"""What the page shows of the runs of a project: read again only where a file has changed."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from faber_ledger.cli.reports.run_list import RunFacts, list_runs, read_facts
from faber_ledger.cli.reports.search import Hit, group_newest, search_run
from faber_ledger.ledger.errors import InvalidRunId, RunNotFound
from faber_ledger.runs.kept import run_here, runs_here
from faber_ledger.runs.log import read_log
from faber_ledger.runs.seen import shape_of
from faber_ledger.runs.state_file import read_state

if TYPE_CHECKING:
    from faber_ledger.cli.page.team import Team
    from faber_ledger.cli.ui.attention import Filters, Row
    from faber_ledger.files.word_query import WordQuery
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

LOOK_SECONDS = 0.4  # between two looks at the files


class Project:
    """The runs of a project on this machine."""

    def __init__(self, root: str, title: str) -> None:
        self.title = title
        self._root = root
        self._read: dict[str, tuple[str, RunFacts]] = {}
        self._looked: tuple[float, object] = (0.0, None)
        self._lock = threading.Lock()

    def list_rows(self, filters: Filters) -> list[Row]:
        """Return the runs that fit, as `run list` describes them, newest first."""
        return list_runs(self._root, filters, self._facts_of)

    def _facts_of(self, run: Run) -> RunFacts:
        version = _version_of(run)
        known = self._read.get(run.run_id)
        if known is None or known[0] != version:
            known = self._read[run.run_id] = version, read_facts(run)
        return known[1]

    def open_log(self, run_id: str) -> AbstractContextManager[Log]:
        """Open a run's log; raises RunNotFound, LedgerError."""
        return read_log(self._find(run_id))

    def state_of(self, run_id: str) -> dict[str, Any]:
        """Return a run's state, empty if there is none; raises LedgerError if it cannot be read."""
        run = self._find(run_id)
        return read_state(run).value if os.path.lexists(run.state_path) else {}

    def search(self, query: WordQuery, limit: int) -> tuple[list[list[Hit]], bool]:
        """Return the newest hits by run, and whether there are more."""
        return group_newest((hit for run in runs_here(self._root) for hit in search_run(run, query, _ignore)), limit)

    def version_of(self, run_id: str) -> str:
        """Return what changes whenever the run does."""
        return _version_of(self._find(run_id))

    def version(self) -> object:
        """Return what changes whenever one of the runs does; several readers look at the files together."""
        with self._lock:
            at, found = self._looked
            if time.monotonic() - at >= LOOK_SECONDS:
                found = [(run.run_id, _version_of(run)) for run in runs_here(self._root)]
                self._looked = time.monotonic(), found
            return found

    def _find(self, run_id: str) -> Run:
        with suppress(InvalidRunId):
            found = run_here(self._root, run_id)
            if found.is_recorded() or os.path.lexists(found.state_path):
                return found
        raise RunNotFound(f"no run {run_id} here")


Source: TypeAlias = Union[Project, "Team"]  # where the page's runs are


def _version_of(run: Run) -> str:
    return f"{shape_of(run.log_path)} {shape_of(run.state_path)}"


def _ignore(_: str) -> None:
    """Leave out what cannot be read: the run's own view says so."""
