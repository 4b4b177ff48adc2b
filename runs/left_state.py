"""The runs that this clone has beside those of the work tree, and their state as a branch has it.

FABER commits a run when it has finished it, and checks main out: no hook of ours runs in between. What the commit says
is then newer than the copy of `state.json` that this clone keeps. 0.1.0 kept no copy at all.
"""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import now, seconds_of
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.log import Log
from faber_ledger.projections.blocks import blocks_of
from faber_ledger.projections.fold import fold
from faber_ledger.runs import state_file
from faber_ledger.runs.clone import is_empty, keep_state, mirror_path, read_state_copy, state_copy_path
from faber_ledger.runs.git import GitQuery
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.progress import ACTIVE
from faber_ledger.runs.run import LARGEST_STATE, LEDGER, find_run, is_run_id, kept_runs_folder, run_ids

MOST_COMMITS = 3  # of all local branches since the copy was written: one may have removed the run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.files.json_text import JsonText
    from faber_ledger.runs.run import Run


def run_ids_here(root: str) -> list[str]:
    """Return the ids of the runs that this clone has: those of the work tree, and those that it keeps, sorted."""
    return sorted({*run_ids(root), *kept_run_ids(root)})


def runs_here(root: str) -> list[Run]:
    """Return the runs that this clone has, each as `run_here` does, by their ids; raises InvalidRunId.

    A run that the work tree lacks may be of another branch or work tree, or deleted: the clone keeps it until
    `run forget`.
    """
    runs = [find_run(root, run_id) for run_id in run_ids(root)]
    there = {run.run_id for run in runs}
    for run_id in kept_run_ids(root):
        if run_id not in there and (here := run_here(root, run_id)).is_kept:
            runs.append(here)
    return sorted(runs, key=lambda run: run.run_id)


def kept_run_ids(root: str) -> Iterator[str]:
    """Yield the ids of the runs that have a mirror in this clone which is not an empty file, sorted; none without git.

    No link is followed.
    """
    kept = kept_runs_folder(root)
    for folder, folders, files in os.walk(kept or ""):
        folders.sort()
        run_id = os.path.relpath(folder, kept).replace(os.sep, "/")
        path = os.path.join(folder, LEDGER)
        if LEDGER in files and is_run_id(run_id) and os.path.isfile(path) and not is_empty(path):
            yield run_id


def refresh_runs_here(root: str) -> list[Run]:
    """Bring the states of kept runs at work up to date, and return the runs as `runs_here` does."""
    runs = runs_here(root)
    for run in runs:
        if run.is_kept and _is_at_work(run):
            bring_copy_up_to_date(find_run(root, run.run_id))
    return runs


def _is_at_work(run: Run) -> bool:
    try:
        return state_file.look_at_state(run).value.get("status") in ACTIVE
    except LedgerError:
        return True  # nothing is known of it


def bring_copy_up_to_date(run: Run) -> None:
    """Write the copy of a run's state from the newest commit of a local branch, if it is newer.

    The work tree lacks the run. Our own blocks stay as the copy has them; a missing copy gets them from the mirror.
    Whatever cannot be read leaves the copy as it is, and so does a state that was updated before it.
    """
    path = state_copy_path(run)
    if path is None:
        return
    try:
        written = os.stat(path).st_mtime if os.path.lexists(path) else 0.0
        for commit in _commits_since(run, written):
            content = _read_state(run, commit)
            if content is not None:
                if content != read_state_copy(run):
                    keep_state(run, content)
                break
        if 0 < written < now():
            os.utime(path)  # looked at until now
    except (LedgerError, OSError, sqlite3.Error):
        return


def _commits_since(run: Run, written: float) -> list[str]:
    """Return the commits of local branches that have changed the run's state since, newest first."""
    since = (f"--max-age={int(written)}", f"--max-count={MOST_COMMITS}")
    asked = ["rev-list", *since, "--branches", "--", run.shown(run.state_path)]
    return (GitQuery(asked, run.root).answer() or "").split()


def _read_state(run: Run, commit: str) -> bytes | None:
    """Return a run's state in a commit, with the blocks of the copy; None if it is older. Raises LedgerError."""
    asked = ["cat-file", "blob", f"{commit}:./{run.shown(run.state_path)}"]
    committed, copy = GitQuery(asked, run.root, limit=LARGEST_STATE).answer_bytes(), read_state_copy(run)
    if committed is None:
        return None
    state = state_file.parse_state(run, committed)
    if copy is None:
        with Log.read(mirror_path(run) or "") as log:
            return state.with_members(dict(fold(log.stream()))).encode()
    kept = state_file.parse_state(run, copy)
    if _updated(state) < _updated(kept):
        return None
    return state.with_members(dict(blocks_of(kept.value))).encode()


def _updated(state: JsonText) -> float:
    return seconds_of(state.value.get("updated_at")) or 0.0
