"""The run that is active in a worktree where another one is to start."""

from __future__ import annotations

from typing import Any, NamedTuple

from faber_ledger.cli.ui.which_run import is_of_work
from faber_ledger.cli.worktrees.creation import plan_worktree, shorten_path
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError, StateMissing
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import active_run, can_be_on_branch
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.progress import resume_point
from faber_ledger.runs.run import Run, name_part

GO_ON = (
    "The active run is one of the same work item. To go on with it:"
    " /fractary-faber:workflow-run --resume {0} [faber-ledger run resume {0}]"
)


class OtherRun(NamedTuple):
    """The run that a start would replace; `is_at_home`: its branch is the one that is checked out, or it has none."""

    run_id: str
    status: str | None
    is_at_home: bool


def other_active_run(root: str, run_id: str) -> OtherRun | None:
    """Return the active run if it is another than `run_id`; not one that only its author makes active."""
    active = active_run(root, by_author=False)
    if active.run_id is None or active.run_id == run_id:
        return None
    status = active.status if isinstance(active.status, str) else None
    return OtherRun(active.run_id, status, can_be_on_branch(root, active.run_id))


def conflict_lines(
    root: str, active: str, run_id: str, about: str, command: str, choices: list[str], *, is_same: bool
) -> list[str]:
    """Return the warning of another active workflow (SPEC, section 5 and Example 4)."""
    own = plan_worktree(root, about)
    return [
        "⚠️  WARNING: Another workflow is active in this worktree",
        f"   Active: {active}",
        f"   New: {run_id}",
        "",
        *([GO_ON.format(active), ""] if is_same else []),
        "Recommendation: Use separate worktrees for concurrent workflows:",
        f"  git worktree add {quote_word(shorten_path(own.folder))} -b {own.branch}",
        f"  cd {quote_word(shorten_path(own.root))}",
        f"  {command}",
        *choices,
        "",
    ]


def is_about(root: str, run_id: str, work_id: str) -> bool:
    """Return whether a run is of a work item; False if its state cannot be read."""
    try:
        return is_of_work(state_file.read_state(run_here(root, run_id)).value, work_id)
    except LedgerError:
        return False


def work_to_resume(run: Run) -> str | None:
    """Return what a run is about, as part of a name, if it may be resumed; None if not. Raises LedgerError."""
    try:
        state = state_file.read_state(run).value
    except StateMissing:
        return describe_work({})  # it is made from the log
    status = state.get("status")
    may_go_on = status is None or (status in progress.STATUSES and resume_point(state) is not None)
    return describe_work(state) if may_go_on else None


def describe_work(state: dict[str, Any]) -> str:
    """Return what a run is about, as part of a name."""
    return name_part(str(state.get("work_id") or "resumed"))
