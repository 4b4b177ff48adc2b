"""A run's own worktree: created at its start, and named in its state."""

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from faber_ledger.cli.worktrees.git import can_add, require_work_tree
from faber_ledger.context.branch import has_branch
from faber_ledger.files.text import quote_word
from faber_ledger.ledger.clock import utc_text
from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.git import branch_of, work_tree_of
from faber_ledger.runs.git_command import complaint, git, run_git
from faber_ledger.runs.run import common_directory, forget_work_trees, name_part


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


def free_worktree(root: str, about: str) -> Plan:
    """Return the worktree for a run, with a number after its name where folder or branch are there already."""
    names = itertools.chain([about], (f"{about}-{number}" for number in itertools.count(2)))
    return next(plan for name in names if is_free(root, plan := plan_worktree(root, name)))


def is_free(root: str, plan: Plan) -> bool:
    """Return whether neither the folder nor the branch of a worktree is there."""
    return not os.path.lexists(plan.folder) and not has_branch(root, plan.branch)


def shorten_path(folder: str) -> str:
    """Return a folder's path relative to the current folder."""
    return os.path.relpath(folder, os.getcwd()).replace(os.sep, "/")


def make(root: str, plan: Plan, warn: Callable[[str], None]) -> None:
    """Create the worktree on a new branch that starts at HEAD; existing folders and branches are never overwritten.

    If only a hook of the user fails afterwards, `warn` gets it. Raises LedgerError, and leaves nothing behind then.
    """
    require_work_tree(root)
    folder, branch = plan.folder, plan.branch
    _check_is_new(root, folder, branch)
    done = run_git("worktree", "add", "--quiet", "-b", branch, "--", folder, at=root)
    forget_work_trees()
    if done.returncode == 0:
        return
    # If git itself fails, it exits with 128 or removes the folder: 1 comes from a hook that ran at the end.
    if done.returncode == 1 and os.path.isfile(os.path.join(folder, ".git")):
        warn(f"⚠️  the worktree was created, but its post-checkout hook failed: {complaint(done)}")
        return
    take_back(root, plan)
    raise GitFailed(
        f"`git worktree add` failed: {complaint(done)}", hint="see what `git worktree list` says, and run it again"
    )


def _check_is_new(root: str, folder: str, branch: str) -> None:
    shown = shorten_path(folder)
    if not can_add(root):
        raise LedgerError("the repository has no commit yet, so it can have no worktree", hint="make the first commit")
    if os.path.lexists(folder):
        raise LedgerError(
            f"the folder {shown} exists already, and nothing in it was changed",
            hint=f"go there if it is the worktree (`cd {quote_word(shown)}`), or create one elsewhere with"
            " `git worktree add`",
        )
    patterns = (f"refs/heads/{branch}", f"refs/remotes/*/{branch}")
    known = os.fsdecode(git("for-each-ref", "--format=%(refname)", *patterns, at=root)).splitlines()
    if known:
        raise LedgerError(
            f"the branch {branch} exists already ({known[0].removeprefix('refs/')}), and was not changed",
            hint=f"`git worktree add {quote_word(shown)} {quote_word(branch)}` uses it as it is; start the run there",
        )


def take_back(root: str, plan: Plan) -> None:
    """Remove a worktree that was created a moment ago, and its branch: no work is in it yet."""
    run_git("worktree", "remove", "--force", "--", plan.folder, at=root)
    forget_work_trees()
    run_git("branch", "-D", "--", plan.branch, at=root)


def state_member(root: str, at: float, created_by: str) -> dict[str, Any] | None:
    """Return the state's member about the linked worktree that a run is in; None in the main one, and without git.

    The path is relative to the main work tree's top, since the state travels to other machines.
    """
    work_tree = work_tree_of(root)
    if work_tree is None or not work_tree.is_linked:
        return None
    main = work_tree.main or os.path.dirname(work_tree.common)
    path = os.path.relpath(work_tree.top, main).replace(os.sep, "/")
    member: dict[str, Any] = {"path": path, "created_by": created_by, "created_at": utc_text(at)}
    if created_by == "fractary-faber":
        member["auto_cleanup"] = True
    branch = branch_of(root)
    return {**member, **({"branch": branch} if branch else {})}
