"""What else is at work in a work tree: other runs of the project, and other projects of the repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.survey import open_session_in, record_of, with_run
from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.runs import progress
from faber_ledger.runs.active import active_run, claimed_in_worktree
from faber_ledger.runs.active_file import CLAIM_BYTES, CLAIM_FILE, first_line
from faber_ledger.runs.git import clone_folder, project_key, work_tree_of
from faber_ledger.runs.run import LEDGER, find_root, find_run, is_run_id, run_ids

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


def list_other_runs(site: Site, records: list[Record], *, named: bool) -> Iterator[str]:
    """Return which other runs of a worktree are unfinished: those recorded in it that no other worktree has claimed.

    A run that merely came with a commit has no lock file. The run of an orphan does not count if it is `named`.
    """
    record = record_of(site, records)
    given_up = record["workflow_run_id"] if record and named and site.orphan else None
    for run_id in run_ids(site.root):
        is_ours = run_id != site.run_id and os.path.exists(find_run(site.root, run_id).lock_path)
        if not is_ours or claimed_in_worktree(site.root, run_id) is not None:
            continue
        other = with_run(site._replace(session=None, problem=None), run_id)
        if other.session is not None and other.session != site.session:
            yield f"the session {other.session} is open on another run in it, {run_id}"
        if other.problem is not None:
            yield f"another run in it, {run_id}: {other.problem}"
        elif other.status not in progress.FINISHED and run_id != given_up:
            yield f"another run in it, {run_id}, is {other.status}"


def list_other_projects(site: Site, roots: list[str], here: str) -> Iterator[str]:
    """Return which other projects of the repository have an open session, or a run at work, in a worktree.

    `roots` are the projects that are in its folder. Of a run that git took away, or whose folder does not exist, the
    clone's mirror knows the session; `here` is a folder in another work tree of the clone.
    """
    own = project_key(find_root(here))
    others = {key: root for root in roots if (key := project_key(root)) != project_key(site.root)}
    for root in others.values():
        name = _name_folder(root, site.tree.path)
        active = active_run(root)
        is_read = active.run_id is not None and active.is_worked_on and find_run(root, active.run_id).has_files()
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
    for key, run_id in _read_claims(site, here).items():
        if key == own or (key in others and find_run(others[key], run_id).has_files()):
            continue
        kept = os.path.join("projects", key) if key else ""
        session = open_session_in(os.path.join(clone_folder(here) or "", kept, "runs", run_id, LEDGER))
        if session is not None:
            yield f"the session {session} of {_name_project(key, here)} is open, on its run {run_id}"


def _read_claims(site: Site, here: str) -> dict[str, str]:
    """Return the runs that the worktree's projects have claimed, by the keys of the projects."""
    admin, found = git.own_directory(site.tree, None if site.is_there else here), {}
    for name in sorted(os.listdir(admin)) if admin else ():
        if name == CLAIM_FILE or name.startswith(f"{CLAIM_FILE}-"):
            try:
                run_id = first_line(read_regular(os.path.join(admin or "", name), CLAIM_BYTES))
            except (FileRefused, OSError, ValueError):
                continue
            if is_run_id(run_id):
                found[name.removeprefix(CLAIM_FILE).removeprefix("-")] = run_id
    return found


def _name_project(key: str, here: str) -> str:
    """Return the name of a project that may not be in the worktree, from the folders of the user's own work tree."""
    tree = work_tree_of(here)
    roots = [root for root in find_projects(tree.top) if project_key(root) == key] if tree else []
    names = [_name_folder(root, tree.top) for root in roots] if tree else []
    return names[0] if names else "another project"


def _name_folder(root: str, top: str) -> str:
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    return "the project at the top" if inside == os.curdir else f"the project {inside}"
