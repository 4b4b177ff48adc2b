"""Which git operation has stopped in a work tree, and whose changes it brings."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.runs.git import stopped_command, work_tree_of
from faber_ledger.runs.git_command import run_git

MERGE, REBASE, PICK = "merge", "rebase", "pick"


class Operation(NamedTuple):
    """An operation that has stopped.

    `kind` is MERGE or REBASE, which bring a branch, or PICK, which brings single changes: cherry-pick, revert, am, and
    those that leave no trace, `stash pop` and `checkout -m`. `other` is the commit that has "their" side, if known.
    """

    kind: str
    other: str | None


def stopped_operation(root: str) -> Operation:
    """Return the operation that has stopped; PICK if none has left a trace."""
    tree = work_tree_of(root)
    own = tree.own if tree else ""
    command = stopped_command(tree) if tree else None
    if command in ("rebase", "am"):
        return Operation(REBASE if command == "rebase" else PICK, _commit("REBASE_HEAD", root))
    merged = _commit("MERGE_HEAD", root)
    if merged is not None or os.path.exists(os.path.join(own, "SQUASH_MSG")):
        return Operation(MERGE, merged)
    return Operation(PICK, _commit("CHERRY_PICK_HEAD", root) or _commit("REVERT_HEAD^", root))


def _commit(name: str, root: str) -> str | None:
    done = run_git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", at=root)
    return done.stdout.decode().strip() or None if done.returncode == 0 else None
