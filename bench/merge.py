"""Time `git merge` of a ledger on two branches, through the merge driver. Arguments: a ledger, a folder, rounds.

Each branch adds 500 events to the ledger. Prints the seconds of each round as JSON, each with the processor time of git
and the driver: [[..., ...], ...].
"""

from __future__ import annotations

import itertools
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from long_log import BEGIN, drafts

from faber_ledger.ledger.log import Log

APART = 500
GIT = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@example.invalid", "-c", "gc.auto=0"]
COMMAND = Path(sys.executable).with_name("faber-ledger")


def main() -> None:
    """Make the repository, merge in each round, and print how long each merge took."""
    ledger, folder, rounds = sys.argv[1], Path(sys.argv[2]) / "merge", int(sys.argv[3])
    path = folder / ".fractary" / "runs" / "bench" / "ledger.db"
    path.parent.mkdir(parents=True)
    shutil.copyfile(ledger, path)
    _git(folder, "init", "--quiet", "--initial-branch=ours")
    subprocess.run([COMMAND, "init", "--git-only"], cwd=folder, check=True, capture_output=True)
    _commit(folder)
    _git(folder, "branch", "theirs")
    for number, branch in enumerate(("ours", "theirs")):
        _git(folder, "checkout", "--quiet", branch)
        with Log.open(str(path)) as log:
            log.append(itertools.islice(drafts(), APART), at=BEGIN, writer=f"{number:032x}")
            log.commit()
        _commit(folder)
    seconds = []
    for _ in range(rounds):
        _git(folder, "checkout", "--quiet", "--force", "--detach", "ours")
        start, before = time.perf_counter(), _processor()
        _git(folder, "merge", "--quiet", "--no-edit", "theirs")
        seconds.append([time.perf_counter() - start, _processor() - before])
    print(json.dumps(seconds))


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "Bench")


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
