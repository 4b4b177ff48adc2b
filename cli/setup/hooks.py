"""The client's hooks, in its settings or in its plugin: adding, removing, and what to do where they lack."""

import os
from collections.abc import Iterator

from faber_ledger.cli.setup.agents import list_agents
from faber_ledger.cli.ui.changes import display_path
from faber_ledger.files.change import FileChange, read_file, read_inside
from faber_ledger.hooks import client_settings
from faber_ledger.hooks.client_plugins import NAME, Plugin, list_enabled_plugins, list_plugins, list_settings_with_hooks
from faber_ledger.recording.call import HOOKS

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

HOW_TO_GET_IT = (
    "`claude plugin marketplace add SOURCE`, where SOURCE is the folder or address of faber-ledger's repository, "
    f"then `claude plugin install {NAME}`"
)


def has_plugin_instead(root: str, scope: str) -> bool:
    """Return whether a plugin runs the hooks wherever a scope's settings would run them."""
    own = os.path.realpath(client_settings.settings_path("user", root))
    return any([scope != "user" or os.path.realpath(one.path or "") == own for one in list_enabled_plugins(root)])


def describe_plugins(root: str, scope: str, *, are_settings_written: bool) -> Iterator[str]:
    """Say which plugin runs the hooks, and which settings files have them too once those of a scope are written."""
    files = dict(list_settings_with_hooks(root))
    if are_settings_written:
        files.setdefault(scope, client_settings.settings_path(scope, root))
    for plugin in list_enabled_plugins(root):
        if files:
            yield "; ".join(describe_both(root, plugin, files))
        else:
            yield f"the plugin {plugin.name} runs the hooks: none were added to the client's settings"


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


def note_without_plugin(root: str) -> Iterator[str]:
    """Say how to get the plugin where none runs the hooks."""
    known = list_plugins(root)
    if not known:
        yield f"no plugin runs the hooks here yet: run {HOW_TO_GET_IT}"
    elif not list_enabled_plugins(root):
        yield ": ".join(describe_idle(root, known[0]))


# Where they lack


def describe_agents_alone(root: str, left: list[str]) -> tuple[str, str] | None:
    """Return that other agents have our hooks and the client lacks all, and what to do; None where it is otherwise.

    `left` are the events for which the client runs no hook of ours.
    """
    agents = list_agents(root)
    if not agents or len(left) < len(HOOKS) or list_plugins(root):
        return None
    named = [f"{display_path(one.path, root)} has the hooks of {one.agent}" for one in agents]
    return (
        f"{', '.join(named)}; the client itself has none: what it does is not recorded",
        "nothing if you do not use it here; else run `faber-ledger init`",
    )
