"""The run that is active in a worktree where another one is to start."""

from typing import Any, NamedTuple

from faber_ledger.cli.worktrees.creation import free_worktree, shorten_path
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.errors import LedgerError, StateMissing
from faber_ledger.runs import progress, state_file
from faber_ledger.runs.active import active_run, can_be_on_branch
from faber_ledger.runs.in_git import GitSurvey
from faber_ledger.runs.kept import run_here
from faber_ledger.runs.of_work import is_of_work
from faber_ledger.runs.on_branches import root_with_branch
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

    @property
    def is_over(self) -> bool:
        """Whether the run is finished or has another branch, so that nobody needs to be asked."""
        return self.status in progress.FINISHED or not self.is_at_home


class Successor(NamedTuple):
    """The run that is to become the active one of a work tree.

    `about` is what it is about, as part of a name; `command` starts or resumes it in another worktree. With
    `offers_worktree` its own command can make that worktree. `work_id` is a new run's. `before` is the run that was
    active before the new one was fetched, whose branch may be the one that is checked out. `branch` is the new one's,
    if it is known and here.
    """

    root: str
    run_id: str
    about: str
    command: str
    offers_worktree: bool = False
    work_id: str | None = None
    before: OtherRun | None = None
    branch: str | None = None

    def left_behind(self) -> OtherRun | None:
        """Return the run that stopped being active when the new one was fetched; None without one."""
        before = self.before
        return before if before is not None and before.is_over and before.run_id != self.run_id else None

    def is_of_same_work(self, other: OtherRun) -> bool:
        """Return whether the other run is of the same work item and can go on, so that it is better resumed."""
        return self.work_id is not None and not other.is_over and is_about(self.root, other.run_id, self.work_id)


def other_active_run(root: str, run_id: str) -> OtherRun | None:
    """Return the active run if it is another than `run_id`; not one that only its author makes active."""
    active = active_run(root, by_author=False)
    if active.run_id is None or active.run_id == run_id:
        return None
    status = active.status if isinstance(active.status, str) else None
    other = OtherRun(active.run_id, status, can_be_on_branch(root, active.run_id))
    is_merged = not other.is_over and GitSurvey(root).find_finished(run_here(root, active.run_id)) is not None
    return other._replace(status="completed") if is_merged else other


def takeover_lines(new: Successor, other: OtherRun, choices: list[str]) -> list[str]:
    """Return the warning of another active workflow (SPEC, section 5 and Example 4), or a line for another branch's."""
    if other.status in progress.FINISHED:
        return []
    if other.is_over:
        return [f"ℹ Active until now: {other.run_id} ({other.status}), on another branch"]
    own, branch = free_worktree(new.root, new.about), new.branch
    there = root_with_branch(new.root, branch) if branch is not None else None
    named = f"-b {own.branch}" if branch is None else quote_word(branch)
    add = f"  git worktree add {quote_word(shorten_path(own.folder))} {named}"
    return [
        "⚠️  WARNING: Another workflow is active in this worktree",
        f"   Active: {other.run_id}",
        f"   New: {new.run_id}",
        "",
        *([GO_ON.format(other.run_id), ""] if new.is_of_same_work(other) else []),
        "Recommendation: Use separate worktrees for concurrent workflows:",
        *([add] if there is None else []),
        f"  cd {quote_word(shorten_path(there or own.root))}",
        f"  {new.command}",
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
