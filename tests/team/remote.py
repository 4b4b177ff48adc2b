"""What a site holds of runs whose ledgers travel in git refs, and the processes of clones that send them there."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold
from team.machine import read_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PREFIX = "refs/faber-ledger/"
SENDER = b"\0sync\0--background\0"  # the end of its command line
SECONDS = 120.0  # until the last one must have ended
PAUSE = 0.02


def ledgers_at(bare: Path, folder: Path) -> dict[str, Path]:
    """Write the ledger of each ref into a folder, and return the files by the ids of their runs."""
    form = "--format=%(refname)%09%(contents:subject)"
    lines = _git(bare, "for-each-ref", form, PREFIX).decode().splitlines()
    found = {}
    for number, (ref, _, run) in enumerate([line.partition("\t") for line in lines]):
        path = found[run] = folder / f"{number}.db"
        path.write_bytes(_git(bare, "cat-file", "blob", f"{ref}:ledger.db"))
    return found


def events_at(bare: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return each run's events in its ref, by their ids."""
    with tempfile.TemporaryDirectory(prefix="faber-team-") as folder:
        return {run: read_events(path) for run, path in ledgers_at(bare, Path(folder)).items()}


def open_sessions(ledger: Path) -> int:
    """Return how many sessions of a ledger have no end."""
    with Log.read(str(ledger)) as log:
        history = dict(fold(log.stream()))["sessions"]["session_history"]
    return sum(one.get("ended_at") is None for one in history)


def wait_for_senders(clones: list[Path]) -> bool:
    """Wait until no process of these clones sends; return whether that came to an end."""
    deadline = time.monotonic() + SECONDS
    while any(_senders(clones)):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _senders(clones: list[Path]) -> Iterator[Path]:
    """Yield the processes that send for one of these clones, from their first moment on; without /proc for any."""
    if not Path("/proc/self").exists():
        listed = subprocess.run(["ps", "-axo", "args="], capture_output=True, check=True).stdout
        yield from [Path(os.fsdecode(line)) for line in listed.splitlines() if line.endswith(b" sync --background")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            if not words or words.endswith(SENDER):  # a process that is about to be the program has no words yet
                root = Path(os.readlink(process / "cwd"))
                if any(root == clone or clone in root.parents for clone in clones):
                    yield process
        except OSError:
            continue  # it has ended


def _git(bare: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=bare, capture_output=True, check=True).stdout
