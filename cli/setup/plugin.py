"""The client's plugins that have our hooks, as `init` and `uninstall` see them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.cli.setup.changes import display_path
from faber_ledger.cli.setup.install_hooks import describe_removal
from faber_ledger.context.plugins import problem_of_list
from faber_ledger.hooks.client_plugins import (
    NAME,
    list_enabled_plugins,
    list_plugins,
    list_settings_with_hooks,
    recent_plugin_delivery,
    unlisted_plugin_delivery,
)
from faber_ledger.hooks.client_settings import settings_path, unreadable_settings
from faber_ledger.ledger.clock import now, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.hooks.client_plugins import Plugin

HOW_TO_GET_IT = (
    "`claude plugin marketplace add SOURCE`, where SOURCE is the folder or address of faber-ledger's repository, "
    f"then `claude plugin install {NAME}`"
)


def has_plugin_instead(root: str, scope: str, *, is_scope_given: bool) -> bool:
    """Return whether a plugin runs the hooks wherever a scope's settings would run them.

    Deliveries alone show one as long as nobody asks for the settings of a scope, and no settings have the hooks.
    """
    own = os.path.realpath(settings_path("user", root))
    if any([scope != "user" or os.path.realpath(plugin.path or "") == own for plugin in list_enabled_plugins(root)]):
        return True
    return not (is_scope_given or list_settings_with_hooks(root)) and unlisted_plugin_delivery(root, now()) is not None


def describe_plugins(root: str, scope: str, *, are_settings_written: bool) -> Iterator[str]:
    """Say which plugin runs the hooks, and which settings files have them too once those of a scope are written."""
    for path, why in unreadable_settings(root):
        yield f"{display_path(path, root)} is not read here ({why}): whether it has the hooks or a plugin is not known"
    files = dict(list_settings_with_hooks(root))
    if are_settings_written:
        files.setdefault(scope, settings_path(scope, root))
    plugins = list_enabled_plugins(root)
    for plugin in plugins:
        if is_missing(root, plugin, now()):
            added = "" if files else "; no hooks were added to the client's settings"
            yield "; ".join(describe_missing(root, plugin, are_in_settings=bool(files))) + added
        elif files:
            yield "; ".join(describe_both(root, plugin, files))
        else:
            yield f"the plugin {plugin.name} runs the hooks: none were added to the client's settings"
    seen = None if plugins else recent_plugin_delivery(root, now())
    if seen is not None and are_settings_written:
        yield (
            f"the hook of a plugin made a delivery here at {utc_text(seen)}: where that plugin stays, both run, and "
            "each delivery is recorded once"
        )
    elif seen is not None and not files:
        yield (
            f"the hook of a plugin made a delivery here at {utc_text(seen)}: no hooks were added to the client's "
            "settings; once that plugin is gone, run `faber-ledger init --scope project`"
        )


def describe_both(root: str, plugin: Plugin, files: dict[str, str]) -> tuple[str, str]:
    """Return that a plugin and settings files, by scope, both have the hooks; and how to keep them once."""
    shown = " and ".join([display_path(path, root) for path in files.values()])
    verb = "has" if len(files) == 1 else "have"
    removals = [describe_removal(root, scope) for scope in files]
    return (
        f"{shown} {verb} the hooks, and so has the plugin {plugin.name}: both run, and each delivery is recorded once",
        f"to keep only the plugin's, {' and '.join(removals)}; to keep only the others, `{plugin.command('disable')}`",
    )


def is_missing(root: str, plugin: Plugin, at: float) -> bool:
    """Return whether settings enable a plugin that the client seems not to have: it has no source and was not seen."""
    return not plugin.has_source and recent_plugin_delivery(root, at) is None


def describe_missing(root: str, plugin: Plugin, *, are_in_settings: bool) -> tuple[str, str]:
    """Return that an enabled plugin is not installed, and how to install it unless settings have the hooks."""
    where, problem = display_path(plugin.path or "", root), problem_of_list(root, plugin.name)
    return (
        f"{where} enables the plugin {plugin.name}, but the client's list of installed plugins {problem}",
        "nothing while the settings have the hooks" if are_in_settings else f"run `{plugin.command('install')}`",
    )


def note_without_plugin(root: str) -> Iterator[str]:
    """Say how to get the plugin where none runs the hooks."""
    if list_enabled_plugins(root) or recent_plugin_delivery(root, now()) is not None:
        return
    known = list_plugins(root)
    if [*unreadable_settings(root)] and not any([plugin.scope is not None for plugin in known]):
        return  # one of them may enable it
    if not known:
        yield f"no plugin runs the hooks here yet: run {HOW_TO_GET_IT}"
    elif known[0].scope is not None:
        yield f"the plugin {known[0].name} is switched off here: run `{known[0].command('enable')}`"
    else:
        yield f"the plugin {known[0].name} is installed, but not for this project: run `{known[0].command('install')}`"
