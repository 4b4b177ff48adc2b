"""A process that holds a run's lock."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.project import Project

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def start_holder(project: Project) -> subprocess.Popen[bytes]:
    """Start a process that holds the run's lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.lock_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process
