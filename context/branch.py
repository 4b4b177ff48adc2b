"""How to get to a run's branch that is not checked out here, and to its files."""

from __future__ import annotations

import os

from faber_ledger.files.text import quote_word, quoted
from faber_ledger.runs.active import Here, can_be_on_branch
from faber_ledger.runs.copies import runs_in_other_work_trees
from faber_ledger.runs.git import branch_of, default_branch, has_remotes, is_safe, work_tree_of
from faber_ledger.runs.git_query import GitQuery
from faber_ledger.runs.layouts import places_of
from faber_ledger.runs.progress import FINISHED, current_phase, value_at
from faber_ledger.runs.publish import carries_refs, stopped_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.runs.git import WorkTree
    from faber_ledger.runs.run import Run

MAY_BE_AT_REMOTE = "no run of this branch is here: `faber-ledger run list --remote` shows those at the remote"
NEVER = ("..", "//", "/.", "./", ".lock/")  # in a branch's name with a slash after it


def describe_other_branch(run: Run, state: dict[str, Any], branch: object, *, has_way: bool = False) -> str:
    """Return what is checked out here instead of a run's branch, and how to get to that, as it follows its name.

    Empty if that is right or not known, and for a finished run, whose branch may be gone. If the reader `has_way` from
    `not_in_tree`, only what git must finish first is said of it.
    """
    here, tree = branch_of(run.root), work_tree_of(run.root)
    if tree is None or not isinstance(branch, str) or branch == here or state.get("status") in FINISHED:
        return ""
    there = f"{quoted(here)} is checked out here" if here else "it is not checked out here"
    needs_way = not has_way or stopped_command(tree)
    return f", but {there}{_way_to(run.root, tree, branch, is_late=is_late(state)) if needs_way else ''}"


def _way_to(root: str, tree: WorkTree, branch: str, *, is_late: bool) -> str:
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
        return f": run `git switch {branch}` before you read or change anything for this run"
    return f"; it is checked out in {quoted(os.path.relpath(top, root))}: work there"


def is_late(state: dict[str, Any]) -> bool:
    """Return whether a run is so far that its branch may be merged: in its release, or with a pull request."""
    return current_phase(state) == "release" or value_at(state, "artifacts.pr_url") is not None


def has_branch(root: str, name: str) -> bool:
    """Return whether a clone has a branch, its own or a remote's; it counts as there if git gives no answer."""
    return _refs_of(root, name) != ""


def _refs_of(root: str, name: str) -> str | None:
    patterns = (f"refs/heads/{name}", f"refs/remotes/*/{name}")
    return GitQuery(["for-each-ref", "--format=%(refname)", *patterns], root).answer()


def branch_of_run(run: Run) -> str | None:
    """Return a run's newest branch (DECISIONS 2); None if it has none, or that cannot be read."""
    return next(reversed(Here(run.root).branches_of(run)), None)


def is_of_another(run: Run) -> bool:
    """Return whether a finished run's ledger travels in git refs, and another branch than its own is checked out.

    On the default branch that says nothing.
    """
    here = branch_of(run.root)
    if not carries_refs(run.root) or here in (None, default_branch(run.root)):
        return False
    return not can_be_on_branch(run.root, run.run_id)


def not_in_tree(run: Run, branch: object) -> str:
    """Return the sentences that say where the files of a kept run are, and where it is recorded on."""
    return f"This work tree does not have the files of {run.run_id}: {where_files_are(run, branch)}."


def where_files_are(run: Run, branch: object) -> str:
    """Return where the files of a run are that this work tree lacks, else how they come here."""
    if trees := [os.path.relpath(one.root, run.root) for one in runs_in_other_work_trees(run)]:
        return f"they are in {', '.join(trees)} (`cd {quote_word(trees[0])}`)"
    for name in dict.fromkeys((branch, default_branch(run.root))):  # a merged branch may be gone
        if has_files(run, name):
            local, refs = f"refs/heads/{name}", (_refs_of(run.root, str(name)) or "").split()
            pull = ", `git pull`" if local in refs and not _have_files(run, [local]) else ""
            return f"they are on {quoted(str(name))} (`git switch {name}`{pull})"
    return f"`faber-ledger run resume {run.run_id}` brings them here"


def has_files(run: Run, branch: object) -> bool:
    """Return whether a branch, this clone's or a remote's, which is not checked out here, has the run's state."""
    if not isinstance(branch, str) or not is_safe(branch) or branch == branch_of(run.root):
        return False
    return _have_files(run, (_refs_of(run.root, branch) or "").split())


def _have_files(run: Run, refs: list[str]) -> bool:
    paths = dict.fromkeys([place.shown(place.state_path) for place in places_of(run.root, run.run_id)])
    asked = "".join([f"{ref}:./{path}\n" for ref in refs for path in paths]).encode()
    found = GitQuery(["cat-file", "--batch-check=%(objecttype)"], run.root, content=asked).answer() if asked else None
    return "blob" in (found or "").split("\n")
