"""Bring a run, or the state.json that this clone lacks, from the team's server: `run resume`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.sync.exchange import exchange_run
from faber_ledger.cli.ui.progress import progress_bars
from faber_ledger.cli.ui.server import pick_server_run, server_address
from faber_ledger.cli.ui.words import events_shown
from faber_ledger.ledger.errors import LedgerError, RunNotFound
from faber_ledger.postgres.project import Remote, open_project
from faber_ledger.postgres.server import open_server
from faber_ledger.recording.insertion import write_blocks
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger
from faber_ledger.runs.projecting import DEFAULTS
from faber_ledger.runs.settings import project_id
from faber_ledger.runs.synced import note_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


def bring_run(root: str, text: str, url: str | None, warn: Callable[[str], None]) -> str:
    """Fetch a run of the server, named by its id or the beginning, and return its id.

    What a fetch that is cut lacks comes with the next one. Raises RunNotFound and LedgerError.
    """
    project = project_id(root)
    with open_server(server_address(url)) as server:
        remote = Remote(server, project, f"{project} {open_project(server, project, '', writing=False)}")
        run_id = pick_server_run(server, project, text)
        run = run_here(root, run_id)
        if run.is_kept and not os.path.lexists(run.state_path):
            run = find_run(root, run_id)  # its log came without a state
        _check_folder(run)
        with progress_bars() as progress:
            found = exchange_run(remote, run, fetches=True, pushes=False, warn=warn, progress=progress)
    note_project(root, project)
    if lacks_ledger(run):
        raise RunNotFound(
            f"the server has no event of {run_id} that a ledger takes",
            hint=f"run `faber-ledger sync {run_id}` to see why",
        )
    if found.left_out:
        count = events_shown(len(found.left_out))
        warn(f"{run_id}: {count} of the server left out: `faber-ledger sync {run_id}` says why")
    if write_blocks(run, warn=warn, defaults=DEFAULTS):
        raise LedgerError(
            f"the run {run_id} was brought, and its state.json was not written",
            hint=f"run `faber-ledger project {run_id}`",
        )
    return run_id


def _check_folder(run: Run) -> None:
    """Raise LedgerError if a link stands in the place of the run's folder, or of one above it in the project."""
    place = os.path.join(os.path.realpath(run.root), os.path.relpath(run.directory, run.root))
    if not run.is_kept and os.path.realpath(run.directory) != place:
        raise LedgerError(
            f"a link stands in the place of {run.shown(run.directory)}", hint="remove the link, then run it again"
        )
