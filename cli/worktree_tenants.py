"""What else lies in a worktree's folder and would go with it: other worktrees, repositories, and other runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli import worktree_git
from faber_ledger.cli.worktree_survey import record_of, with_run
from faber_ledger.runs import progress
from faber_ledger.runs.active import holder_elsewhere
from faber_ledger.runs.run import find_run, run_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.worktree_survey import Site
    from faber_ledger.runs.worktree_registry import Record

BARE = {"HEAD", "objects", "refs"}


def nested(site: Site) -> list[str]:
    """Say which worktrees of the clone and which other repositories lie in a worktree's folder; raises GitFailed.

    Git itself looks into no folder that it ignores. A folder that cannot be looked into is told: anything may be in it.
    """
    top = os.path.realpath(site.tree.path)
    inside = os.path.join(top, "")
    trees = [os.path.realpath(tree.path) for tree in worktree_git.trees(site.tree.path)]
    lying = sorted(path for path in trees if path.startswith(inside))
    found = [f"a worktree lies in it: {path}" for path in lying]
    unread: list[str] = []
    found += [f"a repository lies in it: {path}" for path in _repositories(top, unread) if path not in lying]
    return found + [f"nobody can tell what is in it: {path} cannot be read" for path in unread]


def _repositories(top: str, unread: list[str]) -> Iterator[str]:
    """Give the folders below `top` that are repositories; those that cannot be read are added to `unread`."""
    for at, folders, files in os.walk(top, onerror=lambda error: unread.append(str(error.filename))):
        names = {*folders, *files}
        if at == top:
            folders[:] = [name for name in folders if name != ".git"]
        elif ".git" in names or names >= BARE:
            folders.clear()  # what lies in it goes or stays with it
            yield at


def other_runs(site: Site, records: list[Record], *, named: bool) -> Iterator[str]:
    """Say which other runs of a worktree are not at their end: those that were recorded in it and go on nowhere else.

    What merely came with a commit has no lock file. The run that an orphan was for counts no more once it is `named`.
    """
    record = record_of(site, records)
    given_up = record["workflow_run_id"] if record and named and site.orphan else None
    for run_id in run_ids(site.root):
        is_ours = run_id != site.run_id and os.path.exists(find_run(site.root, run_id).lock_path)
        if not is_ours or holder_elsewhere(site.root, run_id) is not None:
            continue
        other = with_run(site._replace(session=None, problem=None), run_id)
        if other.session is not None and other.session != site.session:
            yield f"the session {other.session} is open on another run in it, {run_id}"
        if other.problem is not None:
            yield f"another run in it, {run_id}: {other.problem}"
        elif other.status not in progress.FINISHED and run_id != given_up:
            yield f"another run in it, {run_id}, is {other.status}"
