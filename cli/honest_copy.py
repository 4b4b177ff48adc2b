"""Where a clone still has unchanged the events that somebody has changed in a ledger, and what mends it."""

from __future__ import annotations

import os
import shlex
import sqlite3
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.foreign import opened
from faber_ledger.ledger.row import HASH, ROW, hash_of
from faber_ledger.runs.clone import mirror_path
from faber_ledger.runs.git_command import GitFailed, asked

if TYPE_CHECKING:
    from collections.abc import Collection

    from faber_ledger.runs.run import Run

UNITE = "faber-ledger union ledger.db {} -o ledger.db"


def mending_hint(run: Run, names: Collection[str]) -> str | None:
    """Say what puts changed events back from this clone's mirror, or from HEAD; None if neither has them all."""
    mirror = mirror_path(run)
    if mirror is not None and os.path.isfile(mirror) and _has_all(mirror, names):
        command = UNITE.format(shlex.quote(mirror))
        return f"run `{command}` in the run's folder: this clone's mirror has it unchanged"
    with tempfile.TemporaryDirectory(prefix="faber-ledger-") as folder, suppress(GitFailed):
        found = asked("cat-file", "blob", "HEAD:./ledger.db", at=run.directory)
        copy = os.path.join(folder, "ledger.db")
        with open(copy, "wb") as file:
            file.write(found.stdout)
        if found.returncode == 0 and _has_all(copy, names):
            command = "git cat-file blob HEAD:./ledger.db > unchanged.db && " + UNITE.format("unchanged.db")
            return f"run `{command}` in the run's folder: git's last commit has it unchanged"
    return None


def _has_all(path: str, names: Collection[str]) -> bool:
    try:
        with opened(path) as log:
            for name in names:
                row = log.connection.execute(f"{ROW} WHERE id = ?", (name,)).fetchone()
                if row is None or hash_of(row) != row[HASH]:
                    return False
    except (LedgerError, OSError, sqlite3.Error):
        return False
    return True
