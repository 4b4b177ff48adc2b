"""What else is at work in a work tree: other runs of the project, and other projects of the repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.worktrees.survey import record_of, with_run
from faber_ledger.runs import progress
from faber_ledger.runs.active import active_run
from faber_ledger.runs.git import other_roots, project_key
from faber_ledger.runs.layouts import find_run, run_ids
from faber_ledger.runs.tree_note import TreeNote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.worktrees.survey import Site
    from faber_ledger.runs.worktree_registry import Record


def find_projects(top: str) -> list[str]:
    """Return the folders of a work tree that are projects, without those in repositories of their own."""
    found = []
    for at, folders, files in os.walk(top):
        names = {*folders, *files}
        if at != top and ".git" in names:
            folders.clear()
            continue
        if ".fractary" in folders:
            found.append(at)
        folders[:] = [name for name in folders if name not in (".git", ".fractary")]
    return found


def active_elsewhere(root: str, run_id: str) -> str | None:
    """Return the project's root in another worktree that has a run's files and in which it is active; None if none."""
    for other in other_roots(root):
        if active_run(other, by_author=False).run_id == run_id and find_run(other, run_id).is_recorded():
            return other
    return None


def list_other_runs(site: Site, records: list[Record], *, named: bool) -> Iterator[str]:
    """Return which other runs of a worktree are unfinished: those recorded in it that are active in no other worktree.

    A run that merely came with a commit was not recorded on here. The run of an orphan does not count if it is `named`.
    """
    record = record_of(site, records)
    given_up = record["workflow_run_id"] if record and named and site.orphan else None
    for run_id in run_ids(site.root):
        is_ours = run_id != site.run_id and TreeNote(find_run(site.root, run_id)).checkpoint is not None
        if not is_ours or active_elsewhere(site.root, run_id) is not None:
            continue
        other = with_run(site._replace(session=None, problem=None), run_id)
        if other.session is not None and other.session != site.session:
            yield f"the session {other.session} is open on another run in it, {run_id}"
        if other.problem is not None:
            yield f"another run in it, {run_id}: {other.problem}"
        elif other.status not in progress.FINISHED and run_id != given_up:
            yield f"another run in it, {run_id}, is {other.status}"


def list_other_projects(site: Site, roots: list[str]) -> Iterator[str]:
    """Return which other projects of the repository have an open session, or a run at work, in a worktree.

    `roots` are the projects that are in its folder.
    """
    others = {key: root for root in roots if (key := project_key(root)) != project_key(site.root)}
    for root in others.values():
        name = _name_folder(root, site.tree.path)
        active = active_run(root, by_author=False)
        is_read = active.run_id is not None and find_run(root, active.run_id).has_files()
        blank = site._replace(root=root, run_id=None, status=None, session=None, problem=None, orphan=None)
        there = with_run(blank, active.run_id or "") if is_read else blank
        if there.session is not None:
            yield f"the session {there.session} of {name} is open"
        if there.problem is not None:
            yield f"the run {there.run_id} of {name}: {there.problem}"
        elif is_read and there.status not in progress.FINISHED:
            yield f"the run {there.run_id} of {name} is {there.status}"
        for reason in list_other_runs(there, [], named=False):
            yield f"{name}: {reason}"


def _name_folder(root: str, top: str) -> str:
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    return "the project at the top" if inside == os.curdir else f"the project {inside}"
