"""The client's settings file with our hooks in it."""

from __future__ import annotations

import os

from faber_ledger.cli.setup.changes import display_path
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_settings import add_hooks, decode_settings, settings_path
from faber_ledger.ledger.errors import LedgerError


def settings_change(root: str, scope: str) -> FileChange:
    """Return the change that puts our hooks into a scope's settings; raises LedgerError for an unusable file."""
    path = settings_path(scope, root)
    if scope != "user" and folder_around(path, [root]) is None:
        raise LedgerError(
            f"{display_path(path, root)} is a link that leads out of the project: {os.path.realpath(path)}",
            hint="replace the link with a file, or use `--scope user` for settings of your own",
        )
    before = read_file(path)
    text = add_hooks("{}\n" if before is None else decode_settings(before, display_path(path, root)))
    return FileChange(path, before, text.encode())
