"""Remove the worktrees of finished runs, unless something would be lost with them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.survey import Site, read_session
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.fold import NAMES
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_run, run_ids
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.publish import stopped_command
from faber_ledger.runs.run import Run, common_directory, forget_work_trees
from faber_ledger.runs.tree_note import TreeNote

HERE = "you are in it"
BARE = {"HEAD", "objects", "refs"}


def list_blockers(site: Site, here: str, *, named: bool) -> list[str]:
    """Return the reasons against removing a worktree; `named` means that the user gave it by name."""
    if site.tree.is_main:
        return ["it is the main work tree"]
    if site.problem is not None:
        return [site.problem]
    if site.run_id is None:
        return ["no run is in it: `git worktree remove` is for worktrees of other work"]
    found = [HERE] if _is_below(here, site.tree.path) else []
    if site.tree.locked is not None:
        found.append(f"it is locked: {site.tree.locked}; `git worktree unlock` unlocks it")
    if site.status not in progress.FINISHED:
        found.append(f"its run is {site.status}")
    if not named and site.record is not None and site.record.get("auto_cleanup") is False:
        found.append("its record says `auto_cleanup: false`, so it is removed only by name")
    try:
        return [*found, *_list_losses(site)]
    except (LedgerError, sqlite3.Error) as error:
        return [*found, getattr(error, "message", str(error))]


def list_costs(site: Site) -> list[str]:
    """Return what removing a worktree deletes, and what of its run is handed back; raises GitFailed."""
    ours = os.path.join(os.path.relpath(os.path.join(site.root, ".fractary"), site.tree.path), "")
    names = [name for name in git.list_ignored(site.tree) if not name.startswith(ours)]
    left = _plan_hand_back(site, git.list_changes(site.tree))
    return [
        *([f"files that git ignores are removed with it: {', '.join(names)}"] if names else []),
        *([_describe(left)] if left else []),
    ]


def clean_up(site: Site, here: str, *, named: bool, dry_run: bool, warn: Callable[[str], None]) -> dict[str, Any]:
    """Remove one worktree unless something speaks against it, and return what was done and why.

    `here` is the user's folder; `named` means that the user gave this worktree by name.
    """
    why = list_blockers(site, here, named=named)
    action = "kept" if why else "would be removed" if dry_run else "removed"
    if not why:
        try:
            merged = f"{site.tree.branch or 'its commit'} is merged into {_merged_base(site)}"
            why = [f"its run is {site.status}, and {merged}", *list_costs(site)]
            if not dry_run:
                _remove(site, common_directory(here) or here, warn)
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


def _is_below(folder: str, top: str) -> bool:
    return os.path.join(os.path.realpath(folder), "").startswith(os.path.join(os.path.realpath(top), ""))


def _merged_base(site: Site) -> str | None:
    return git.find_base_containing(site.tree.head, site.tree.path) if site.tree.head else None


def _remove(site: Site, common: str, warn: Callable[[str], None]) -> None:
    """Remove a worktree with git, which checks for uncommitted work once more; raises GitFailed."""
    left = _plan_hand_back(site, git.list_changes(site.tree))
    if left is not None:
        _hand_back(site, left, warn)
    git.git(f"--git-dir={common}", "worktree", "remove", "--", site.tree.path, at=common)
    forget_work_trees()


# What would be lost


def _list_losses(site: Site) -> Iterator[str]:
    """Return what would be lost with a worktree, or would lose its folder; raises GitFailed and LedgerError."""
    tree, changed = site.tree, git.list_changes(site.tree)
    left = _plan_hand_back(site, changed)
    changed = [name for name in changed if left is None or name not in left.names]
    roots, nested = _look_into(tree.path)
    yield from _list_sessions(site, roots)
    if changed:
        yield f"uncommitted work: {_join_some(changed)}"
    work_tree = work_tree_of(tree.path)
    if operation := stopped_command(work_tree) if work_tree else None:
        end = "reset" if operation == "bisect" else "--abort"
        yield f"a {operation} is in progress in it: finish it, or `git {operation} {end}`"
    if ignored := _list_ignored_runs(tree, roots):
        yield f"git ignores {_join_some(ignored)}: copy the run's folder, then `git worktree remove`"
    if tree.head is not None and _merged_base(site) is None:
        yield f"{tree.branch or 'its commit'} is not merged"
    yield from nested


def _join_some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _list_sessions(site: Site, roots: list[str]) -> Iterator[str]:
    """Return the open sessions of the runs that were recorded on in a worktree, also of its other projects."""
    for root in roots:
        for run_id in run_ids(root):
            run = find_run(root, run_id)
            if (root, run_id) == (site.root, site.run_id):
                session = site.session
            else:
                session = read_session(run)[0] if TreeNote(run).checkpoint is not None else None
            if session is not None:
                yield f"the session {session} of the run {run_id} is open"


def _list_ignored_runs(tree: git.Tree, roots: list[str]) -> list[str]:
    paths = [path for root in roots for run_id in run_ids(root) for path in find_run(root, run_id).required_paths]
    names = [os.path.relpath(path, tree.path) for path in paths if os.path.lexists(path)]
    ignored = git.list_ignored(tree) if names else []
    folders = tuple([entry for entry in ignored if entry.endswith("/")])
    return sorted([name for name in names if name in ignored or name.startswith(folders)])


def _look_into(top: str) -> tuple[list[str], list[str]]:
    """Return the projects in a worktree, and what else is in it: repositories, worktrees, and unreadable folders.

    Git itself does not look into ignored folders. An unreadable folder is reported: anything may be in it.
    """
    roots: list[str] = []
    found: list[str] = []
    unread = "its content is not readable: {}"
    for at, folders, files in os.walk(top, onerror=lambda error: found.append(unread.format(error.filename))):
        names = {*folders, *files}
        if at != top and (".git" in names or names >= BARE):
            folders.clear()  # what is in it goes or stays with it
            found.append(f"a repository or worktree is in it: {at}")
            continue
        if ".fractary" in folders:
            roots.append(at)
        folders[:] = [name for name in folders if name != ".git"]
    return roots, found


# What a run's own files received after the merge of its branch


class HandBack(NamedTuple):
    """What to hand back: the changed files, by their names in the worktree, and the changed members of the state."""

    run: Run
    home: Run
    names: list[str]
    members: dict[str, Any]


def _plan_hand_back(site: Site, changed: list[str]) -> HandBack | None:
    """Return what of a merged worktree's run is handed back to its copy in the main one; None if nothing can be.

    A run is still written after the merge: `run finish` completes its state, and the session ends. The log is the
    clone's; the state goes back only if nothing else changed it in the main work tree meanwhile.
    """
    work_tree = work_tree_of(site.root)
    if site.run_id is None or work_tree is None or work_tree.main is None or _merged_base(site) is None:
        return None
    try:
        run = find_run(site.root, site.run_id)
        inside = os.path.relpath(site.root, work_tree.top)
        home = find_run(os.path.normpath(os.path.join(work_tree.main, inside)), site.run_id)
        own = {os.path.relpath(path, work_tree.top): path for path in (run.state_path, run.ledger_path)}
        names = [name for name in changed if name in own]
        if not names or not all([os.path.isfile(path) for path in (*own.values(), home.state_path, home.ledger_path)]):
            return None
        committed = state_file.parse_state(run, git.git("show", f"HEAD:{next(iter(own))}", at=site.tree.path))
        members = _changed_members(run, home, committed.value)
    except LedgerError:
        return None  # an unreadable state is not moved
    return None if members is None else HandBack(run, home, names, members)


def _changed_members(run: Run, home: Run, committed: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state's members, except our blocks, changed since the commit; None if they cannot be handed back."""
    last, there = state_file.read_state(run).value, state_file.read_state(home).value
    for state in (committed, last, there):
        for name in NAMES:
            state.pop(name, None)
    if there not in (committed, last) or committed.keys() - last.keys():
        return None
    return {name: value for name, value in last.items() if name not in committed or committed[name] != value}


def _describe(plan: HandBack) -> str:
    """Return what is handed back and where, as a line."""
    return f"its run's last events are handed back: commit {plan.home.shown(plan.home.directory)} in {plan.home.root}"


def _hand_back(site: Site, plan: HandBack, warn: Callable[[str], None]) -> None:
    """Write state and ledger in the main work tree, and check out the committed files here."""
    for run in (plan.run, plan.home):
        record_before_projecting(run, now(), warn=warn)
    with lock_run(plan.home):
        state_write.write_members(plan.home, plan.members, warn=warn)
    reproject(plan.home, rebuild=True, warn=warn)  # both work trees have one log
    literal = [f":(literal){name}" for name in plan.names]
    git.git("checkout", "--quiet", "HEAD", "--", *literal, at=site.tree.path)
