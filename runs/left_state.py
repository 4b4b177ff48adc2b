"""The state of a run that git took out of the work tree, as a branch has it.

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
from faber_ledger.runs.clone import keep_state, mirror_path, read_state_copy, state_copy_path
from faber_ledger.runs.git import GitQuery
from faber_ledger.runs.kept import runs_here
from faber_ledger.runs.progress import ACTIVE
from faber_ledger.runs.run import LARGEST_STATE, find_run

MOST_COMMITS = 3  # of all local branches since the copy was written: one may have removed the run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.files.json_text import JsonText
    from faber_ledger.runs.run import Run


def runs_in_clone(root: str) -> list[Run]:
    """Return the runs that this clone has, as `runs_here` does.

    Of those that the work tree lacks and that are at work, the copy of the state is brought up to date first.
    """
    runs = runs_here(root)
    for run in runs:
        if run.is_kept and _is_at_work(run):
            bring_copy_up_to_date(find_run(root, run.run_id))
    return runs


def _is_at_work(run: Run) -> bool:
    try:
        return state_file.read_state(run).value.get("status") in ACTIVE
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
