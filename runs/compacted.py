"""Which clients wait for their packet: those that were compacted, and send no start after it.

A file beside what `clients` keeps of each, under the name of its first file, and swept with it.
"""

from __future__ import annotations

import os

from faber_ledger.ledger import disk
from faber_ledger.runs.clients import client_path
from faber_ledger.runs.clone import make_below

ENDING = ".compacted"


def note_compaction(root: str, client: str | None) -> None:
    """Note that a client is about to be compacted; nothing is noted without git, and a failure is not reported."""
    path = client_path(root, client)
    if path is None:
        return
    try:
        make_below(root, os.path.dirname(path), durable=False)
        disk.put(path + ENDING, b"", mode=disk.OWN, durable=False, locked=False)
    except OSError:
        pass  # the agent has no packet until its next start


def take_compaction(root: str, client: str | None) -> bool:
    """Return whether a client was noted, and forget it: of two calls at the same time, one gets it."""
    path = client_path(root, client)
    if path is None:
        return False
    try:
        os.unlink(path + ENDING)
    except OSError:
        return False
    return True
