"""The client's settings file, as `init` would change it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.setup.changes import (
    shown_path,
)
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_settings import decode_settings, settings_path, with_hooks
from faber_ledger.ledger.errors import LedgerError

if TYPE_CHECKING:
    pass


def settings_change(root: str, scope: str) -> FileChange:
    """Plan the settings of a scope with our hooks in them; raises LedgerError for a file that cannot be used."""
    path = settings_path(scope, root)
    if scope != "user" and folder_around(path, [root]) is None:
        raise LedgerError(
            f"{shown_path(path, root)} is a link that leads out of the project: {os.path.realpath(path)}",
            hint="put a file in its place, or take `--scope user` for settings of your own",
        )
    before = read_file(path)
    text = with_hooks("{}\n" if before is None else decode_settings(before, shown_path(path, root)))
    return FileChange(path, before, text.encode())
