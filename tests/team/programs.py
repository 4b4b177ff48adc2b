"""The versions of the program that a machine can have: this one, 0.1.0 from the repository's history, and none."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from support.archives import extract
from support.command import COMMAND
from support.fork_server import CLOCK

REPOSITORY = Path(__file__).resolve().parents[2]
OLD = "0.1.0"
# git starts merge drivers and hooks itself, so what it finds on the PATH keeps the simulation's time too.
LAUNCHER = """\
#!{python}
import os, sys, time
sys.path[:0] = {sources}
present = float(os.environ["{clock}"])
time.time = lambda: present
from faber_ledger.cli.entry import main
main()
"""


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


def install(folder: Path) -> dict[str, Program]:
    """Install the versions that there are: "this", "none" and, if the repository's history has it, 0.1.0."""
    found = {"none": Program("none", None), "this": _launch(folder, "this", [])}
    archive = _archive_old()
    if archive is not None:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            extract(packed, folder / OLD)
        found[OLD] = _launch(folder, OLD, [str(folder / OLD / "src")])
    return found


def _launch(folder: Path, version: str, sources: list[str]) -> Program:
    launcher = folder / f"bin-{version}" / "faber-ledger"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(LAUNCHER.format(python=sys.executable, sources=sources, clock=CLOCK))
    launcher.chmod(0o755)
    return Program(version, launcher.parent)


def _archive_old() -> bytes | None:
    """Return the repository as the last commit of 0.1.0 has it; None if this clone lacks that commit."""
    version_file = "src/faber_ledger/__init__.py"
    asked = ["log", "-1", "--format=%P", f'-S__version__ = "{OLD}"', "--", version_file]
    try:
        parent = subprocess.run(["git", *asked], cwd=REPOSITORY, capture_output=True, check=True).stdout.split()[0]
        done = subprocess.run(["git", "archive", parent.decode()], cwd=REPOSITORY, capture_output=True, check=True)
    except (subprocess.CalledProcessError, FileNotFoundError, IndexError):
        return None
    return done.stdout
