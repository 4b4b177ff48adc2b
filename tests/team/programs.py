"""The programs that a machine can have: this one, and none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from support.command import COMMAND
from support.program import program_folder


@dataclass(frozen=True)
class Program:
    """A version of the program. `folder`: what git finds on its PATH; None: the machine does not have it."""

    version: str
    folder: Path | None

    @property
    def is_this(self) -> bool:
        return self.version == "this"

    @property
    def command(self) -> str:
        """What starts it: this version is forked from a process that has imported it."""
        assert self.folder is not None
        return str(COMMAND) if self.is_this else str(self.folder / "faber-ledger")

    @property
    def path(self) -> str:
        """The PATH of a machine that has this program, and no other."""
        others = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "faber-ledger").exists()]
        return os.pathsep.join([*([str(self.folder)] if self.folder else []), *others])


def install() -> dict[str, Program]:
    """Return the programs: "this" and "none"."""
    return {"none": Program("none", None), "this": Program("this", Path(program_folder()))}
