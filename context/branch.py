"""How to get to a run's branch that is not checked out here."""

from __future__ import annotations

import os

from faber_ledger.files.text import quoted
from faber_ledger.runs.git import LIMIT, has_remotes, is_safe, packed_refs, work_tree_of
from faber_ledger.runs.publish import stopped_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.runs.git import WorkTree

NEVER = ("..", "//", "/.", "./", ".lock/")  # in a branch's name with a slash after it


def describe_way_to(root: str, tree: WorkTree, branch: str) -> str:
    """Return how to get to a branch that is not checked out here: nothing for a name that git does not accept."""
    stopped = stopped_command(tree)
    if stopped is not None:
        end = "" if stopped == "bisect" else f"finish it with `git {stopped} --continue`, or "
        back = "reset" if stopped == "bisect" else "--abort"
        return f"; a {stopped} has stopped in the middle: first {end}take it back with `git {stopped} {back}`"
    if not is_safe(branch) or branch == "HEAD" or any([part in f"{branch}/" for part in NEVER]):
        return ""
    if not has_branch(root, branch):
        fetch = "run `git fetch`, or ask" if has_remotes(tree.common) else "ask"
        return f"; this clone does not have that branch: {fetch} where it is"
    top = tree.top_with(branch)
    if top is None:
        return f": run `git switch {branch}` before you change anything"
    return f"; it is checked out in {quoted(os.path.relpath(top, root))}: work there"


def has_branch(root: str, name: str) -> bool:
    """Return whether a clone has a branch, its own or a remote's, by git's own files.

    Where git keeps its references in tables, or has very many, that is unknown, and it counts as there.
    """
    tree = work_tree_of(root)
    if tree is None or os.path.isdir(os.path.join(tree.common, "reftable")):
        return True
    remotes = os.path.join(tree.common, "refs", "remotes")
    packed = packed_refs(tree.common)
    named = [line.partition(b" ")[2] for line in packed.splitlines()]
    of_remote = [ref.split(b"/", 3)[3] for ref in named if ref.startswith(b"refs/remotes/") and ref.count(b"/") > 2]
    if len(packed) == LIMIT or os.fsencode(f"refs/heads/{name}") in named or os.fsencode(name) in of_remote:
        return True
    try:
        loose = os.listdir(remotes)
    except OSError:
        loose = []
    places = [os.path.join(tree.common, "refs", "heads"), *[os.path.join(remotes, remote) for remote in loose]]
    return any([os.path.isfile(os.path.join(place, name)) for place in places])
