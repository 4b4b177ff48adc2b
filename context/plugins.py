"""Plugins that the client has installed for this user: its own list of them, and the marketplaces that it has.

These are the user's, not the repository's, so a project's workflow and artifacts may be in them. They are looked at
only for what is neither in the project nor in the user's plugin roots.
"""

from __future__ import annotations

import os

from faber_ledger.files.untrusted import FileRefused, around, read_text
from faber_ledger.ledger.plain_json import loads
from faber_ledger.runs.settings import client_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # A folder of the client's plugins, without links, and what is in it: the names of a plugin and its marketplace.
    # A marketplace's own folder has no plugin's name.
    Installed = tuple[str, str, str]


INSTALLED = ("plugins", "installed_plugins.json")
MARKETPLACES = ("plugins", "marketplaces")
CACHE = ("plugins", "cache")
MAX_BYTES = 1_048_576
OTHERS = 2  # the rank of a plugin that is installed for another project
# What was found and read in this process; `functools.lru_cache` would cost a hook a tenth of Python's start.
_installed: dict[str, list[Installed]] = {}
_lists: dict[str, dict[str, Any] | None] = {}


def places_installed(relative: str, root: str, marketplace: str = "") -> list[tuple[str, str]]:
    """Return where installed plugins may have a project's path `plugins/<plugin>/…`, each with the folder around it.

    A plugin that is on the client's list comes before the marketplaces, which follow by name; those of `marketplace`
    come first.
    """
    above, _, of_plugin = relative.partition("/")
    plugin, _, below = of_plugin.partition("/")
    if above != "plugins" or not below:
        return []
    names = (plugin, f"fractary-{plugin}")
    found = sorted(list_installed(root), key=lambda one: one[2] != marketplace) if marketplace else list_installed(root)
    return [
        (os.path.join(folder, below if name else relative), folder) for folder, name, _ in found if name in ("", *names)
    ]


def list_here(root: str) -> list[str]:
    """Return the names, `<plugin>@<marketplace>`, of the plugins on the client's list for a project or for all."""
    listed = [one for rank, one in _listed(client_folder(root), root) if rank != OTHERS]
    return [f"{plugin}@{marketplace}" for _, plugin, marketplace in listed]


def folder_installed(real: str, root: str) -> str | None:
    """Return the folder of installed plugins that contains a path without links, or None."""
    return around(real, [folder for folder, _, _ in list_installed(root)])


def list_installed(root: str) -> list[Installed]:
    """Return the folders of the client's plugins for a project, in the order in which they are searched.

    A project's settings can set the client's variables: they count only if they lead to a folder of its plugins.
    """
    if root not in _installed:
        _installed[root] = _find_installed(root)
    return _installed[root]


def _find_installed(root: str) -> list[Installed]:
    client = client_folder(root)
    marketplaces = os.path.realpath(os.path.join(client, *MARKETPLACES))
    found: list[Installed] = []
    plugin_root = _named_by("CLAUDE_PLUGIN_ROOT", [marketplaces, os.path.realpath(os.path.join(client, *CACHE))])
    if plugin_root is not None:  # <marketplace>/<plugin>/<version>, or plugins/<plugin> of a marketplace
        above, name = os.path.split(plugin_root)
        found += [(plugin_root, one, "") for one in (name, os.path.basename(above))]
    found += [installed for _, installed in _listed(client, root)]
    marketplace = _named_by("CLAUDE_MARKETPLACE_ROOT", [marketplaces])
    if marketplace is not None and marketplace != marketplaces:
        found.append((marketplace, "", os.path.basename(marketplace)))
    try:
        names = sorted(os.listdir(marketplaces))
    except OSError:
        names = []
    found += [(os.path.realpath(os.path.join(marketplaces, name)), "", name) for name in names]
    return list(dict.fromkeys(found))


def _named_by(variable: str, folders: list[str]) -> str | None:
    """Return the folder that a variable names, without links, if it is in one of the client's folders; else None."""
    value = os.environ.get(variable, "")
    try:
        real = os.path.realpath(value) if os.path.isabs(value) else ""
    except (ValueError, OSError):
        return None
    return real if real and around(real, folders) is not None else None


def list_named(root: str) -> list[str]:
    """Return the names of the plugins that the client has, `<plugin>@<marketplace>`, whatever project they are for."""
    listed = [one for _, one in _listed(client_folder(root), root)]
    return list(dict.fromkeys([f"{plugin}@{marketplace}" for _, plugin, marketplace in listed]))


def problem_of_list(root: str, name: str) -> str:
    """Return why the client's list of installed plugins gives no folder of `name`, as the end of a sentence."""
    listed = _read_list(client_folder(root))
    if listed is None:
        return "cannot be read"
    return "names no folder of it that exists" if name in listed else "lacks it"


def _listed(client: str, root: str) -> list[tuple[int, Installed]]:
    """Return the plugins on the client's list whose folders exist: those for this project first, for OTHERS last."""
    found = []
    for named, entries in (_read_list(client) or {}).items():
        plugin, _, marketplace = named.partition("@")
        for entry in entries if isinstance(entries, list) else [entries]:
            folder = _folder_of(entry)
            if plugin and folder is not None:
                project = entry.get("projectPath")
                rank = 0 if project == root else 1 if project is None else OTHERS
                found.append((rank, (folder, plugin, marketplace)))
    return sorted(found, key=lambda one: one[0])


def _read_list(client: str) -> dict[str, Any] | None:
    """Return the client's list: plugins by name, each with its entries; None if it cannot be read."""
    if client not in _lists:
        _lists[client] = _parse_list(client)
    return _lists[client]


def _parse_list(client: str) -> dict[str, Any] | None:
    try:
        text = read_text(os.path.join(client, *INSTALLED), MAX_BYTES)
        listed = {"plugins": {}} if text is None else loads(text)
    except (FileRefused, ValueError, RecursionError):
        return None
    plugins = listed.get("plugins") if isinstance(listed, dict) else None
    return plugins if isinstance(plugins, dict) else None


def _folder_of(entry: Any) -> str | None:
    path = entry.get("installPath") if isinstance(entry, dict) else None
    try:
        return os.path.realpath(path) if isinstance(path, str) and os.path.isabs(path) and os.path.isdir(path) else None
    except (ValueError, OSError):
        return None
