"""What a clone has agreed to of ledgers that travel in git refs (DECISIONS 57), and the process that sends them.

A clone sends and fetches only after its own `init --carry refs`, which keeps its consent below the git directory: the
remote's name, and whether hooks start the sending. Hooks ask no network: they start one detached process,
`faber-ledger sync --background`.
"""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.errors import Locked, NotWritable
from faber_ledger.runs.publish import meant_carry
from faber_ledger.runs.run import CONSENT, TREE, main_root, path_in_clone
from faber_ledger.runs.seen import Note

LOCK = "sending.lock"  # of the clone's one process that sends
PROGRAM = "import os, sys; os.chdir(sys.argv.pop(1)); from faber_ledger.cli.entry import main; main()"


class Consent(Note):
    """What a clone's own `init` has agreed to: the remote, and whether hooks start the sending.

    `url` is the digest of the remote's URL that was agreed to, which may have a password in it. An empty remote says
    that nobody agreed.
    """

    remote: str = ""
    is_automatic: bool = False
    url: str = ""

    def __init__(self, root: str) -> None:
        super().__init__(path_in_clone(root, CONSENT) or "")


def consent_of(root: str) -> Consent | None:
    """Return what this clone's `init` has agreed to; None if it never did, or without git."""
    consent = Consent(root)
    return consent if consent.remote else None


def sender_of(root: str) -> Consent | None:
    """Return the consent by which a clone sends and fetches; None if it does neither.

    On a branch that is older than the project's choice it does; where the project has chosen `tree`, it does not.
    """
    return consent_of(root) if meant_carry(root) != TREE else None


def start_sending(root: str) -> bool:
    """Start the clone's one process that sends, detached, unless `init` or a CI system wants none; never raises.

    Return whether it was started. It waits for one that is at work, so that it sends what was recorded since. It works
    in the main work tree, since others are removed.
    """
    root = next(filter(sender_of, [main_root(root), root]), root)
    consent = sender_of(root)
    if consent is None or not consent.is_automatic or os.environ.get("CI", "") not in ("", "false", "0"):
        return False
    command = [sys.executable, "-P", "-c", PROGRAM, root, "sync", "--background"]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=nowhere, setsid=True)
    except (OSError, NotImplementedError):
        return False  # the next start says what is unsent
    return True


def is_sending(root: str) -> bool:
    """Return whether the clone's process that sends is at work."""
    try:
        with RunLock(path_in_clone(root, LOCK) or "", 0):
            return False
    except Locked:
        return True
    except NotWritable:
        return False
