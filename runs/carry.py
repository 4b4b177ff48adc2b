"""What a clone has agreed to of ledgers that travel by themselves (DECISIONS 57), and the process that sends them.

A clone sends and fetches git refs only after its own `init --carry refs`, which keeps its consent below the git
directory: the remote's name, and whether hooks start the sending. `team join` keeps the team's server there. Hooks ask
no network: they start one detached process, `faber-ledger sync --background`.
"""

from __future__ import annotations

import os
import sys

from faber_ledger.ledger import disk
from faber_ledger.ledger.clock import now
from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.errors import Locked, NotWritable
from faber_ledger.runs.clone import make_below
from faber_ledger.runs.publish import meant_carry
from faber_ledger.runs.run import CONSENT, TREE, clone_folder, main_root, path_in_clone, private_folder
from faber_ledger.runs.seen import Note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = "sending.lock"  # of the clone's one process that sends
SECONDS_TO_SEND = 60  # in which the process that sends ends
SYNCED = "synced.json"
CUT = "it was cut off"
PROGRAM = "import os, sys; os.chdir(sys.argv.pop(1)); from faber_ledger.cli.entry import main; main()"


class Consent(Note):
    """What a clone has agreed to: the remote, and whether hooks start the sending.

    `url` is the digest of the remote's URL that was agreed to, which may have a password in it. An empty remote says
    that nobody agreed. `server` is the digest of the server's address with which hooks start an exchange, empty if with
    none.
    """

    remote: str = ""
    is_automatic: bool = False
    url: str = ""
    server: str = ""

    def __init__(self, root: str) -> None:
        super().__init__(path_in_clone(root, CONSENT) or "")

    def keep(self) -> None:
        """Write what was agreed to, or remove the file of a clone that has agreed to nothing; raises OSError."""
        if self.remote or self.server:
            self.save(durable=True)
        else:
            disk.remove(self.path)


class SyncedNote(Note):
    """When a project was last exchanged with the server, and why that failed since, if it did.

    `run` is the run that was last exchanged alone, at `run_at`.
    """

    at: float = 0.0
    problem: str = ""
    run: str = ""
    run_at: float = 0.0

    def __init__(self, root: str) -> None:
        super().__init__(os.path.join(private_folder(root), SYNCED))


def note_synced(root: str, digest: Callable[[], str], run_id: str | None) -> None:
    """Note that a project, or one run, was exchanged with a server, if that is the one that this clone has joined."""
    joined = Consent(root).server
    if joined and joined == digest():
        note = SyncedNote(root)
        if run_id is None:
            note.problem, note.at = "", now()
        else:
            note.run, note.run_at = run_id, now()
        note.save()


def describe_unsynced(root: str) -> str | None:
    """Return why the background process could not exchange a project with the server; None if it could, or is at it."""
    problem = SyncedNote(root).problem if Consent(root).server else ""
    if not problem or is_sending(root):
        return None
    return f"the exchange with the server failed ({problem}): run `faber-ledger sync --all`"


def consent_of(root: str) -> Consent | None:
    """Return what this clone's `init` has agreed to; None if it never did, or without git."""
    consent = Consent(root)
    return consent if consent.remote else None


def join_server(root: str, server: str) -> None:
    """Keep the digest of the server's address with which hooks start an exchange, empty for none; raises OSError."""
    folder = clone_folder(root)
    if folder is not None:
        make_below(root, folder)
        consent = Consent(root)
        consent.server = server
        consent.keep()


def withdraw_consent(root: str) -> None:
    """Forget the remote that this clone has agreed to, but not a server."""
    consent = Consent(root)
    consent.remote = consent.url = ""
    consent.keep()


def sender_of(root: str) -> Consent | None:
    """Return the consent by which a clone sends and fetches; None if it does neither.

    On a branch that is older than the project's choice it does; where the project has chosen `tree`, it does not.
    """
    return consent_of(root) if meant_carry(root) != TREE else None


def start_sending(root: str) -> bool:
    """Start the clone's one process that sends, detached, unless the user or a CI system wants none; never raises.

    Return whether it was started. It waits for one that is at work, so that it sends what was recorded since. It works
    in the main work tree, since others are removed.
    """
    found = next(filter(_sends_automatically, [main_root(root), root]), None)
    if found is None or os.environ.get("CI", "") not in ("", "false", "0"):
        return False
    command = [sys.executable, "-P", "-c", PROGRAM, found, "sync", "--background"]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=nowhere, setsid=True)
    except (OSError, NotImplementedError):
        return False  # the next start says what is unsent
    return True


def _sends_automatically(root: str) -> bool:
    consent = Consent(root)
    return bool(consent.server) or (consent.is_automatic and sender_of(root) is not None)


def is_sending(root: str) -> bool:
    """Return whether the clone's process that sends is at work."""
    try:
        with RunLock(path_in_clone(root, LOCK) or "", 0):
            return False
    except Locked:
        return True
    except NotWritable:
        return False
