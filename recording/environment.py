"""The machine, directory and commit that a session runs on."""

from __future__ import annotations

import os
import sys

from faber_ledger.runs.git import common_directory, other_roots, read_config
from faber_ledger.runs.git_refs import commit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from faber_ledger.ledger.events import Environment

FEWEST = 7  # digits of a commit that git shows
NEWEST_SESSIONS = 8  # of a run, that are asked where they ran


def read_environment(root: str, cwd: str | None = None) -> Environment:
    """Return hostname, platform, cwd and git_commit (AGENT, Environment collection); None for what is unknown.

    The commit is read from git's files; git is asked only where it keeps its references in tables. It has as many
    digits as `git rev-parse --short` shows where so many name one object (DECISIONS 18).
    """
    commit = commit_of(root)
    if commit is None and os.path.isdir(os.path.join(common_directory(root) or os.devnull, "reftable")):
        from faber_ledger.runs.git_query import GitQuery  # only where git keeps its references in tables

        commit = GitQuery(["rev-parse", "HEAD"], root).answer()
    return {
        "hostname": hostname(),
        "platform": os.uname().sysname.lower() if hasattr(os, "uname") else sys.platform,
        "cwd": cwd or _working_directory() or root,
        "git_commit": commit[: _digits(common_directory(root) or "")] if commit else None,
    }


def _digits(common: str) -> int:
    """Return how many digits `git rev-parse --short` shows of a commit: by `core.abbrev`, or the objects in packs."""
    said = read_config(common, "core", "abbrev") or ""
    if said.isdecimal():
        return max(4, int(said))
    folder, count = os.path.join(common, "objects", "pack"), 0
    try:
        for name in [name for name in os.listdir(folder) if name.endswith(".idx")]:
            with open(os.path.join(folder, name), "rb") as index:
                index.seek(8 + 255 * 4)  # the last of 256 sums
                count += int.from_bytes(index.read(4), "big")
    except OSError:
        pass  # there are no packs, or git is just replacing them
    return max(FEWEST, (count.bit_length() + 1) // 2)


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
