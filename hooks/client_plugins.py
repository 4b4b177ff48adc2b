"""Which hooks of ours a client runs that is started in a folder: those of its settings, and those of our plugin.

`enabledPlugins` of the three settings files says which plugins run: what the local file says of one counts before the
project's, and that before the user's. A plugin that no file names does not run, though it may be installed. These files
may have come with the repository: of the plugins that they name, only that of our own marketplace is ours.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.client_settings import is_answered, readable_settings
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.settings import list_named

NAME = "faber-ledger@faber-ledger"
OURS = re.compile(re.escape(NAME))
PRECEDENCE = ("user", "project", "local")  # of settings files: the last one that names a plugin decides


class Plugin(NamedTuple):
    """A plugin, as one marketplace offers it.

    `scope` and `path` are of the settings file that decides about it; None if no file names it. `has_source` says
    whether the client has it, or knows from its settings where to get it.
    """

    name: str
    scope: str | None
    path: str | None
    is_enabled: bool
    has_source: bool

    def command(self, verb: str) -> str:
        """Return the client's command that does something with the plugin where it is enabled."""
        return f"claude plugin {verb} {self.name}{'' if self.scope in (None, 'user') else f' --scope {self.scope}'}"


def list_plugins(root: str, names: re.Pattern[str] = OURS) -> list[Plugin]:
    """Return the plugins of such names, ours by default, that the client's settings or its list name, enabled first."""
    texts = {scope: (path, text) for scope, path, text in readable_settings(root)}
    installed = [name for name in list_named(root) if names.fullmatch(name)]
    marketplaces: set[str] = set()
    decided: dict[str, tuple[str, str, bool]] = {}
    for scope in [scope for scope in PRECEDENCE if scope in texts]:
        path, values = texts[scope][0], JsonText(texts[scope][1]).value
        for name, is_enabled in _members(values, "enabledPlugins"):
            if names.fullmatch(name) and isinstance(is_enabled, (bool, list)):  # a list names versions
                decided[name] = (scope, path, bool(is_enabled))
        marketplaces |= {marketplace for marketplace, _ in _members(values, "extraKnownMarketplaces")}
    known = {name: Plugin(name, None, None, is_enabled=False, has_source=True) for name in installed}
    for name, (scope, path, is_enabled) in decided.items():
        has_source = name in known or name.partition("@")[2] in marketplaces
        known[name] = Plugin(name, scope, path, is_enabled, has_source)
    return sorted(known.values(), key=lambda one: not one.is_enabled)


def list_enabled_plugins(root: str) -> list[Plugin]:
    """Return our plugins that a client started in `root` runs: the enabled ones that it has, or can get."""
    return [one for one in list_plugins(root) if one.is_enabled and one.has_source]


def list_unanswered(root: str) -> list[str]:
    """Return the events for which a client started in `root` runs no hook of ours; unreadable settings run none."""
    if list_enabled_plugins(root):
        return []
    texts = [text for _, _, text in readable_settings(root)]
    return [event for event in HOOKS if not any([is_answered(text, event) for text in texts])]


def list_settings_with_hooks(root: str) -> list[tuple[str, str]]:
    """Return the scope and path of each settings file with a hook of ours, in any form, that the client runs."""
    return [
        (scope, path)
        for scope, path, text in readable_settings(root)
        if any([is_answered(text, event) for event in HOOKS])
    ]


def _members(values: dict[str, object], name: str) -> list[tuple[str, object]]:
    found = values.get(name)
    return list(found.items()) if isinstance(found, dict) else []
