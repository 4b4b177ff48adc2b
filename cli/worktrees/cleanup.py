"""Remove the worktrees of finished runs, one cleanup of a clone at a time, and say what stays and why."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.hand_back import describe, hand_back
from faber_ledger.cli.worktrees.removal import (
    find_hand_back,
    find_merged_base,
    list_blockers,
    list_ignored_files,
    list_leftovers,
)
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.lock import RunLock
from faber_ledger.runs.clone import path_in_clone
from faber_ledger.runs.git import common_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from faber_ledger.cli.worktrees.survey import Site
    from faber_ledger.runs.worktree_registry import Record


LOCK_SECONDS = 60.0


@contextmanager
def cleanup_lock(root: str) -> Iterator[None]:
    """Let one cleanup of a clone look and remove at a time, so that the next one sees what is left; raises Locked."""
    path = path_in_clone(root, "cleanup.lock")
    if path is None:
        yield  # without git there are no worktrees: the survey reports it
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with RunLock(path, LOCK_SECONDS):
        yield


def clean_up(
    site: Site, records: list[Record], here: str, *, named: bool, dry_run: bool, warn: Callable[[str], None]
) -> dict[str, Any]:
    """Remove one worktree unless something speaks against it, and return what was done and why.

    `here` is the user's folder; `named` means that the user gave this worktree by name.
    """
    why = list_blockers(site, records, here, named=named)
    action = "kept" if why else "would be removed" if dry_run else "removed"
    if not why:
        try:
            why = [_reason(site), *_ignored_lines(site)]
            plan = find_hand_back(site)
            if plan is not None:
                why.append(describe(plan) if dry_run else hand_back(site, plan, warn=warn))
            if not dry_run:
                for name in list_leftovers(site) if site.is_there else []:
                    os.unlink(os.path.join(site.tree.path, name))
                git.remove(site.tree, common_directory(here) or here)
        except (LedgerError, sqlite3.Error) as error:
            action, why = "kept", [getattr(error, "message", str(error))]
    return {
        "path": site.tree.path,
        "run_id": site.run_id,
        "branch": site.tree.branch,
        "branch_stays": site.tree.branch is not None and git.branch_exists(site.tree),
        "action": action,
        "why": why,
        "orphaned_reason": site.orphan,
        "orphaned_why": site.why,
    }


def list_costs(site: Site) -> list[str]:
    """Return what removing a worktree would delete, and what of its run would be handed back; raises GitFailed."""
    plan = find_hand_back(site)
    return [*_ignored_lines(site), *([describe(plan)] if plan else [])]


def cleanup_lines(results: list[dict[str, Any]], *, named: bool) -> Iterator[str]:
    """Return what was done with each worktree, and why, as lines; `named` means that the user gave them by name."""
    if not results:
        yield "no worktree of this clone has a run of its own"
    for result in results:
        yield f"{result['action']}: {result['path']} ({result['run_id'] or 'no run'})"
        for reason in result["why"]:
            yield f"  {reason}"
        if result["action"] == "kept" and result["orphaned_reason"]:
            yield f"  orphaned ({result['orphaned_reason']}): {result['orphaned_why']}"
            if not named:
                yield f"  to remove it: faber-ledger worktree cleanup {quote_word(os.path.basename(result['path']))}"
        elif result["action"] == "removed" and result["branch_stays"]:
            yield f"  the branch {result['branch']} stays; `git branch -d` removes a merged one"


def _ignored_lines(site: Site) -> list[str]:
    names = list_ignored_files(site) if site.is_there else []
    return [f"files that git ignores are removed with it: {', '.join(names)}"] if names else []


def _reason(site: Site) -> str:
    if site.orphan is not None:
        return str(site.why)
    base = find_merged_base(site)
    status = f"its run is {site.status}"
    return f"{status}, and {site.tree.branch or 'its commit'} is merged into {base}" if base else status
