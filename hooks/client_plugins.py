"""Which hooks of ours a client runs that is started in a folder: those of its settings, and those of our plugin.

`enabledPlugins` of the three settings files says which plugins run: what the local file says of one counts before the
project's, and that before the user's. A plugin that no file names does not run, though it may be installed. These files
may have come with the repository: of the plugins that they name, only that of our own marketplace is ours.
"""

from __future__ import annotations

from typing import NamedTuple

from faber_ledger.files.json_text import JsonText
from faber_ledger.hooks.client_settings import is_answered, readable_settings
from faber_ledger.recording.call import HOOKS
from faber_ledger.runs.settings import list_named

NAME = "faber-ledger@faber-ledger"
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


def list_plugins(root: str) -> list[Plugin]:
    """Return our plugin if the client's settings or its list name it: one, or none."""
    texts = {scope: (path, text) for scope, path, text in readable_settings(root)}
    is_installed = NAME in list_named(root)
    found = [Plugin(NAME, None, None, is_enabled=False, has_source=True)] if is_installed else []
    marketplaces: set[str] = set()
    for scope in [scope for scope in PRECEDENCE if scope in texts]:
        path, values = texts[scope][0], JsonText(texts[scope][1]).value
        marketplaces |= _members(values, "extraKnownMarketplaces").keys()
        said = _members(values, "enabledPlugins").get(NAME)
        if isinstance(said, (bool, list)):  # a list names versions
            found = [Plugin(NAME, scope, path, bool(said), is_installed)]
    return [one._replace(has_source=is_installed or NAME.partition("@")[2] in marketplaces) for one in found]


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


def _members(values: dict[str, object], name: str) -> dict[str, object]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}
