"""Where temporary folders are, and those that last as long as the process: what many tests copy."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

MEMORY, NEEDED_BYTES = "/dev/shm", 4 << 30
_MADE = ExitStack()
remove_folders = _MADE.close
atexit.register(remove_folders)  # a process of pytest-xdist ends without it: conftest.py calls it there


def make_folder() -> Path:
    """Make an empty folder, and return it."""
    return Path(_MADE.enter_context(tempfile.TemporaryDirectory(prefix="faber-ledger-")))


def copy_prepared(make: Callable[[Path], object], to: Path) -> None:
    """Copy into a folder what a function makes in an empty one, which it does once a process."""
    shutil.copytree(_prepared(make), to, symlinks=True, dirs_exist_ok=True)


@functools.cache
def _prepared(make: Callable[[Path], object]) -> Path:
    folder = make_folder()
    make(folder)
    return folder


def move_to_memory() -> None:
    """Put temporary files in memory where it has room: durable writes are tested by their calls, not by a disk."""
    if "TMPDIR" in os.environ or not os.path.isdir(MEMORY):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= NEEDED_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY  # pytest has asked for it already
