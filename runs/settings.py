"""The settings of the project and of the user."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.files.text import one_line
from faber_ledger.files.untrusted import FileRefused, folder_around, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypedDict

    from faber_ledger.runs.run import Run

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


PATH = ".fractary/faber/ledger.json"
HOOK_BUDGET = 9_500  # UTF-16 code units: at 10,001 the client shows the model a preview of 2 KB instead
LEAST_BUDGET = 1_000
LIMIT = 65_536
MOST_TOLD = 5
NAMES = ("packet_budget", "summaries", "precompact_hint")
SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def unknown_keys(values: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Say which keys of a configuration mean nothing, and what is near; `$schema` is an editor's."""
    unknown = [key for key in values if key not in names and key != "$schema"]
    if not unknown:
        return []
    from difflib import get_close_matches  # rarely asked for

    known = list(names)
    told = []
    for key in unknown:
        near = get_close_matches(key[:80], known, n=1)
        told.append(f"{one_line(key, 80)!r} is no setting" + (f"; did you mean {near[0]!r}?" if near else ""))
    return told[:MOST_TOLD]


class Settings:
    """What holds for a run; `problems` tells what could not be taken, each with the file or variable it stands in."""

    def __init__(self, run: Run, environ: Mapping[str, str]) -> None:
        """Read the project's settings, then the run's, then the variables `FABER_LEDGER_…`: the last one holds."""
        self.packet_budget = HOOK_BUDGET
        self.summaries = True
        self.precompact_hint = True
        self.problems: list[str] = []
        self.places = dict.fromkeys(NAMES, "default")  # where each value stands
        self._read(run.root, os.path.join(run.root, *PATH.split("/")))
        self._read(run.root, os.path.join(run.directory, "ledger.json"))
        for name in NAMES:
            variable = f"FABER_LEDGER_{name.upper()}"
            text = environ.get(variable, "").strip().lower()
            if text:
                value: object = int(text) if name == "packet_budget" and text.isdecimal() else SWITCHES.get(text)
                self._set(name, value, variable)

    def _read(self, root: str, path: str) -> None:
        try:
            if folder_around(path, [root]) is None:
                raise FileRefused("a link that leads out of the project")
            text = read_text(path, LIMIT)
            values = {} if text is None else json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
        except (FileRefused, ValueError, RecursionError) as error:
            self.problems.append(f"{os.path.relpath(path, root)}: {error}")
            self.summaries = False  # perhaps that is what it would say
            self.places["summaries"] = os.path.relpath(path, root)
            return
        self.problems += [f"{os.path.relpath(path, root)}: {told}" for told in unknown_keys(values, NAMES)]
        for name in NAMES:
            if name in values:
                self._set(name, values[name], f"{os.path.relpath(path, root)}: {name}")

    def _set(self, name: str, value: object, place: str) -> None:
        if name == "packet_budget":
            if type(value) is int and LEAST_BUDGET <= value <= HOOK_BUDGET:
                self.packet_budget = value
            else:
                self.problems.append(f"{place} must be a number from {LEAST_BUDGET} to {HOOK_BUDGET}")
                return
        elif not isinstance(value, bool):
            self.problems.append(f"{place} must be true or false")
            if name != "summaries":
                return
            self.summaries = False
        elif name == "summaries":
            self.summaries = value
        else:
            self.precompact_hint = value
        self.places[name] = place.partition(": ")[0]


MAX_BYTES = 1_048_576
SLASH_COMMAND = r"/[A-Za-z0-9_-]{1,64}(?::[A-Za-z0-9_-]{1,64})?"


def read_user_config() -> UserConfig:
    """Read the user's configuration; a malformed one counts as empty, with the reason in `problem`."""
    path = user_config_path()
    try:
        text = read_text(path, MAX_BYTES)
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
