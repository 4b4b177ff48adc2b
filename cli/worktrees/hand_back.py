"""Hand back what a run's files got after the merge of its branch: from its worktree to the main work tree's copy.

A run is still written after its branch is merged: `run finish` completes its state, and the session that asked for it
ends. That does not keep a worktree, as long as it reaches the copy of the run that the merge has brought.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.worktrees import git
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.projections.blocks import NAMES
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import progress, state_file, state_write
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import work_tree_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.projecting import reproject
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.cli.worktrees.survey import Site


ABSENT = object()


class HandBack(NamedTuple):
    """What to hand back: the changed files, by their names in the worktree, and the changed members of the state."""

    run: Run
    home: Run
    names: list[str]
    members: dict[str, Any]


def plan_hand_back(site: Site, changed: list[str]) -> HandBack | None:
    """Return which of the changed files of a merged worktree can be handed back; None if nothing can.

    Only state and ledger of the worktree's own run can, and only members of the state that did not change in the main
    work tree meanwhile.
    """
    work_tree = work_tree_of(site.root)
    if site.run_id is None or site.tree.head is None or work_tree is None or work_tree.main is None:
        return None
    try:
        run = find_run(site.root, site.run_id)
        inside = os.path.relpath(site.root, work_tree.top)
        home = find_run(os.path.normpath(os.path.join(work_tree.main, inside)), site.run_id)
        own = {_name_of(path, work_tree.top): path for path in (run.state_path, run.ledger_path)}
        names = [name for name in changed if name in own]
        if not names or not all([os.path.isfile(path) for path in (*own.values(), home.state_path, home.ledger_path)]):
            return None
        members = _changed_members(run, home, _read_committed(site, _name_of(run.state_path, work_tree.top)))
    except (LedgerError, ValueError):
        return None  # an unreadable state is not moved
    return None if members is None else HandBack(run, home, names, members)


def hand_back(site: Site, plan: HandBack, *, warn: Callable[[str], None]) -> str:
    """Unite the ledger with the main work tree's, write the state there, and check out the committed files here.

    Returns what was done, as a line. Raises as `Log.open`, `write_members` and `RunLock`, and GitFailed.
    """
    for run in (plan.run, plan.home):
        record_before_projecting(run, now(), warn=warn)
    reproject(plan.home, rebuild=True, warn=warn)  # both work trees have one log
    with lock_run(plan.home):
        state_write.write_members(plan.home, plan.members, warn=warn)
        if state_file.read_state(plan.home).value.get("status") in progress.FINISHED:
            state_write.remove_backup(plan.home)
        literal = [f":(literal){name}" for name in plan.names]
        git.git("checkout", "--quiet", "HEAD", "--", *literal, at=site.tree.path)
    return describe(plan)


def describe(plan: HandBack) -> str:
    """Return what is handed back and where, as a line."""
    return f"its run's last events are handed back: commit {plan.home.shown(plan.home.directory)} in {plan.home.root}"


def _changed_members(run: Run, home: Run, committed: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state's members, except our blocks, changed since the commit; None if they cannot be handed back."""
    last, there = state_file.read_state(run).value, state_file.read_state(home).value
    names = [name for name in {**committed, **last} if name not in NAMES]
    changed = [name for name in names if last.get(name, ABSENT) != committed.get(name, ABSENT)]
    if any([name not in last for name in changed]):
        return None
    if any([there.get(name, ABSENT) not in (committed.get(name, ABSENT), last[name]) for name in changed]):
        return None
    return {name: last[name] for name in changed}


def _read_committed(site: Site, name: str) -> dict[str, Any]:
    """Return the state as it is committed in the worktree; raises GitFailed and ValueError."""
    found = json.loads(git.git("show", f"HEAD:{name}", at=site.tree.path).decode())
    if not isinstance(found, dict):
        raise GitFailed(f"{name} is not an object in HEAD")
    return found


def _name_of(path: str, top: str) -> str:
    return os.path.relpath(path, top).replace(os.sep, "/")
