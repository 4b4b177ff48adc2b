"""Runs' files in conflict, as a merge left them in git's index."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.ledger.command_errors import GitFailed
from faber_ledger.ledger.disk import FileRefused, folder_around, read_regular
from faber_ledger.runs.git_command import git, top_of
from faber_ledger.runs.layouts import run_at
from faber_ledger.runs.run import LARGEST_STATE, Run
from faber_ledger.runs.state_file import is_unmerged, stopped_merge

BASE, OURS, THEIRS = "1", "2", "3"  # git's stages of a file in conflict
LINK = b"120000"  # git's mode of a link


class Conflict(NamedTuple):
    """A file in conflict: its path from the project's root, its run, its blobs by stage.

    `kind` is one of `RUN_FILES`, whatever the file's name is. `has_link` is set if a side is a link, which we never
    follow.
    """

    path: str
    run: Run
    kind: str
    blobs: dict[str, str]
    has_link: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether both sides have deleted the file, as where each has moved it to another place."""
        return list(self.blobs) == [BASE]

    def side(self, stage: str) -> bytes | None:
        """Return the content of one side; None if that side does not have the file."""
        return git("cat-file", "blob", self.blobs[stage]) if stage in self.blobs else None


def find_conflicts(root: str, top: str) -> list[Conflict]:
    """Return the index's conflicts of runs' ledgers and states; other files are the user's."""
    prefix = os.path.relpath(os.path.realpath(root), os.path.realpath(top)).replace(os.sep, "/") + "/"
    prefix = prefix.removeprefix("./")
    blobs, links = _read_unmerged(top)
    found = []
    for path, sides in blobs.items():
        inside = path.removeprefix(prefix)
        if not path.startswith(prefix):
            continue
        at = run_at(root, inside)
        if at is not None:
            found.append(Conflict(inside, *at, sides, has_link=path in links))
    return found


def _read_unmerged(top: str) -> tuple[dict[str, dict[str, str]], set[str]]:
    """Return the files in conflict in the index, each with its blobs by stage, and the files with a link as a side."""
    blobs: dict[str, dict[str, str]] = {}
    links = set()
    for entry in git("ls-files", "-u", "-z", at=top).split(b"\0"):
        described, tab, name = entry.partition(b"\t")
        if not tab or not described.startswith((b"100", LINK)):  # nor is a submodule ours
            continue
        _, blob, stage = described.decode().split(" ")
        path = os.fsdecode(name)
        blobs.setdefault(path, {})[stage] = blob
        if described.startswith(LINK):
            links.add(path)
    return blobs, links


def paths_in_conflict(root: str) -> dict[str, list[str]]:
    """Return the paths of files in conflict in the index by the id of their run.

    None are known if git does not answer: reports go on without it.
    """
    top = top_of(root)
    found: dict[str, list[str]] = {}
    try:
        conflicts = find_conflicts(root, top) if top is not None else []
    except GitFailed:
        return {}
    for conflict in conflicts:
        found.setdefault(conflict.run.run_id, []).append(conflict.path)
    return found


def read_here(root: str, path: str) -> bytes | None:
    """Return a file of the project; None if there is none, it is too large, or a link leads to it."""
    at = os.path.join(root, *path.split("/"))
    try:
        return read_regular(at, LARGEST_STATE) if folder_around(os.path.dirname(at), [root]) is not None else None
    except (FileRefused, OSError):
        return None


def check_not_in_conflict(run: Run) -> None:
    """Raise StateInvalid if a merge has stopped at a run's state: it is in conflict in the index."""
    if is_unmerged(run):
        raise stopped_merge(run)
