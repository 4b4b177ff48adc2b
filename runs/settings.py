"""The settings of the project and of the user, and the plugins that the client has installed for this user."""

from __future__ import annotations

import os

from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.disk import FileRefused, around, folder_around, read_text
from faber_ledger.ledger.encoding import loads
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.runs.layouts import runs_for_new
from faber_ledger.runs.run import CARRY, PROJECT_FILE, REFS, RUNS, TREE, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypedDict

    # A folder of the client's plugins, without links, and what is in it: the names of a plugin and its marketplace.
    # A marketplace's own folder has no plugin's name.
    Installed = tuple[str, str, str]

    class UserConfig(TypedDict):
        """The user's configuration: its values, its path, what is wrong with it (None: nothing), its unknown keys.

        `usage` says whether tokens are counted, None if it says nothing. `prices` says what a million tokens cost, by
        the beginning of a model's name, then `input`, `cached` or `output`.

        `commands` maps a slash command's name, without arguments, to the program and arguments that replace it;
        placeholders in them are not filled in yet. `url` is the address of the team's server, perhaps with a password,
        and `admins` are the logins that the user lets decide who reads a project there.
        """

        plugin_roots: list[str]
        commands: dict[str, list[str]]
        url: str | None
        admins: list[str]
        usage: bool | None
        prices: dict[str, dict[str, float]]
        path: str
        problem: str | None
        unknown: list[str]


PATH = PROJECT_FILE
HOOK_BUDGET = 9_500  # UTF-16 code units: at 10,001 the client shows the model a preview of 2 KB instead
MIN_BUDGET = 1_000
LIMIT = 65_536
MAX_UNKNOWN = 5  # keys that are named
NEW = "new_runs"  # it is about no run that is there
PROJECT = "project"  # the project's id, which `init` makes: no setting, and in the project's file alone
PRIVATE = ("summaries", "usage")  # off if it is not known what was meant
NAMES = ("packet_budget", "precompact_hint", *PRIVATE, NEW)
SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def unknown_keys(values: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Return a message for each key that is not a setting, with the nearest name; `$schema` belongs to editors."""
    unknown = [key for key in values if key not in names and key != "$schema"]
    if not unknown:
        return []
    from difflib import get_close_matches  # rarely needed

    from faber_ledger.files.text import one_line

    known = list(names)
    messages = []
    for key in unknown:
        near = get_close_matches(key[:80].lower(), known, n=1)
        messages.append(f"{one_line(key, 80)!r} is not a setting" + (f"; did you mean {near[0]!r}?" if near else ""))
    return messages[:MAX_UNKNOWN]


class Settings:
    """The settings that apply to a run; `problems` has what is invalid, each with its file or variable."""

    def __init__(self, run: Run, environ: Mapping[str, str]) -> None:
        """Read the project's settings, then the run's, then the variables `FABER_LEDGER_…`: the last one wins."""
        self.packet_budget = HOOK_BUDGET
        self.summaries = True
        self.usage = True
        self.precompact_hint = True
        self._root = run.root
        self._new_runs: str | None = None
        self.project: str | None = None
        self.problems: list[str] = []
        self.places = dict.fromkeys(NAMES, "default")  # where each value comes from
        self._read(run.root, os.path.join(run.root, *PATH.split("/")))
        if not run.is_kept:
            self._read(run.root, run.settings_path)
        elif not os.path.lexists(os.path.join(run.root, *PATH.split("/"))):
            self.summaries = self.usage = False  # the file that switches them off may be gone with the run
        for name in NAMES:
            variable = f"FABER_LEDGER_{name.upper()}"
            text = environ.get(variable, "").strip().lower()
            if text:
                value: object = int(text) if name == "packet_budget" and text.isdecimal() else SWITCHES.get(text)
                value = text if name == NEW else value
                self._set(name, value, variable)

    @property
    def new_runs(self) -> str:
        """The folder of runs that new ones go into; not for a run that is there."""
        if self._new_runs is None:
            self._new_runs = os.path.relpath(runs_for_new(self._root), self._root).replace(os.sep, "/")
        return self._new_runs

    def _read(self, root: str, path: str) -> None:
        try:
            if folder_around(path, [root]) is None:
                raise FileRefused("a link that leads out of the project")
            text = read_text(path, LIMIT)
            values = {} if text is None else loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is not a JSON object")
        except (FileRefused, ValueError, RecursionError) as error:
            self.problems.append(f"{os.path.relpath(path, root)}: {error}")
            self.summaries = self.usage = False  # the file may be meant to switch them off
            self.places |= dict.fromkeys(PRIVATE, os.path.relpath(path, root))
            return
        unknown = unknown_keys(values, (*NAMES, PROJECT, CARRY))
        self.problems += [f"{os.path.relpath(path, root)}: {message}" for message in unknown]
        if values.get(CARRY, TREE) not in (TREE, REFS):
            self.problems.append(f"{os.path.relpath(path, root)}: {CARRY} must be {TREE} or {REFS}")
        if PROJECT in values and self.project is None:
            self._set_project(values[PROJECT], f"{os.path.relpath(path, root)}: {PROJECT}")
        for name in NAMES:
            if name in values:
                self._set(name, values[name], f"{os.path.relpath(path, root)}: {name}")

    def _set_project(self, value: object, place: str) -> None:
        if isinstance(value, str) and is_event_id(value):
            self.project = value
        else:
            self.problems.append(f"{place} must be a ULID, as `faber-ledger init` writes one")

    def _set(self, name: str, value: object, place: str) -> None:
        if name == NEW:
            is_right, kind = value in RUNS, " or ".join(RUNS)
        elif name == "packet_budget":
            is_right = type(value) is int and MIN_BUDGET <= value <= HOOK_BUDGET
            kind = f"a number from {MIN_BUDGET} to {HOOK_BUDGET}"
        else:
            is_right, kind = isinstance(value, bool), "true or false"
        if not is_right:
            self.problems.append(f"{place} must be {kind}")
            if name not in PRIVATE:
                return
        setattr(self, "_new_runs" if name == NEW else name, value if is_right else False)
        self.places[name] = place.partition(": ")[0]


def project_settings(root: str, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a project without those of a run; each problem is named once."""
    folder = os.path.dirname(os.path.join(root, *PATH.split("/")))
    settings = Settings(Run(root, "", folder), environ)  # a run there would have the project's own file
    settings.problems = list(dict.fromkeys(settings.problems))
    return settings


def project_id(root: str) -> str:
    """Return the project's id, which tells it apart on a team's server; raises LedgerError if it has none."""
    settings = project_settings(root, os.environ)
    if settings.project is None:
        wrong = [problem for problem in settings.problems if f": {PROJECT} must" in problem]
        raise LedgerError(
            wrong[0] if wrong else "the project has no id yet",
            hint=f"`git pull` brings it if a colleague has set it up; else run `faber-ledger init`, and commit {PATH}",
        )
    return settings.project


MAX_BYTES = 1_048_576
SLASH_COMMAND = r"/[A-Za-z0-9_-]{1,64}(?::[A-Za-z0-9_-]{1,64})?"


def is_slash_command(text: str) -> bool:
    """Return whether a text is a slash command, with arguments or without."""
    import re  # most projects have none

    return re.match(rf"{SLASH_COMMAND}(?: |$)", text) is not None


def read_user_config() -> UserConfig:
    """Read the user's configuration; a malformed one counts as empty, and `problem` says why."""
    path = user_config_path()
    found: UserConfig = {
        "plugin_roots": [],
        "commands": {},
        "url": None,
        "admins": [],
        "usage": None,
        "prices": {},
        "path": path,
        "problem": None,
        "unknown": [],
    }
    try:
        text = read_text(path, MAX_BYTES)
        config = {} if text is None else loads(text)
        if not isinstance(config, dict):
            raise ValueError("it is not a JSON object")
        url, admins, usage = config.get("url"), config.get("admins", []), config.get("usage")
        if url is not None and not isinstance(url, str):
            raise ValueError("url is not a text")
        if not isinstance(admins, list) or not all([isinstance(name, str) for name in admins]):
            raise ValueError("admins is not a list of names")
        if usage is not None and not isinstance(usage, bool):
            raise ValueError("usage is not true or false")
        known: Any = {name: config[name] for name in KEYS if name in config}
        known |= {name: read(known[name]) for name, read in READERS.items() if name in known}
    except (FileRefused, ValueError, RecursionError) as error:
        found["problem"] = f"{path}: {error}"
        return found
    return {**found, **known, "unknown": unknown_keys(config, KEYS)}


def counts_usage(settings: Settings) -> bool:
    """Return whether the tokens of responses are counted: the user's configuration wins over the project's."""
    config = read_user_config()
    return config["problem"] is None and (settings.usage if config["usage"] is None else config["usage"])


def user_config_path() -> str:
    """Return the path of the user's configuration, which may not exist; `XDG_CONFIG_HOME` moves it."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "faber-ledger", "config.json")


def client_folder(root: str | None = None) -> str:
    """Return the client's own folder of this user, which may not exist.

    `CLAUDE_CONFIG_DIR` moves it, but not into the project `root`, whose settings can set the variable.
    """
    own = os.path.join(os.path.expanduser("~"), ".claude")
    moved = os.environ.get("CLAUDE_CONFIG_DIR", "")
    if root is None:
        return moved or own
    try:
        inside = [os.path.join(one, "") for one in (root, os.path.realpath(root))]
        places = [os.path.join(one, "") for one in (moved, os.path.realpath(moved))]
    except (ValueError, OSError):
        return own
    is_projects = any([place.startswith(folder) for place in places for folder in inside])
    return own if is_projects or not os.path.isabs(moved) else moved


def places_in_plugins(relative: str, plugin_roots: list[str]) -> list[str]:
    """Return the paths that a project's path may have in plugin roots: marketplaces, or a plugin's own folder."""
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
        raise ValueError("plugin_roots is not a list of paths")
    for number, root in enumerate(roots):
        if not isinstance(root, str):
            raise ValueError(f"plugin_roots[{number}] is not a path")
    expanded = [os.path.expanduser(root) for root in roots]
    for root in expanded:
        if not os.path.isabs(root):
            raise ValueError(f"plugin_roots: {root!r} is not an absolute path")
    return expanded


def _prices(prices: object) -> dict[str, dict[str, float]]:
    if not isinstance(prices, dict):
        raise ValueError("prices is not an object of models")
    for model, price in prices.items():
        if not (isinstance(price, dict) and all([type(one) in (int, float) and one >= 0 for one in price.values()])):
            raise ValueError(f"prices: {model!r} is not an object of numbers")
        if not price.keys() <= {"input", "cached", "output"}:
            raise ValueError(f"prices: {model!r} has other keys than input, cached and output")
    return prices


def _commands(commands: object) -> dict[str, list[str]]:
    if not isinstance(commands, dict):
        raise ValueError("commands is not an object of slash commands")
    mapped = {}
    for name, words in commands.items():
        import re  # most projects map no program

        if not re.fullmatch(SLASH_COMMAND, name):
            raise ValueError(f"commands: {name!r} is not a slash command without arguments")
        if not (isinstance(words, list) and words and all([isinstance(word, str) for word in words])):
            raise ValueError(f"commands: {name} is not a list of a program and its arguments")
        program = os.path.expanduser(words[0])
        if not program or (os.path.dirname(program) and not os.path.isabs(program)):
            # A relative path would be looked for in whatever repository the command is run in.
            raise ValueError(f"commands: the program of {name} is neither a bare name nor an absolute path")
        mapped[name] = [program, *words[1:]]
    return mapped


KEYS = ("plugin_roots", "commands", "url", "admins", "usage", "prices")  # of the user's configuration
READERS = {"plugin_roots": _plugin_roots, "commands": _commands, "prices": _prices}

# Plugins that the client has installed for this user: its own list of them, and the marketplaces that it has. These are
# the user's, not the repository's, so a project's workflow and artifacts may be in them. They are looked at only for
# what is neither in the project nor in the user's plugin roots.
INSTALLED = ("plugins", "installed_plugins.json")
MARKETPLACES = ("plugins", "marketplaces")
CACHE = ("plugins", "cache")
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
    """Return the names, `<plugin>@<marketplace>`, of the client's plugins."""
    listed = [f"{plugin}@{marketplace}" for _, (_, plugin, marketplace) in _listed(client_folder(root), root)]
    return list(dict.fromkeys(listed))


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
        try:
            text = read_text(os.path.join(client, *INSTALLED), MAX_BYTES)
            plugins = ({} if text is None else loads(text)).get("plugins", {})
        except (FileRefused, ValueError, AttributeError, RecursionError):
            plugins = None
        _lists[client] = plugins if isinstance(plugins, dict) else None
    return _lists[client]


def _folder_of(entry: Any) -> str | None:
    path = entry.get("installPath") if isinstance(entry, dict) else None
    try:
        return os.path.realpath(path) if isinstance(path, str) and os.path.isabs(path) and os.path.isdir(path) else None
    except (ValueError, OSError):
        return None
