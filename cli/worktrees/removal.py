"""Remove the worktrees of finished runs, unless something would be lost with them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any

from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.survey import Site, read_session
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import progress
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_runs
from faber_ledger.runs.publish import stopped_command
from faber_ledger.runs.run import common_directory, forget_work_trees
from faber_ledger.runs.tree_note import TreeNote

BARE = {"HEAD", "objects", "refs"}


def clean_up(site: Site, here: str, *, named: bool, dry_run: bool) -> dict[str, Any]:
    """Remove one worktree unless something speaks against it, and return what was done and why.

    `here` is the user's folder; `named` means that the user gave this worktree by name.
    """
    try:
        why = _list_blockers(site, here, named=named)
        action = "kept" if why else "would be removed" if dry_run else "removed"
        if not why:
            merged = f"{site.tree.branch or 'its commit'} is merged into {git.find_base_containing(site.tree)}"
            why = [f"its run is {site.status}, and {merged}", *_list_costs(site)]
            if not dry_run:
                common = common_directory(here) or here
                # Git checks for uncommitted work once more.
                git.git(f"--git-dir={common}", "worktree", "remove", "--", site.tree.path, at=common)
                forget_work_trees()
    except (LedgerError, sqlite3.Error) as error:
        action, why = "kept", [getattr(error, "message", str(error))]
    return {"path": site.tree.path, "run_id": site.run_id, "branch": site.tree.branch, "action": action, "why": why}


def cleanup_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    """Return what was done with each worktree, and why, as lines."""
    if not results:
        yield "no worktree of this clone has a run of its own"
    for result in results:
        yield f"{result['action']}: {result['path']} ({result['run_id'] or 'no run'})"
        yield from [f"  {reason}" for reason in result["why"]]
        if result["action"] == "removed" and result["branch"]:
            yield f"  the branch {result['branch']} stays; `git branch -d` removes a merged one"


def _list_blockers(site: Site, here: str, *, named: bool) -> list[str]:
    """Return the reasons against removing a worktree; raises GitFailed and LedgerError."""
    if site.tree.is_main:
        return ["it is the main work tree"]
    if site.problem is not None:
        return [site.problem]
    if site.run_id is None:
        return ["no run is in it: `git worktree remove` is for worktrees of other work"]
    found = ["you are in it"] if _is_below(here, site.tree.path) else []
    if site.tree.locked is not None:
        found.append(f"it is locked: {site.tree.locked}; `git worktree unlock` unlocks it")
    if site.status not in progress.FINISHED:
        found.append(f"its run is {site.status}")
    if not named and site.record is not None and site.record.get("auto_cleanup") is False:
        found.append("its record says `auto_cleanup: false`, so it is removed only by name")
    return [*found, *_list_losses(site)]


def _is_below(folder: str, top: str) -> bool:
    return os.path.join(os.path.realpath(folder), "").startswith(os.path.join(os.path.realpath(top), ""))


def _list_losses(site: Site) -> Iterator[str]:
    """Return what would be lost with a worktree; raises GitFailed and LedgerError."""
    tree, (roots, repositories) = site.tree, _look_into(site.tree.path)
    yield from _list_sessions(site, roots)
    if changed := git.list_changes(tree):
        yield f"uncommitted work: {_join_some(changed)}; commit and merge it first"
    work_tree = work_tree_of(tree.path)
    if operation := stopped_command(work_tree) if work_tree else None:
        end = "reset" if operation == "bisect" else "--abort"
        yield f"a {operation} is in progress in it: finish it, or `git {operation} {end}`"
    if ignored := _list_ignored_runs(tree, roots):
        yield f"git ignores {_join_some(ignored)}: copy the run's folder, then `git worktree remove`"
    if git.find_base_containing(tree) is None:
        yield f"{tree.branch or 'its commit'} is not merged"
    yield from [f"a repository or worktree is in it: {path}" for path in repositories]


def _join_some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _list_sessions(site: Site, roots: list[str]) -> Iterator[str]:
    """Return the open sessions of the runs that were recorded on in a worktree, also of its other projects."""
    for root in roots:
        for run in find_runs(root):
            is_active = (root, run.run_id) == (site.root, site.run_id)
            session = read_session(run)[0] if is_active or TreeNote(run).checkpoint is not None else None
            if session is not None:
                yield f"the session {session} of the run {run.run_id} is open"


def _list_ignored_runs(tree: git.Tree, roots: list[str]) -> list[str]:
    paths = [path for root in roots for run in find_runs(root) for path in run.required_paths if os.path.lexists(path)]
    names, ignored = [os.path.relpath(path, tree.path) for path in paths], git.list_ignored(tree)
    folders = tuple([entry for entry in ignored if entry.endswith("/")])
    return sorted([name for name in names if name in ignored or name.startswith(folders)])


def _look_into(top: str) -> tuple[list[str], list[str]]:
    """Return the projects in a worktree, and its inner repositories: git does not look into ignored folders."""
    roots: list[str] = []
    repositories: list[str] = []
    for at, folders, files in os.walk(top):
        names = {*folders, *files}
        if at != top and (".git" in names or names >= BARE):
            folders.clear()  # what is in it goes or stays with it
            repositories.append(at)
        elif ".fractary" in folders:
            roots.append(at)
        folders[:] = [name for name in folders if name != ".git"]
    return roots, repositories


def _list_costs(site: Site) -> list[str]:
    """Return what is deleted with a worktree although git ignores it; raises GitFailed."""
    ours = os.path.join(os.path.relpath(os.path.join(site.root, ".fractary"), site.tree.path), "")
    names = [name for name in git.list_ignored(site.tree) if not name.startswith(ours)]
    return [f"files that git ignores are removed with it: {', '.join(names)}"] if names else []
