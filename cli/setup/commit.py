"""Which of the files that `init` and `uninstall` change are to be committed, so that every clone has the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.setup.changes import display_path
from faber_ledger.cli.setup.ignored import is_ignored
from faber_ledger.runs.git import is_tracked

if TYPE_CHECKING:
    from faber_ledger.files.change import FileChange


def names_to_commit(changes: list[FileChange], root: str, *, is_removal: bool = False) -> list[str]:
    """Return the paths in the project to commit: files that git does not ignore, and removed ones that it tracks.

    After a removal also a file that stays is one only if it was changed, and git tracks it.
    """
    found = []
    for change in changes:
        name = display_path(change.path, root)
        if change.executable or os.path.isabs(name):
            continue  # a hook of git, or a file of the user's own
        if is_removal or change.action == "removed":
            is_due = change.action not in ("unchanged", "created") and is_tracked(change.path) is True
        else:
            is_due = not is_ignored(root, name)
        if is_due:
            found.append(name)
    return found


def join_names(names: list[str]) -> str:
    """Return names as a part of a sentence: `a, b and c`."""
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])
