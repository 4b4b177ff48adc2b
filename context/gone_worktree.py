"""Whether a folder that is not there lay in a worktree that is gone: the project around it has another run."""

from __future__ import annotations

import os

from faber_ledger.context.git import place_of
from faber_ledger.context.worktrees import MalformedRegistry, read_records, registry_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def gone_worktree(root: str, folder: str) -> str | None:
    """Give the worktree of this clone, gone by now, that a folder lay in; None if it lay in none."""
    at = os.path.join(os.path.abspath(folder), "")
    for path in (*_of_git(root), *_recorded(root)):
        if at.startswith(os.path.join(path, "")) and not os.path.lexists(path):
            return path
    return None


def _of_git(root: str) -> Iterator[str]:
    place = place_of(root)
    admin = os.path.join(place.common, "worktrees") if place else ""
    for name in os.listdir(admin) if os.path.isdir(admin) else []:
        try:
            with open(os.path.join(admin, name, "gitdir"), "rb") as file:
                told = os.fsdecode(file.read(4096)).strip()
        except OSError:
            continue
        yield os.path.dirname(os.path.normpath(os.path.join(admin, name, told)))


def _recorded(root: str) -> list[str]:
    path = registry_path(root)
    try:
        return [record["path"] for record in read_records(path)] if path else []
    except MalformedRegistry:
        return []
