"""Keep a file before it is changed or replaced: a private copy of it, and a name that is free."""

from __future__ import annotations

import os
import shutil

from faber_ledger.ledger.disk import sync_directory


def copy_private(path: str, copy: str) -> None:
    """Copy a file durably to a new one that only its owner can read; raises OSError, also if `copy` exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(path, "rb") as source, open(os.open(copy, flags, 0o600), "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    sync_directory(os.path.dirname(copy))


def free_name(stem: str, ending: str = "") -> str:
    """Return a path that does not exist: the stem with the ending, else with `-2`, `-3` and so on between them.

    What stands in the way may have come with a repository, and `os.replace` fails on a folder.
    """
    path, number = stem + ending, 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
