"""The user's own configuration, `~/.config/faber-ledger/config.json`: what no repository may decide."""

from __future__ import annotations

import json
import os

from faber_ledger.context.untrusted_file import FileRefused, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class UserConfig(TypedDict):
        """What it says, where it stands, and what is wrong with it (None: nothing).

        `commands` maps a slash command to the program that stands in for it, with its arguments.
        """

        plugin_roots: list[str]
        commands: dict[str, list[str]]
        path: str
        problem: str | None


MAX_BYTES = 1_048_576
PLUGIN = "plugins/faber/"


def read_user_config() -> UserConfig:
    """Read the user's configuration; a malformed one counts as empty, with the reason in `problem`."""
    path = user_config_path()
    try:
        text = text_of(path, MAX_BYTES)
        config = {} if text is None else json.loads(text)
        roots, commands = _plugin_roots(config), _commands(config)
    except (FileRefused, ValueError, RecursionError) as error:
        return {"plugin_roots": [], "commands": {}, "path": path, "problem": f"{path}: {error}"}
    return {"plugin_roots": roots, "commands": commands, "path": path, "problem": None}


def user_config_path() -> str:
    """Give where the user's configuration stands, whether it is there or not; `XDG_CONFIG_HOME` moves it."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "faber-ledger", "config.json")


def places_in_plugins(relative: str, plugin_roots: list[str]) -> list[str]:
    """Give where a project's path may stand in plugin roots, each a whole marketplace or the plugin's own folder."""
    places = []
    for root in plugin_roots:
        places.append(os.path.join(root, relative))
        if relative.startswith(PLUGIN):
            places.append(os.path.join(root, relative[len(PLUGIN) :]))
    return places


def _plugin_roots(config: object) -> list[str]:
    if not isinstance(config, dict):
        raise ValueError("it is no JSON object")
    roots = config.get("plugin_roots", [])
    if not isinstance(roots, list) or not all([isinstance(root, str) for root in roots]):
        raise ValueError("plugin_roots is no list of paths")
    expanded = [os.path.expanduser(root) for root in roots]
    for root in expanded:
        if not os.path.isabs(root):
            raise ValueError(f"plugin_roots: {root!r} is no absolute path")
    return expanded


def _commands(config: dict[str, object]) -> dict[str, list[str]]:
    commands = config.get("commands", {})
    if not isinstance(commands, dict):
        raise ValueError("commands is no object")
    mapped = {}
    for name, words in commands.items():
        if not isinstance(words, list) or not words or not all([isinstance(word, str) for word in words]):
            raise ValueError(f"commands: {name!r} is no list of a program and its arguments")
        program = os.path.expanduser(words[0])
        if not program or (os.path.dirname(program) and not os.path.isabs(program)):
            # A relative path would be looked for in whatever repository the command is run in.
            raise ValueError(f"commands: the program of {name!r} is neither a bare name nor an absolute path")
        mapped[name] = [program, *words[1:]]
    return mapped
