"""How a project's ledgers travel (DECISIONS 57): with the code (`tree`), or each in a git ref of its own (`refs`).

The project's settings say what is meant. A clone sends and fetches only after its own `init --carry refs`, which keeps
its consent below the git directory: the remote's name, and whether hooks start the sending. Hooks ask no network: they
start one detached process, `faber-ledger sync --background`.
"""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger.disk import FileRefused, folder_around, read_regular, read_text
from faber_ledger.ledger.encoding import loads
from faber_ledger.runs.run import path_in_clone

TREE, REFS = "tree", "refs"
CARRY = "carry"  # in the project's settings
PROJECT_FILE = ".fractary/faber/ledger.json"
CONSENT = "carry.json"
LOCK = "sending.lock"  # of the clone's one process that sends
LIMIT = 65_536
PROGRAM = "from faber_ledger.cli.entry import main; main()"
_modes: dict[str, str] = {}  # by the project


class Consent:
    """What a clone's own `init` has agreed to: the remote, and whether hooks start the sending."""

    def __init__(self, remote: str, *, is_automatic: bool) -> None:
        self.remote = remote
        self.is_automatic = is_automatic


def carries_refs(root: str) -> bool:
    """Return whether a project's ledgers travel in git refs: then no `ledger.db` is written into its work tree.

    Where the project's settings do not say, as on a branch that is older than they are, the clone's consent does.
    """
    if root not in _modes:
        _modes[root] = meant_carry(root) or (REFS if consent_of(root) is not None else TREE)
    return _modes[root] == REFS


def assume_mode(root: str, mode: str) -> None:
    """Let this process go on as if ledgers travelled so: `init` is about to write it."""
    _modes[root] = mode


def meant_carry(root: str) -> str | None:
    """Return how a project's settings say that its ledgers travel; None if they do not."""
    path = os.path.join(root, *PROJECT_FILE.split("/"))
    try:
        text = read_text(path, LIMIT) if folder_around(path, [root]) is not None else None
        if text is None or f'"{CARRY}"' not in text:
            return None
        found = loads(text)[CARRY]
    except (FileRefused, ValueError, TypeError, LookupError, RecursionError):
        return None
    return found if found in (TREE, REFS) else None


def consent_of(root: str) -> Consent | None:
    """Return what this clone's `init` has agreed to; None if it never did, or without git."""
    path = path_in_clone(root, CONSENT)
    try:
        found = loads(read_regular(path, LIMIT).decode()) if path is not None else None
        return Consent(str(found["remote"]), is_automatic=bool(found["auto"])) if found is not None else None
    except (FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def sender_of(root: str) -> Consent | None:
    """Return the consent by which a clone sends and fetches now; None if it does neither."""
    return consent_of(root) if carries_refs(root) else None


def start_sending(root: str) -> None:
    """Start the clone's one process that sends, detached, unless `init` or a CI system wants none; never raises.

    It waits for one that is at work, so that it sends what was recorded since.
    """
    consent = sender_of(root)
    if consent is None or not consent.is_automatic or os.environ.get("CI", "") not in ("", "false", "0"):
        return
    command = [sys.executable, "-P", "-c", PROGRAM, "sync", "--background"]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        folder = os.getcwd()
        os.chdir(root)  # the process gets the working directory that this one has
        try:
            os.posix_spawn(command[0], command, os.environ, file_actions=nowhere, setsid=True)
        finally:
            os.chdir(folder)
    except (OSError, NotImplementedError):
        return  # the next start says what is unsent


def is_sending(root: str) -> bool:
    """Return whether the clone's process that sends is at work."""
    import fcntl  # asked only where something is unsent

    path = path_in_clone(root, LOCK)
    try:
        descriptor = os.open(path or "", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
