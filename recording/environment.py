"""The machine, directory and commit that a session runs on."""

from __future__ import annotations

import os
import sys

from faber_ledger.runs.git import GitQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Environment


class EnvironmentQuery:
    """Where this process runs; git is asked for the commit in the background, from the moment this is made."""

    def __init__(self, root: str, cwd: str | None = None) -> None:
        self.cwd = cwd or _working_directory() or root
        self._commit = GitQuery(["rev-parse", "--short", "HEAD"], root)

    def read(self) -> Environment:
        """Return hostname, platform, cwd and git_commit (AGENT, Environment collection); None for what is unknown."""
        return {
            "hostname": hostname(),
            "platform": os.uname().sysname.lower() if hasattr(os, "uname") else sys.platform,
            "cwd": self.cwd,
            "git_commit": self._commit.answer() or None,
        }


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed after this process started
        return None


def hostname() -> str:
    """Return this machine's name, or `FABER_LEDGER_HOSTNAME` where the real one must not be recorded."""
    given = os.environ.get("FABER_LEDGER_HOSTNAME")
    if given:
        return given
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
