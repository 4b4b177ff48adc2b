"""What is in each worktree of a clone: its run, its session, its size, and whether it is an orphan."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.worktrees import git
from faber_ledger.hooks.client_plugins import list_unanswered
from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.projections.blocks import blocks_of, current_session
from faber_ledger.projections.fold import fold
from faber_ledger.runs import progress, state_file, worktree_registry
from faber_ledger.runs.active import active_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.log import lacks_ledger, read_log
from faber_ledger.runs.progress import current_phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.cli.worktrees.git import Tree
    from faber_ledger.runs.git import WorkTree
    from faber_ledger.runs.worktree_registry import Record


INACTIVE_DAYS = 30
DAY = 24 * 60 * 60
RECORDED = {"completed": "completed", "failed": "failed", "cancelled": "abandoned"}


class Site(NamedTuple):
    """A work tree and the run that is active in it; `orphan` is a reason as in the registry, `why` a sentence.

    `member` is the member `worktree` of the run's state.
    """

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
    member: dict[str, Any]

    @property
    def is_there(self) -> bool:
        """Return whether the folder exists: only then its size is known."""
        return self.bytes is not None


def survey(root: str, *, at: float, days: int, records: list[Record]) -> list[Site]:
    """Return every work tree of the clone as it is now; raises GitFailed and NoWorkTree."""
    git.require_work_tree(root)
    work_tree = work_tree_of(root)
    inside = os.path.relpath(root, work_tree.top) if work_tree else "."
    return [
        _site(tree, os.path.normpath(os.path.join(tree.path, inside)), work_tree, at, days, records)
        for tree in git.list_trees(root)
    ]


def survey_and_record(
    root: str, *, at: float, warn: Callable[[str], None], days: int = INACTIVE_DAYS, created_by: str = "manual"
) -> tuple[list[Site], list[Record]]:
    """Survey the worktrees, bring the registry up to date and return both; raises GitFailed and NoWorkTree.

    If the registry cannot be written, `warn` gets the reason: it is only an overview of the runs.
    """
    path = worktree_registry.registry_path(root)
    try:
        known = worktree_registry.read_records(path) if path else []
    except worktree_registry.MalformedRegistry:
        known = []  # `update` moves the file aside, and warns
    sites = survey(root, at=at, days=days, records=known)
    seen = [record for site in sites if (record := _record(site, root, created_by))]
    seen += _list_former(sites, known, {record["workflow_run_id"] for record in seen})
    there = {site.tree.path for site in sites}

    def present(folder: str) -> bool:
        return folder in there or os.path.isdir(folder)

    try:
        return sites, worktree_registry.update(
            root, lambda records: worktree_registry.merge(records, seen, at=at, present=present), at=at, warn=warn
        )
    except LedgerError as error:
        warn(error.message)
        return sites, known


def record_of(site: Site, records: list[Record]) -> Record | None:
    """Return the registry's newest record of a worktree; None if it has none."""
    found = [record for record in records if record["path"] == site.tree.path and record["status"] != "removed"]
    mine = [record for record in found if record["workflow_run_id"] == site.run_id]
    return next(reversed(mine or found), None)


def _site(tree: Tree, root: str, here: WorkTree | None, at: float, days: int, records: list[Record]) -> Site:
    known = [record for record in records if record["path"] == tree.path and record["status"] != "removed"]
    blank = Site(tree, root, None, None, None, None, None, None, None, None, [], None, None, {})
    gone = why_gone(tree, here)
    if gone is not None:
        last = known[-1] if known else {}
        site = blank._replace(run_id=last.get("workflow_run_id"), work_id=last.get("work_id"))
        site = site._replace(session=_remembered_session(here, os.path.relpath(root, tree.path), site.run_id))
        return site._replace(orphan="git_error", why=gone)
    active = active_run(root, by_author=False)
    if active.run_id is None:
        before = with_run(blank, known[-1]["workflow_run_id"]) if known else blank
        site = blank._replace(session=before.session)
    else:
        site = with_run(blank, active.run_id)
    has_use = site.run_id is not None or os.path.isdir(os.path.join(root, ".fractary"))
    site = site._replace(bytes=_size(tree.path), without_hooks=list_unanswered(root) if has_use else [])
    if tree.is_main or (site.run_id is None and not known):
        return site
    orphan, why = _check_orphan(site, at, days, known)
    return site._replace(orphan=orphan, why=why)


def _remembered_session(here: WorkTree | None, inside: str, run_id: str | None) -> str | None:
    """Return the open session, from the clone's log, of the run of a worktree whose folder does not exist.

    `inside` is the project's path from the worktree's top.
    """
    if here is None or run_id is None:
        return None
    try:
        path = find_run(os.path.normpath(os.path.join(here.top, inside)), run_id).log_path
    except LedgerError:
        return None
    return open_session_in(path) if path is not None else None


def open_session_in(path: str) -> str | None:
    """Return the open session of a log; None if there is none, or no log that can be read."""
    if not os.path.lexists(path):
        return None
    try:
        with Log.read(path) as log:
            return current_session(fold(log.stream()))
    except (LedgerError, sqlite3.DatabaseError):
        return None  # `doctor` reports what is wrong with it


def why_gone(tree: Tree, here: WorkTree | None) -> str | None:
    """Return why a worktree is not where git recorded it, and what to do; None if it is there."""
    there = work_tree_of(tree.path) if os.path.lexists(os.path.join(tree.path, ".git")) else None
    if tree.why_gone is None and there and here and os.path.realpath(there.common) == os.path.realpath(here.common):
        return None
    if here and here.is_linked and not tree.is_main and git.folder_of(here) == tree.path:
        return f"it was moved to {here.top}: run `git worktree repair` there"
    if os.path.isfile(os.path.join(tree.path, ".git")):
        return "its file `.git` leads elsewhere: run `git worktree repair`"
    if os.path.lexists(tree.path):
        return "something else is at its folder's path: move that away, then the worktree can be removed by name"
    return f"its folder does not exist ({tree.why_gone or 'deleted'}); if it was moved: `git worktree repair NEW-PATH`"


def with_run(site: Site, run_id: str) -> Site:
    """Return the site with one run in it: its status, its session, and what is wrong with it."""
    site = site._replace(run_id=run_id)
    try:
        run = find_run(site.root, run_id)
        state = state_file.read_state(run).value
        work_id, member = state.get("work_id"), state.get("worktree")
        site = site._replace(
            work_id=work_id if isinstance(work_id, str) else None,
            status=str(state.get("status")),
            phase=current_phase(state),
            session=current_session(blocks_of(state)),
            member=member if isinstance(member, dict) else {},
        )
        if not lacks_ledger(run):
            with read_log(run) as log:
                recorded = list(log.stream())
            newest = max([event["at"] for event in recorded], default="") or None
            site = site._replace(session=current_session(fold(recorded)), last_event=newest)
    except (LedgerError, sqlite3.DatabaseError) as error:
        site = site._replace(problem=getattr(error, "message", str(error)))
    return site


def _check_orphan(site: Site, at: float, days: int, known: list[Record]) -> tuple[str | None, str | None]:
    tree = site.tree
    try:
        commit = git.find_last_commit(tree)
        if commit is not None and not git.branch_exists(tree):
            return "branch_deleted", f"its branch {tree.branch} was deleted"
        git.list_changes(tree, commit)
        last = seconds_of(site.last_event) or (git.read_commit_time(commit, tree.path) if commit else at)
        merged = commit is not None and git.find_base_containing(commit, tree.path) is not None
    except (GitFailed, OSError) as error:
        return "git_error", f"git cannot read it: {error}"
    if site.run_id is None:
        return "workflow_abandoned", f"the run {known[-1]['workflow_run_id']} is not active in it any more"
    if not find_run(site.root, site.run_id).has_files():
        return "workflow_abandoned", f"the run {site.run_id} is not in it any more"
    if site.status == "cancelled" and not merged:
        return "workflow_abandoned", "its run was cancelled and its branch is not merged"
    if site.status not in progress.FINISHED and at - last >= days * DAY:
        return "no_activity", f"nothing has happened in it for {int((at - last) // DAY)} days"
    return None, None


def _record(site: Site, root: str, created_by: str) -> Record | None:
    """Return the registry's record of a worktree as it is now; None for one without a run."""
    if site.run_id is None or site.tree.is_main:
        return None
    work_tree = work_tree_of(site.root) if site.is_there else None
    metadata: dict[str, Any] = {}
    if site.bytes is not None:
        metadata["disk_usage_bytes"] = site.bytes
    if site.tree.head:
        metadata["git_commit"] = site.tree.head
    if site.orphan:
        metadata |= {"orphaned": True, "orphaned_reason": site.orphan}
    # Who created it is known at its start; if the registry is rebuilt later, it is read from the run's state.
    ours = created_by == "fractary-faber" and os.path.realpath(site.root) == os.path.realpath(root)
    ours = ours or site.member.get("created_by") == "fractary-faber"
    record: Record = {
        "path": site.tree.path,
        "workflow_run_id": site.run_id,
        "work_id": site.work_id,
        "status": RECORDED.get(site.status or "", "active"),
        "created_at": worktree_registry.created_at(work_tree) if work_tree else utc_text(0),
        "created_by": "fractary-faber" if ours else "manual",
    }
    if ours or site.member.get("auto_cleanup") is False:
        record["auto_cleanup"] = site.member.get("auto_cleanup") is not False
    if site.tree.branch:
        record["branch"] = site.tree.branch
    if site.last_event:
        record["last_activity"] = site.last_event
    if site.status == "completed":
        record["completed_at"] = site.last_event or record["created_at"]
    return {**record, "metadata": metadata}


def _list_former(sites: list[Site], known: list[Record], at_work: set[str]) -> list[Record]:
    """Return the records of finished runs whose worktree now has another active run, with their new status."""
    roots = {site.tree.path: site.root for site in sites if site.is_there}
    found = []
    for record in known:
        run_id = record["workflow_run_id"]
        if record["path"] in roots and run_id not in at_work and record["status"] == "active":
            try:
                status = state_file.read_state(find_run(roots[record["path"]], run_id)).value.get("status")
            except LedgerError:
                continue
            if status in RECORDED:
                found.append({**record, "status": RECORDED[status]})
    return found


def _size(folder: str) -> int:
    """Return the size of a work tree's files in bytes, without the git directory."""
    total = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except OSError:
                continue  # just removed
    return total
