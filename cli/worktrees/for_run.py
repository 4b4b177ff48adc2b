"""A run's own worktree: created at its start, recorded in its state and in the clone's registry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.cli.worktrees import git
from faber_ledger.cli.worktrees.survey import survey_and_record
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs import state_file, state_write, worktree_registry
from faber_ledger.runs.clone import lock_run
from faber_ledger.runs.git import common_directory, work_tree_of
from faber_ledger.runs.run import name_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


class Plan(NamedTuple):
    """The worktree to create for a run: its folder, its branch, and the project's root in it."""

    folder: str
    branch: str
    root: str


def project_name(root: str) -> str:
    """Return the project's name as run ids have it: that of its folder, in a linked work tree of the main one's."""
    common = common_directory(root)
    folder = os.path.dirname(common) if common and os.path.basename(common) == ".git" else root
    return name_part(os.path.basename(folder)) or "project"


def plan_worktree(root: str, about: str) -> Plan:
    """Return the worktree for a run about a work item, beside this one (SPEC, One Workflow Per Worktree Limitation)."""
    work_tree = work_tree_of(root)
    top = work_tree.top if work_tree else root
    folder = os.path.join(os.path.dirname(os.path.abspath(top)), f"{project_name(root)}-issue-{about}")
    inside = os.path.relpath(root, top)
    return Plan(folder, f"feature/{about}", os.path.normpath(os.path.join(folder, inside)))


def shorten_path(folder: str) -> str:
    """Return a folder's path relative to the current folder."""
    return os.path.relpath(folder, os.getcwd()).replace(os.sep, "/")


def make(root: str, plan: Plan, warn: Callable[[str], None]) -> None:
    """Create the worktree; raises LedgerError if its folder or branch exists, or git refuses."""
    git.require_work_tree(root)
    if not plan.branch.removeprefix("feature/"):
        raise LedgerError(
            "cannot derive a branch name: the work item has no ASCII letters or digits",
            hint="create the worktree with `git worktree add`, and start the run in it",
        )
    git.add(root, plan.folder, plan.branch, warn)


def take_back(root: str, plan: Plan) -> None:
    """Remove a new worktree whose run could not be started."""
    git.take_back(root, plan.folder, plan.branch)


def state_member(root: str, created_by: str | None = None) -> dict[str, Any] | None:
    """Return the state's member about the linked worktree that a run is in; None in the main one, and without git.

    The path is relative to the main work tree's top, since the state travels to other machines. Without `created_by`,
    the clone's registry decides it, or it is "manual".
    """
    work_tree = work_tree_of(root)
    if work_tree is None or not work_tree.is_linked:
        return None
    main = work_tree.main or os.path.dirname(work_tree.common)
    member: dict[str, Any] = {
        "path": os.path.relpath(work_tree.top, main).replace(os.sep, "/"),
        "created_by": created_by or "manual",
        "created_at": worktree_registry.created_at(work_tree),
    }
    if created_by == "fractary-faber":
        member["auto_cleanup"] = True
    record = _record(root, work_tree.top) if created_by is None else None
    if record is not None:
        names = ("created_by", "created_at", "auto_cleanup")
        member |= {name: record[name] for name in names if name in record}
    branch = next((tree.branch for tree in git.list_trees(root) if _is_same(tree.path, work_tree.top)), None)
    return {**member, **({"branch": branch} if branch else {})}


def record_resumed(run: Run, *, at: float, warn: Callable[[str], None]) -> None:
    """Record in state and registry where a run was resumed; `warn` gets what cannot be written."""
    try:
        member = state_member(run.root)
        if member is None and "worktree" in state_file.read_state(run).value:
            member = {"path": "."}  # the run has returned to the main work tree
        if member is not None:
            with lock_run(run):
                state_write.write_members(run, {"worktree": member}, warn=warn)
    except LedgerError as error:
        warn(error.message)
    update_registry(run.root, at=at, warn=warn)


def update_registry(root: str, *, at: float, warn: Callable[[str], None], created_by: str = "manual") -> None:
    """Bring the clone's registry up to date; a clone with only its main work tree needs none."""
    work_tree, path = work_tree_of(root), worktree_registry.registry_path(root)
    if work_tree is None or path is None or not (work_tree.is_linked or os.path.lexists(path)):
        return
    try:
        survey_and_record(root, at=at, warn=warn, created_by=created_by)
    except LedgerError as error:
        warn(error.message)


def next_line(plan: Plan) -> str:
    """Return the next step for a new worktree."""
    return f"Next: cd {quote_word(shorten_path(plan.root))}, and start the client there"


def _record(root: str, top: str) -> dict[str, Any] | None:
    path = worktree_registry.registry_path(root)
    try:
        records = worktree_registry.read_records(path) if path else []
    except worktree_registry.MalformedRegistry:
        return None
    found = [record for record in records if _is_same(record["path"], top) and record["status"] != "removed"]
    return found[-1] if found else None


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
