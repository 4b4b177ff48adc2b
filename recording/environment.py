"""The machine, directory and commit that a session runs on."""

from __future__ import annotations

import os
import sys

from faber_ledger.runs.git import GitQuery, other_roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Environment

NEWEST_SESSIONS = 8  # of a run, that are asked where they ran


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


def sessions_elsewhere(state: dict[str, Any], root: str) -> list[bool]:
    """Return for each of a run's newest sessions, newest first, whether it ran on another machine or in another clone.

    It looks at the state alone, since every start asks.
    """
    sessions = state.get("sessions")
    history = sessions.get("session_history") if isinstance(sessions, dict) else None
    newest = history[-NEWEST_SESSIONS:] if isinstance(history, list) else []
    return [_is_elsewhere(entry, root) for entry in reversed(newest)]


def _is_elsewhere(entry: object, root: str) -> bool:
    environment = entry.get("environment") if isinstance(entry, dict) else None
    if not isinstance(environment, dict):
        return False
    machine, cwd = environment.get("hostname"), environment.get("cwd")
    if isinstance(machine, str) and machine != hostname():
        return True
    if not isinstance(cwd, str) or _is_in(cwd, root):
        return False
    return not any([_is_in(cwd, one) for one in other_roots(root)])


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
