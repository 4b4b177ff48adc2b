"""The user's own configuration, `~/.config/faber-ledger/config.json`: what no repository may decide."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.context.project_settings import unknown_keys
from faber_ledger.files.untrusted import FileRefused, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class UserConfig(TypedDict):
        """What it says, where it stands, what is wrong with it (None: nothing), and which of its keys mean nothing.

        `commands` maps a slash command's name, without arguments, to the program and arguments that stand in for it;
        placeholders in these are still to be filled.
        """

        plugin_roots: list[str]
        commands: dict[str, list[str]]
        path: str
        problem: str | None
        unknown: list[str]


MAX_BYTES = 1_048_576
SLASH_COMMAND = r"/[A-Za-z0-9_-]{1,64}(?::[A-Za-z0-9_-]{1,64})?"


def read_user_config() -> UserConfig:
    """Read the user's configuration; a malformed one counts as empty, with the reason in `problem`."""
    path = user_config_path()
    try:
        text = text_of(path, MAX_BYTES)
        config = {} if text is None else json.loads(text)
        if not isinstance(config, dict):
            raise ValueError("it is no JSON object")
        roots, commands = _plugin_roots(config.get("plugin_roots", [])), _commands(config.get("commands", {}))
    except (FileRefused, ValueError, RecursionError) as error:
        return {"plugin_roots": [], "commands": {}, "path": path, "problem": f"{path}: {error}", "unknown": []}
    unknown = unknown_keys(config, ("plugin_roots", "commands"))
    return {"plugin_roots": roots, "commands": commands, "path": path, "problem": None, "unknown": unknown}


def user_config_path() -> str:
    """Give where the user's configuration stands, whether it is there or not; `XDG_CONFIG_HOME` moves it."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "faber-ledger", "config.json")


def places_in_plugins(relative: str, plugin_roots: list[str]) -> list[str]:
    """Give where a project's path may stand in plugin roots, each a whole marketplace or the plugin's own folder."""
    above, _, of_plugin = relative.partition("/")
    plugin, _, below = of_plugin.partition("/")
    places = []
    for root in plugin_roots:
        places.append(os.path.join(root, relative))
        if above == "plugins" and below and plugin in ("faber", os.path.basename(root.rstrip("/"))):
            places.append(os.path.join(root, below))
    return places


def _plugin_roots(roots: object) -> list[str]:
    if not isinstance(roots, list):
        raise ValueError("plugin_roots is no list of paths")
    for number, root in enumerate(roots):
        if not isinstance(root, str):
            raise ValueError(f"plugin_roots[{number}] is no path")
    expanded = [os.path.expanduser(root) for root in roots]
    for root in expanded:
        if not os.path.isabs(root):
            raise ValueError(f"plugin_roots: {root!r} is no absolute path")
    return expanded


def _commands(commands: object) -> dict[str, list[str]]:
    if not isinstance(commands, dict):
        raise ValueError("commands is no object of slash commands")
    mapped = {}
    for name, words in commands.items():
        if not re.fullmatch(SLASH_COMMAND, name):
            raise ValueError(f"commands: {name!r} is no slash command without arguments")
        if not (isinstance(words, list) and words and all([isinstance(word, str) for word in words])):
            raise ValueError(f"commands: {name} is no list of a program and its arguments")
        program = os.path.expanduser(words[0])
        if not program or (os.path.dirname(program) and not os.path.isabs(program)):
            # A relative path would be looked for in whatever repository the command is run in.
            raise ValueError(f"commands: the program of {name} is neither a bare name nor an absolute path")
        mapped[name] = [program, *words[1:]]
    return mapped
