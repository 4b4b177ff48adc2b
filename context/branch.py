"""How to get to a run's branch that is not checked out here."""

from __future__ import annotations

import os

from faber_ledger.files.text import quoted
from faber_ledger.runs.git import has_remotes, is_safe
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.progress import current_phase, value_at
from faber_ledger.runs.publish import stopped_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.runs.git import WorkTree

NEVER = ("..", "//", "/.", "./", ".lock/")  # in a branch's name with a slash after it


def describe_way_to(root: str, tree: WorkTree, branch: str, *, is_late: bool = False) -> str:
    """Return how to get to a branch that is not checked out here: nothing for a name that git does not accept.

    If its run `is_late`, a branch that is not here may be merged.
    """
    stopped = stopped_command(tree)
    if stopped is not None:
        end = "" if stopped == "bisect" else f"finish it with `git {stopped} --continue`, or "
        back = "reset" if stopped == "bisect" else "--abort"
        return f"; a {stopped} has stopped in the middle: first {end}take it back with `git {stopped} {back}`"
    if not is_safe(branch) or branch == "HEAD" or any([part in f"{branch}/" for part in NEVER]):
        return ""
    if not has_branch(root, branch):
        merged = "merged and deleted? Else " if is_late else ""
        fetch = "run `git fetch`, or ask" if has_remotes(tree.common) else "ask"
        return f"; this clone does not have that branch: {merged}{fetch} where it is"
    top = tree.top_with(branch)
    if top is None:
        return f": run `git switch {branch}` before you change anything"
    return f"; it is checked out in {quoted(os.path.relpath(top, root))}: work there"


def is_late(state: dict[str, Any]) -> bool:
    """Return whether a run is so far that its branch may be merged: in its release, or with a pull request."""
    return current_phase(state) == "release" or value_at(state, "artifacts.pr_url") is not None


def has_branch(root: str, name: str) -> bool:
    """Return whether a clone has a branch, its own or a remote's; it counts as there if git gives no answer."""
    patterns = (f"refs/heads/{name}", f"refs/remotes/*/{name}")
    return GitQuery(["for-each-ref", "--count=1", "--format=1", *patterns], root).answer() != ""
