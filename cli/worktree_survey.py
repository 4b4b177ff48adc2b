"""What stands in each worktree of a clone: its run, its session, its size, and what speaks against removing it."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli import worktree_git
from faber_ledger.cli.git import GitFailed
from faber_ledger.context import state as states
from faber_ledger.context import worktrees as registry
from faber_ledger.context.client_settings import unanswered
from faber_ledger.context.git import place_of
from faber_ledger.context.holding import is_inherited
from faber_ledger.context.project import find_run, named_run
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.projections import blocks as shape
from faber_ledger.projections.fold import fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.cli.worktree_git import Tree
    from faber_ledger.context.worktrees import Record

HERE = "you are in it"
INACTIVE_DAYS = 30
DAY = 24 * 60 * 60
RECORDED = {"completed": "completed", "failed": "failed", "cancelled": "abandoned"}


class Site(NamedTuple):
    """A work tree and the run that is active in it; `orphan` is a reason of the registry's, `why` the same in words."""

    tree: Tree
    root: str
    run_id: str | None
    work_id: str | None
    status: str | None
    phase: str | None
    session: str | None
    problem: str | None
    last_event: str | None
    bytes: int | None
    without_hooks: list[str]
    orphan: str | None
    why: str | None

    @property
    def is_there(self) -> bool:
        """Tell whether the folder is there."""
        return self.tree.why_gone is None and os.path.isdir(self.tree.path)


def survey(root: str, *, at: float, days: int, records: list[Record]) -> list[Site]:
    """Look at every work tree of the clone; raises GitFailed and NoWorkTree."""
    worktree_git.require_work_tree(root)
    place = place_of(root)
    inside = os.path.relpath(root, place.top) if place else "."
    return [
        _site(tree, os.path.normpath(os.path.join(tree.path, inside)), at, days, records)
        for tree in worktree_git.trees(root)
    ]


def keep(
    root: str, *, at: float, warn: Callable[[str], None], days: int = INACTIVE_DAYS, created_by: str = "manual"
) -> tuple[list[Site], list[Record]]:
    """Look at the worktrees and bring the registry up to date; raises GitFailed, NoWorkTree.

    A registry that cannot be written is told to `warn`: it is an overview, and the runs are elsewhere.
    """
    path = registry.registry_path(root)
    try:
        known = registry.read_records(path) if path else []
    except registry.MalformedRegistry:
        known = []  # `update` keeps the file aside, and tells it
    sites = survey(root, at=at, days=days, records=known)
    seen = [record for site in sites if (record := _record(site, root, created_by))]
    seen += _former(sites, known, {record["workflow_run_id"] for record in seen})
    there = {site.tree.path for site in sites}

    def present(folder: str) -> bool:
        return folder in there or os.path.isdir(folder)

    try:
        return sites, registry.update(
            root, lambda records: registry.merged(records, seen, at=at, present=present), at=at, warn=warn
        )
    except LedgerError as error:
        warn(error.message)
        return sites, known


def record_of(site: Site, records: list[Record]) -> Record | None:
    """Give the registry's newest record of a worktree; None if it has none."""
    found = [record for record in records if record["path"] == site.tree.path and record["status"] != "removed"]
    mine = [record for record in found if record["workflow_run_id"] == site.run_id]
    return next(reversed(mine or found), None)


def blockers(site: Site, records: list[Record], here: str, *, named: bool) -> list[str]:
    """Say what speaks against removing a worktree; `named` is one that the user gave by name."""
    if site.tree.is_main:
        return ["it is the main work tree"]
    record = record_of(site, records)
    if site.run_id is None and record is None:
        return ["no run is in it: `git worktree remove` is for worktrees of other work"]
    found = []
    if os.path.join(os.path.realpath(here), "").startswith(os.path.join(os.path.realpath(site.tree.path), "")):
        found.append(HERE)
    if site.tree.locked is not None:
        found.append(f"it is locked: {site.tree.locked}")
    if site.session is not None:
        found.append(f"its session {site.session} is open")
    if site.problem is not None:
        found.append(site.problem)
    finished = site.status in states.FINISHED
    if named and not finished and site.orphan is None:
        found.append(f"its run is {site.status or 'unknown'}")
    if not named:
        if not finished:
            found.append(f"its run is {site.status or 'unknown'}")
        if record is not None and record.get("auto_cleanup") is False:
            found.append("its record says `auto_cleanup: false`, so it is removed by name alone")
    try:
        return found + _work_left(site, named)
    except GitFailed as error:
        return [*found, error.message]


def merged_base(site: Site) -> str | None:
    """Name the base that has the work of a worktree; None if none has. Raises GitFailed."""
    commit = worktree_git.last_commit(site.tree)
    return worktree_git.merged_into(commit, site.tree.path) if commit else None


def _work_left(site: Site, named: bool) -> list[str]:
    if not site.is_there:
        return [] if named else ["its folder is not there"]
    found, commit = [], worktree_git.last_commit(site.tree)
    changed = worktree_git.changes(site.tree, commit)
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        found.append(f"uncommitted work: {', '.join(changed[:3])}{more}")
    if worktree_git.has_submodules(site.tree):
        found.append("submodules are checked out in it: run `git submodule deinit --all` there first")
    if commit is None or worktree_git.merged_into(commit, site.tree.path):
        return found
    if not named:
        found.append(f"{site.tree.branch or 'its commit'} is not merged")
    left = worktree_git.unkept(commit, site.tree.path)
    if left:
        back = f"; `git branch {site.tree.branch} {commit[:12]}` brings it back" if site.tree.head is None else ""
        found.append(f"{left} commit{'' if left == 1 else 's'} of it nowhere else{back}")
    return found


def _site(tree: Tree, root: str, at: float, days: int, records: list[Record]) -> Site:
    known = [record for record in records if record["path"] == tree.path and record["status"] != "removed"]
    blank = Site(tree, root, None, None, None, None, None, None, None, None, [], None, None)
    if tree.why_gone is not None or not os.path.isdir(tree.path):
        gone = (
            f"its folder is not there ({tree.why_gone or 'deleted'}); if it was moved: `git worktree repair NEW-PATH`"
        )
        last = known[-1] if known else {}
        site = blank._replace(run_id=last.get("workflow_run_id"), work_id=last.get("work_id"))
        return site._replace(orphan="git_error", why=gone)
    run_id = named_run(root)
    if run_id is None or is_inherited(root, run_id):
        site = blank._replace(bytes=_size(tree.path))
    else:
        site = _with_run(blank, run_id)._replace(bytes=_size(tree.path), without_hooks=unanswered(root))
    if tree.is_main or (site.run_id is None and not known):
        return site
    orphan, why = _orphaned(site, at, days, known)
    return site._replace(orphan=orphan, why=why)


def _with_run(site: Site, run_id: str) -> Site:
    site = site._replace(run_id=run_id)
    try:
        run = find_run(site.root, run_id)
        state = states.read_state(run).value
        work_id = state.get("work_id")
        site = site._replace(
            work_id=work_id if isinstance(work_id, str) else None,
            status=str(state.get("status")),
            phase=states.current_phase(state),
            session=shape.current_session(shape.blocks_of(state)),
        )
        if os.path.lexists(run.ledger_path):
            with Log.read(run.ledger_path) as log:
                recorded = list(log.stream())
            newest = max([event["at"] for event in recorded], default="") or None
            site = site._replace(session=shape.current_session(fold(recorded)), last_event=newest)
    except (LedgerError, sqlite3.DatabaseError) as error:
        site = site._replace(problem=getattr(error, "message", str(error)))
    return site


def _orphaned(site: Site, at: float, days: int, known: list[Record]) -> tuple[str | None, str | None]:
    tree = site.tree
    try:
        commit = worktree_git.last_commit(tree)
        if not worktree_git.branch_exists(tree):
            return "branch_deleted", f"its branch {tree.branch} was deleted"
        worktree_git.changes(tree, commit)
        last = seconds_of(site.last_event) or (worktree_git.commit_time(commit, tree.path) if commit else at)
        merged = commit is not None and worktree_git.merged_into(commit, tree.path) is not None
    except (GitFailed, OSError) as error:
        return "git_error", f"git cannot read it: {error}"
    if site.run_id is None:
        return "workflow_abandoned", f"the run {known[-1]['workflow_run_id']} is not active in it any more"
    if not os.path.isdir(find_run(site.root, site.run_id).directory):
        return "workflow_abandoned", f"the run {site.run_id} is not in it any more"
    if site.status == "cancelled" and not merged:
        return "workflow_abandoned", "its run was cancelled and its branch is not merged"
    if site.status not in states.FINISHED and at - last >= days * DAY:
        return "no_activity", f"nothing has happened in it for {int((at - last) // DAY)} days"
    return None, None


def _record(site: Site, root: str, created_by: str) -> Record | None:
    """Give the registry's record of a worktree as it is now; None for one without a run."""
    if site.run_id is None or site.tree.is_main:
        return None
    place = place_of(site.root) if site.is_there else None
    metadata: dict[str, Any] = {}
    if site.bytes is not None:
        metadata["disk_usage_bytes"] = site.bytes
    if site.tree.head:
        metadata["git_commit"] = site.tree.head
    if site.orphan:
        metadata |= {"orphaned": True, "orphaned_reason": site.orphan}
    ours = created_by == "fractary-faber" and os.path.realpath(site.root) == os.path.realpath(root)
    record: Record = {
        "path": site.tree.path,
        "workflow_run_id": site.run_id,
        "work_id": site.work_id,
        "status": RECORDED.get(site.status or "", "active"),
        "created_at": registry.created_at(place) if place else utc_text(0),
        "created_by": "fractary-faber" if ours else "manual",
    }
    if ours:
        record["auto_cleanup"] = True
    if site.tree.branch:
        record["branch"] = site.tree.branch
    if site.last_event:
        record["last_activity"] = site.last_event
    if site.status == "completed":
        record["completed_at"] = site.last_event or record["created_at"]
    return {**record, "metadata": metadata}


def _former(sites: list[Site], known: list[Record], at_work: set[str]) -> list[Record]:
    """Give the records of runs that have left the worktree they are in to another one, with what became of them."""
    roots = {site.tree.path: site.root for site in sites if site.is_there}
    found = []
    for record in known:
        run_id = record["workflow_run_id"]
        if record["path"] in roots and run_id not in at_work and record["status"] == "active":
            try:
                status = states.read_state(find_run(roots[record["path"]], run_id)).value.get("status")
            except LedgerError:
                continue
            if status in RECORDED:
                found.append({**record, "status": RECORDED[status]})
    return found


def _size(folder: str) -> int:
    """Add up the sizes of a work tree's files, the git directory left out."""
    total = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except OSError:
                continue  # gone meanwhile
    return total
