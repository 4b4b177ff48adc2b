"""The client's hooks, in its settings or in its plugin: adding, removing, and what to do where they are missing."""

import os

from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange, read_file, read_inside
from faber_ledger.hooks import client_settings
from faber_ledger.hooks.client_plugins import Plugin, list_enabled_plugins

# In the client's settings

EMPTY = "{}\n"


def settings_change(root: str, scope: str) -> FileChange:
    """Return the change that puts our hooks into a scope's settings; raises LedgerError for an unusable file."""
    path, before = read_settings(root, scope)
    found = (
        EMPTY
        if before is None
        else client_settings.keep_found(client_settings.decode_settings(before, display_path(path, root)), EMPTY)
    )
    return FileChange(path, before, client_settings.add_hooks(found).encode())


def settings_removal(root: str, scope: str) -> FileChange:
    """Return the change that removes our hooks from a scope's settings, or the file if it has nothing else.

    Raises LedgerError for an unusable file.
    """
    path, before = read_settings(root, scope)
    if before is None:
        return FileChange(path, None, None)
    text = client_settings.decode_settings(before, display_path(path, root))
    after = client_settings.remove_hooks(text).encode()
    alone = client_settings.has_hooks(text) and after == EMPTY.encode() and not os.path.islink(path)
    return FileChange(path, before, None if alone else after)


def describe_removal(root: str, scope: str) -> str:
    """Return how to take our hooks out of a scope's settings; `uninstall` leaves those that were written by hand."""
    for other, path, text in client_settings.readable_settings(root):
        if other == scope and client_settings.has_written_by_hand(text):
            return f"remove by hand the entries that run `faber-ledger hook` from {display_path(path, root)}"
    return f"run `faber-ledger uninstall{'' if scope == 'project' else f' --scope {scope}'}`"


def read_settings(root: str, scope: str) -> tuple[str, bytes | None]:
    """Return the path and content of a scope's settings; raises LedgerError for a project's that are outside of it."""
    path = client_settings.settings_path(scope, root)
    return path, read_file(path) if scope == "user" else read_inside(path, root)


# In the client's plugin


def plugin_instead(root: str, scope: str) -> Plugin | None:
    """Return a plugin that runs the hooks wherever a scope's settings would run them."""
    own = os.path.realpath(client_settings.settings_path("user", root))
    enabled = list_enabled_plugins(root)
    return next((one for one in enabled if scope != "user" or os.path.realpath(one.path or "") == own), None)


def describe_both(root: str, plugin: Plugin, files: dict[str, str]) -> tuple[str, str]:
    """Return that a plugin and settings files, by scope, both have the hooks; and how to keep them once."""
    shown = " and ".join([display_path(path, root) for path in files.values()])
    verb = "has" if len(files) == 1 else "have"
    removals = [describe_removal(root, scope) for scope in files]
    return (
        f"{shown} {verb} the hooks, and so has the plugin {plugin.name}: both run, and each delivery is recorded once",
        f"to keep only the plugin's, {' and '.join(removals)}; to keep only the others, `{plugin.command('disable')}`",
    )


def describe_idle(root: str, plugin: Plugin) -> tuple[str, str]:
    """Return why a plugin does not run here, and what changes that."""
    if plugin.scope is None:
        why, verb = "is not enabled here", "install"
    elif plugin.is_enabled:
        why, verb = f"is enabled in {display_path(plugin.path or '', root)}, but not installed", "install"
    else:
        why, verb = f"is switched off in {display_path(plugin.path or '', root)}", "enable"
    return f"the plugin {plugin.name} {why}", f"run `{plugin.command(verb)}`"
