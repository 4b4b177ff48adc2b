"""Runs' files that a merge left in conflict, as git's index has them."""

from __future__ import annotations

import os
from typing import NamedTuple

from faber_ledger.runs.git_command import git
from faber_ledger.runs.run import ACTIVE_FILES, LEDGER, STATE, Run, run_at

BASE, OURS, THEIRS = "1", "2", "3"  # git's stages of a file in conflict


class Conflict(NamedTuple):
    """A file in conflict: its path from the project's root, its run (None: the active file), its blobs by stage.

    `kind` is one of `RUN_FILES`, whatever the file's name is; empty for the active file.
    """

    path: str
    run: Run | None
    kind: str
    blobs: dict[str, str]

    @property
    def is_ledger(self) -> bool:
        """Whether the file is a run's ledger."""
        return self.kind == LEDGER

    @property
    def is_state(self) -> bool:
        """Whether the file is a run's state."""
        return self.kind == STATE

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
        if not path.startswith(prefix):
            continue
        run, kind = run_at(root, inside) or (None, "")
        if run is not None or inside in ACTIVE_FILES:
            found.append(Conflict(inside, run, kind, sides))
    return found
