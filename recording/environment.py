"""The machine, directory and commit that a session runs on, and the clone it writes from."""

from __future__ import annotations

import os
import sys

from faber_ledger.runs.git import GitQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Environment


class Whereabouts:
    """Where this process runs, with git asked in the background for the commit."""

    def __init__(self, root: str, cwd: str | None = None) -> None:
        self.cwd = cwd or _working_directory() or root
        self._commit = GitQuery(["rev-parse", "--short", "HEAD"], root)

    def environment(self) -> Environment:
        """Give hostname, platform, cwd and git_commit (AGENT, Environment collection); null for what cannot be had."""
        return {
            "hostname": hostname(),
            "platform": os.uname().sysname.lower() if hasattr(os, "uname") else sys.platform,
            "cwd": self.cwd,
            "git_commit": self._commit.answer() or None,
        }


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed since this process was started
        return None


def hostname() -> str:
    """Give this machine's name; `FABER_LEDGER_HOSTNAME` stands in for it where the real one shall not be recorded."""
    given = os.environ.get("FABER_LEDGER_HOSTNAME")
    if given:
        return given
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
