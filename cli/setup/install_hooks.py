"""The client's settings file with our hooks in it."""

from __future__ import annotations

import os

from faber_ledger.cli.setup.changes import display_path
from faber_ledger.files.change import FileChange, read_file
from faber_ledger.files.untrusted import folder_around
from faber_ledger.hooks.client_plugins import list_settings_with_hooks, list_unanswered
from faber_ledger.hooks.client_settings import (
    add_hooks,
    decode_settings,
    has_hooks,
    has_written_by_hand,
    keep_found,
    readable_settings,
    remove_hooks,
    settings_path,
    unreadable_settings,
)
from faber_ledger.ledger.errors import LedgerError

EMPTY = "{}\n"


def settings_change(root: str, scope: str) -> FileChange:
    """Return the change that puts our hooks into a scope's settings; raises LedgerError for an unusable file."""
    path, before = read_settings(root, scope)
    found = EMPTY if before is None else keep_found(decode_settings(before, display_path(path, root)), EMPTY)
    return FileChange(path, before, add_hooks(found).encode())


def reason_without_hooks(root: str, scope: str) -> str | None:
    """Return why the settings of a scope, which have no hooks, get none; None if they may.

    Other settings that the client reads here have the hooks: with both, both may run. Beside those that `init` wrote,
    the project's and the user's get the same, which the client runs once; the project's on this machine need none. Nor
    do these get any beside settings that are not readable, and may have the hooks.
    """
    held = dict(list_settings_with_hooks(root))
    own = settings_path(scope, root)
    if os.path.realpath(own) in [os.path.realpath(path) for path in held.values()]:
        return None
    without = f"none were added to {display_path(own, root)}"
    for path, why in unreadable_settings(root) if scope == "local" else ():
        if path != own:
            return f"{display_path(path, root)} is not read here ({why}) and may have the hooks: {without}"
    by_hand = [other for other, _, text in readable_settings(root) if has_written_by_hand(text)]
    for other, path in held.items():
        if scope != "local" and other not in by_hand:
            continue
        command = "faber-ledger init" if other == "project" else f"faber-ledger init --scope {other}"
        left = f"; `{command}` adds those that it lacks" if list_unanswered(root) else ""
        return f"{display_path(path, root)} has the hooks: {without}{left}"
    return None


def settings_removal(root: str, scope: str) -> FileChange:
    """Return the change that removes our hooks from a scope's settings, or the file if it has nothing else.

    Raises LedgerError for an unusable file.
    """
    path, before = read_settings(root, scope)
    if before is None:
        return FileChange(path, None, None)
    text = decode_settings(before, display_path(path, root))
    after = remove_hooks(text).encode()
    alone = has_hooks(text) and after == EMPTY.encode() and not os.path.islink(path)
    return FileChange(path, before, None if alone else after)


def describe_removal(root: str, *scopes: str) -> str:
    """Return how to take our hooks out of the settings of one of the scopes: of the first where `uninstall` does it.

    It leaves those that were written by hand.
    """
    by_hand = {scope: path for scope, path, text in readable_settings(root) if has_written_by_hand(text)}
    for scope in scopes:
        if scope not in by_hand:
            return f"run `faber-ledger uninstall{'' if scope == 'project' else f' --scope {scope}'}`"
    path = display_path(by_hand[scopes[0]], root)
    return f"remove by hand the entries that run `faber-ledger hook` from {path}"


def read_settings(root: str, scope: str) -> tuple[str, bytes | None]:
    """Return the path and content of a scope's settings; raises LedgerError for a project's that are outside of it."""
    path = settings_path(scope, root)
    if scope != "user" and folder_around(path, [root]) is None:
        raise LedgerError(
            f"{display_path(path, root)} is a link that leads out of the project: {os.path.realpath(path)}",
            hint="replace the link with a file, or use `--scope user` for settings of your own",
        )
    return path, read_file(path)
