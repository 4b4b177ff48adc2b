"""What is in each work tree of a clone: its run, its session, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from faber_ledger.cli.reports.run_list import describe_facts, read_facts
from faber_ledger.cli.ui.attention import Filters, Row
from faber_ledger.cli.worktrees import git
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import worktree_registry
from faber_ledger.runs.active import active_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.kept import run_here

RECORDED = {"completed": "completed", "failed": "failed", "cancelled": "abandoned"}


class Site(NamedTuple):
    """A work tree and the run that is active in it, or that was, if its folder is gone.

    `row` describes the run as `run list` does, where it can be read. `member` is the member `worktree` of its state if
    that is about this work tree's branch, `record` the registry's newest record of the work tree, and `problem` says
    what is wrong with either.
    """

    tree: git.Tree
    root: str
    member: dict[str, Any]
    row: Row
    run_id: str | None = None
    problem: str | None = None
    record: worktree_registry.Record | None = None


def survey(root: str, *, at: float, warn: Callable[[str], None]) -> list[Site]:
    """Return every work tree of the clone as it is now, and update the registry; raises GitFailed and NoWorkTree.

    If the registry cannot be written, `warn` gets the reason: it is only an overview of the runs.
    """
    git.require_work_tree(root)
    work_tree = work_tree_of(root)
    inside = os.path.relpath(root, work_tree.top) if work_tree else "."
    known = worktree_registry.read_known(root)
    roots = [(tree, os.path.normpath(os.path.join(tree.path, inside))) for tree in git.list_trees(root)]
    sites = [_survey_tree(tree, its_root, known) for tree, its_root in roots]
    seen = [_record(site) for site in sites if site.run_id and not site.tree.is_main and not site.tree.problem]
    try:
        records = worktree_registry.update(root, seen, {site.tree.path for site in sites}, at=at, warn=warn)
    except LedgerError as error:
        warn(error.message)
        records = known
    return [site._replace(record=_newest(records, site.tree.path, site.run_id)) for site in sites]


def update_registry(root: str, *, at: float, warn: Callable[[str], None]) -> None:
    """Bring the clone's registry up to date; a clone with only its main work tree needs none."""
    work_tree, path = work_tree_of(root), worktree_registry.registry_path(root)
    if work_tree is None or path is None or not (work_tree.is_linked or os.path.lexists(path)):
        return
    try:
        survey(root, at=at, warn=warn)
    except LedgerError as error:
        warn(error.message)


def _survey_tree(tree: git.Tree, root: str, known: list[worktree_registry.Record]) -> Site:
    site, last = Site(tree, root, {}, {}), _newest(known, tree.path, None)
    if tree.problem is not None:
        former = last or {}
        row = {"work_id": former.get("work_id")}
        return site._replace(problem=tree.problem, run_id=former.get("workflow_run_id"), row=row)
    run_id = active_run(root, by_author=False).run_id
    return _with_run(site, run_id) if run_id is not None else site


def _newest(records: list[worktree_registry.Record], path: str, run_id: str | None) -> worktree_registry.Record | None:
    found = [record for record in records if record["path"] == path and record["status"] != "removed"]
    mine = [record for record in found if record["workflow_run_id"] == run_id]
    return next(reversed(mine or found), None)


def _with_run(site: Site, run_id: str) -> Site:
    """Return the site with its run: its status, its session, and what is wrong with it."""
    try:
        run = run_here(site.root, run_id)
        row = describe_facts(run, read_facts(run), Filters())
    except LedgerError as error:
        return site._replace(run_id=run_id, problem=error.message)
    status, work_id, member = row["status"], row["work_id"], row["worktree"]
    row |= {"status": None if status is None else str(status), "work_id": work_id if isinstance(work_id, str) else None}
    return site._replace(
        run_id=run_id,
        row=row,
        problem=row["problem"] or row["ledger_problem"],
        member=member if isinstance(member, dict) and member.get("branch") == site.tree.branch else {},
    )


def _record(site: Site) -> worktree_registry.Record:
    """Return the registry's record of a worktree as it is now."""
    record: worktree_registry.Record = {
        "path": site.tree.path,
        "workflow_run_id": site.run_id,
        "work_id": site.row.get("work_id"),
        "status": RECORDED.get(site.row.get("status") or "", "active"),
        "created_at": str(site.member.get("created_at") or site.row.get("last_event_at") or utc_text(0)),
        "created_by": "fractary-faber" if site.member.get("created_by") == "fractary-faber" else "manual",
        "branch": site.tree.branch,
        "last_activity": site.row.get("last_event_at"),
        "metadata": {"git_commit": site.tree.head},
    }
    if isinstance(site.member.get("auto_cleanup"), bool):
        record["auto_cleanup"] = site.member["auto_cleanup"]
    if site.row.get("status") == "completed":
        record["completed_at"] = site.row.get("last_event_at") or record["created_at"]
    return record
