"""Temporary folders that last as long as the process: what many tests copy."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import ExitStack
from pathlib import Path

_MADE = ExitStack()
remove_folders = _MADE.close
atexit.register(remove_folders)  # a process of pytest-xdist ends without it: conftest.py calls it there


def make_folder() -> Path:
    """Make an empty folder, and return it."""
    return Path(_MADE.enter_context(tempfile.TemporaryDirectory(prefix="faber-ledger-")))
