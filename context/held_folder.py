"""A folder held open, so that it is found again when somebody renames it under a running hook."""

from __future__ import annotations

import os
import sys


class HeldFolder:
    """The folder at `path`, or none if it cannot be opened; held until the process ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:
            pass  # Windows opens no folder, and renames none in which a process has a file open

    def now(self) -> str | None:
        """Give where the folder is now; None if it is gone, or nobody knows where to.

        It stays held, since it may be renamed again: what stands at its old place then is another one.
        """
        if self._descriptor < 0:
            return self.path if os.path.isdir(self.path) else None
        held = os.fstat(self._descriptor)
        for path in (self.path, _name_of(self._descriptor)):
            if _is(path, held):
                return path
        return None


def _name_of(descriptor: int) -> str:
    """Ask the system for the name of an open folder; empty if it does not say."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _is(path: str, held: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), held)
    except OSError:
        return False
