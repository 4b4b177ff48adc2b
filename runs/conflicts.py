"""Runs' files that a merge left in conflict, as git's index has them."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.ledger.errors import InvalidRunId
from faber_ledger.runs.git_command import git
from faber_ledger.runs.run import ACTIVE_FILES, RUN_FILES, RUNS, Run, find_run

BASE, OURS, THEIRS = "1", "2", "3"  # git's stages of a file in conflict


class Conflict(NamedTuple):
    """A file in conflict: its path from the project's root, its run (None: the active file), its blobs by stage."""

    path: str
    run: Run | None
    blobs: dict[str, str]

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]

    def side(self, stage: str) -> bytes | None:
        """Return the content of one side; None if that side does not have the file."""
        return git("cat-file", "blob", self.blobs[stage]) if stage in self.blobs else None


def find_conflicts(root: str, top: str) -> list[Conflict]:
    """Return the conflicts of runs' ledgers and states, and of the active file; all other files are the user's."""
    prefix = os.path.relpath(os.path.realpath(root), os.path.realpath(top)).replace(os.sep, "/") + "/"
    prefix = prefix.removeprefix("./")
    blobs: dict[str, dict[str, str]] = {}
    for entry in git("ls-files", "-u", "-z", at=top).split(b"\0"):
        described, tab, name = entry.partition(b"\t")
        if tab and described.startswith(b"100"):  # we write no links, so a link is not ours
            _, blob, stage = described.decode().split(" ")
            blobs.setdefault(os.fsdecode(name), {})[stage] = blob
    found = []
    for path, sides in blobs.items():
        inside = path.removeprefix(prefix)
        run = _run_of(root, inside) if path.startswith(prefix) else None
        if run is not None or (path.startswith(prefix) and inside in ACTIVE_FILES):
            found.append(Conflict(inside, run, sides))
    return found


def _run_of(root: str, path: str) -> Run | None:
    """Return the run whose ledger or state is at `path`; None for any other file."""
    for runs in RUNS:
        folder, _, name = path.removeprefix(runs + "/").rpartition("/")
        if path.startswith(runs + "/") and folder and name in RUN_FILES:
            try:
                run = find_run(root, folder)
            except InvalidRunId:
                return None
            directory = os.path.join(root, *runs.split("/"), *folder.split("/"))
            return run if run.directory == directory else None
    return None
