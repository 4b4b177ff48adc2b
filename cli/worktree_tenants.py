"""What else lies in a worktree's folder and would go with it: other worktrees, repositories, and other runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli import worktree_git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.cli.worktree_survey import Site

BARE = {"HEAD", "objects", "refs"}


def nested(site: Site) -> list[str]:
    """Say which worktrees of the clone and which other repositories lie in a worktree's folder; raises GitFailed.

    Git itself looks into no folder that it ignores. A folder that cannot be looked into is told: anything may be in it.
    """
    top = os.path.realpath(site.tree.path)
    inside = os.path.join(top, "")
    trees = [os.path.realpath(tree.path) for tree in worktree_git.trees(site.tree.path)]
    lying = sorted(path for path in trees if path.startswith(inside))
    found = [f"a worktree lies in it: {path}" for path in lying]
    unread: list[str] = []
    found += [f"a repository lies in it: {path}" for path in _repositories(top, unread) if path not in lying]
    return found + [f"nobody can tell what is in it: {path} cannot be read" for path in unread]


def _repositories(top: str, unread: list[str]) -> Iterator[str]:
    """Give the folders below `top` that are repositories; those that cannot be read are added to `unread`."""
    for at, folders, files in os.walk(top, onerror=lambda error: unread.append(str(error.filename))):
        names = {*folders, *files}
        if at == top:
            folders[:] = [name for name in folders if name != ".git"]
        elif ".git" in names or names >= BARE:
            folders.clear()  # what lies in it goes or stays with it
            yield at
