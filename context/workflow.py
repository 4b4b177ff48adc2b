"""A workflow's configuration: where it is, in the project or a plugin; what it extends; its critical artifacts."""

from __future__ import annotations

import os

from faber_ledger.files.text import escape, one_line
from faber_ledger.ledger.clock import seconds_of
from faber_ledger.ledger.disk import FileRefused, around, folder_around, read_text
from faber_ledger.ledger.encoding import loads
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.run import is_name
from faber_ledger.runs.settings import client_folder, places_in_plugins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypedDict

    class CriticalArtifacts(TypedDict):
        """Which artifacts to load, and when; `phase_specific` is keyed by phase."""

        always_load: list[Artifact]
        conditional_load: list[Artifact]
        phase_specific: dict[str, list[Artifact]]

    class Workflow(TypedDict):
        """A workflow; `path` is relative to the project if the file is in it.

        `artifacts_path` is the nearest file with critical artifacts: its own, an ancestor's or the defaults. `warnings`
        are about ancestors whose artifacts are missing. `lineage` has the path and the object of the workflow, then of
        each one that it extends.
        """

        id: str
        path: str
        artifacts_path: str
        critical_artifacts: CriticalArtifacts
        warnings: list[str]
        lineage: list[tuple[str, dict[str, Any]]]

    # A workflow's id, its path as shown, and the object in its file.
    Step = tuple[str, str, dict[str, Any]]

    # A folder of the client's plugins, without links, and what is in it: the names of a plugin and its marketplace.
    # A marketplace's own folder has no plugin's name.
    Installed = tuple[str, str, str]

    class Artifact(TypedDict):
        """A definition with every field set. `problem` says what is wrong with it; loading it raises that."""

        id: str
        type: str
        path: str | None
        path_from_state: str | None
        command: str | None
        description: str
        required: bool
        condition: object
        reload_triggers: list[str] | None
        load_strategy: str
        problem: str | None

    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any


MAX_NAME = 128
OF_PROJECT = (".fractary/plugins/faber/workflows", ".fractary/faber/workflows")
OF_PLUGIN = ("config/workflows", ".fractary/faber/workflows")
SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workflows")
MAX_BYTES = 1_048_576
UNUSABLE = "the workflow configuration"


def load_workflow(root: str, workflow_id: str, plugin_roots: list[str]) -> Workflow:
    """Load a workflow and its critical artifacts (RELOAD, Step 2).

    These are its own and those of all its ancestors, root first; an id replaces the same id of an ancestor. If none of
    them has any, they are the defaults. Raises WorkflowNotFound if the workflow is missing, malformed, or extends
    itself; an ancestor like that is a warning where the workflow, or one between them, has artifacts.
    """
    read: list[tuple[str, dict[str, Any]]] = []
    owners: list[str] = []
    artifacts: CriticalArtifacts | None = None
    warnings: list[str] = []
    try:
        for _, owner, config in lineage(root, workflow_id, plugin_roots):
            read.append((owner, config))
            critical = config.get("critical_artifacts")
            if critical is not None:
                own = _critical_artifacts(critical, owner)
                artifacts = own if artifacts is None else _add_inherited(artifacts, own)
                owners.append(owner)
    except WorkflowNotFound as error:
        if artifacts is None:
            raise
        warnings.append(f"⚠️ WARNING: {escape(error.message)}: the artifacts that it inherits from there are not loaded")
    if artifacts is None:
        owners, artifacts = [os.path.join(SHIPPED, "default.json")], _defaults()
    return {
        "id": workflow_id,
        "path": read[0][0],
        "artifacts_path": owners[0],
        "critical_artifacts": artifacts,
        "warnings": warnings,
        "lineage": read,
    }


def _add_inherited(artifacts: CriticalArtifacts, inherited: CriticalArtifacts) -> CriticalArtifacts:
    """Return artifacts after those that are inherited; an id of their own replaces the inherited one."""
    of_phases = artifacts["phase_specific"]
    lists = [artifacts["always_load"], artifacts["conditional_load"], *of_phases.values()]
    ids = {artifact["id"] for own in lists for artifact in own}

    def others(inherited: list[Artifact]) -> list[Artifact]:
        return [artifact for artifact in inherited if artifact["id"] not in ids]

    theirs = inherited["phase_specific"]
    return {
        "always_load": [*others(inherited["always_load"]), *artifacts["always_load"]],
        "conditional_load": [*others(inherited["conditional_load"]), *artifacts["conditional_load"]],
        "phase_specific": {
            phase: [*others(theirs.get(phase, [])), *of_phases.get(phase, [])] for phase in {**theirs, **of_phases}
        },
    }


def artifacts_without_workflow() -> list[Artifact]:
    """Return what is loaded for a run whose workflow cannot be used: only its state, which every run needs."""
    return [artifact for artifact in _defaults()["always_load"] if artifact["id"] == "workflow-state"]


def lineage(root: str, workflow_id: str, plugin_roots: list[str]) -> Iterator[Step]:
    """Yield a workflow and then each one that it extends, read only when asked for; raises WorkflowNotFound."""
    ids: list[str] = []
    places: set[str] = set()
    following: object = workflow_id
    owner = ""
    while following is not None:
        if not isinstance(following, str):
            raise _unusable(owner, "extends is not a string")
        path, config = read_workflow(root, following, plugin_roots, owner)
        ids.append(following)
        if path in places:  # one file may have several ids
            raise _unusable(owner, f"it extends itself: {' -> '.join(ids)}")
        places.add(path)
        yield following, path, config
        owner, following = path, config.get("extends")


def read_workflow(root: str, workflow_id: str, plugin_roots: list[str], owner: str = "") -> tuple[str, dict[str, Any]]:
    """Read one workflow's file; returns its path as shown and the object in it.

    Raises WorkflowNotFound, which names `owner` if that is the workflow that extends a missing one.
    """
    places = _places(root, workflow_id, plugin_roots)
    found = _read_first([(place, [root, *plugin_roots]) for place in places], root)
    if found is None and not workflow_id.startswith("project:"):
        plugin, marketplace, name = _names_in(workflow_id)
        plugin = plugin or "faber"
        shipped = [(os.path.join(SHIPPED, f"{name}.json"), [SHIPPED])] if plugin == "faber" else []
        installed = [
            (place, [folder])
            for path in _in_plugin(plugin, name)
            for place, folder in places_installed(path, root, marketplace)
        ]
        found = _read_first([*installed, *shipped], root)
    if found is not None:
        return found
    if owner:
        message = f"Workflow configuration not found: {workflow_id}, which {owner} extends"
        raise WorkflowNotFound(
            message,
            hint=f"correct `extends` in {owner}",
            block=f"❌ ERROR: {message}\n\nRecovery:\n1. Correct `extends` in {owner}",
        )
    shown = os.path.relpath(places[0], root)
    raise WorkflowNotFound(
        f"Workflow configuration not found: {workflow_id}",
        hint=f"create {shown}, or correct workflow_id in state.json",
        block=f"❌ ERROR: Workflow configuration not found: {workflow_id}\nPath: {shown}\n\nRecovery:\n"
        f"1. Create {shown}\n2. Correct workflow_id in state.json; fractary-faber:default is always there",
    )


def _read_first(places: list[tuple[str, list[str]]], root: str) -> tuple[str, dict[str, Any]] | None:
    """Return the path and the object of the first workflow that exists, each in one of its folders; or None.

    Raises WorkflowNotFound for one that cannot be used.
    """
    for place, folders in places:
        shown = os.path.relpath(place, root) if place.startswith(os.path.join(root, "")) else place
        try:
            if os.path.lexists(place) and folder_around(place, folders) is None:
                raise FileRefused("it is a link that leaves the project and the plugin roots")
            text = read_text(place, MAX_BYTES)
            config = None if text is None else loads(text)
        except (FileRefused, ValueError, RecursionError) as error:
            raise _unusable(shown, str(error)) from error
        if text is None:
            continue
        if not isinstance(config, dict):
            raise _unusable(shown, "it is not a JSON object")
        return shown, config
    return None


def _places(root: str, workflow_id: str, plugin_roots: list[str]) -> list[str]:
    """Return where project and user's plugin roots may have a workflow, in order; raises WorkflowNotFound."""
    plugin, marketplace, name = _names_in(workflow_id)
    file = f"{name}.json"
    of_project = [] if plugin else [os.path.join(root, folder, file) for folder in OF_PROJECT]
    if workflow_id.startswith("project:"):
        return of_project
    relative = _in_plugin(plugin or "faber", name)
    roots = list(plugin_roots)
    if marketplace:  # a root may be the folder that contains all marketplaces
        roots += [os.path.join(one, marketplace) for one in plugin_roots]
    of_plugin = [os.path.join(root, path) for path in relative]
    of_plugin += [place for path in relative for place in places_in_plugins(path, roots)]
    return [*of_project, *of_plugin]


def _in_plugin(plugin: str, name: str) -> list[str]:
    return [f"plugins/{plugin}/{folder}/{name}.json" for folder in OF_PLUGIN]


def _names_in(workflow_id: str) -> tuple[str, str, str]:
    """Return the plugin, the marketplace and the name in an id; the first two are empty if it does not name them.

    Ids are `default`, `project:mine`, `fractary-faber:core` or, as newer tools write it, `faber@fractary-faber:core`.
    Raises WorkflowNotFound for anything else.
    """
    owner, colon, name = workflow_id.rpartition(":")
    plugin = marketplace = ""
    named = [name]
    if colon and owner != "project":
        plugin, at, marketplace = owner.partition("@")
        plugin = plugin if at else plugin[len("fractary-") :] if plugin.startswith("fractary-") else ""
        named += [plugin, marketplace] if at else [plugin]
    if not all([one.isascii() and len(one) <= MAX_NAME and is_name(one) for one in named]):
        raise WorkflowNotFound(
            f"not a workflow id: {workflow_id!r:.200}",
            hint="correct workflow_id in state.json or `extends` in the workflow; `fractary-faber:default` is one",
        )
    return plugin, marketplace, name


def _defaults() -> CriticalArtifacts:
    """Return what is loaded for a workflow without critical artifacts."""
    with open(os.path.join(SHIPPED, "default.json"), encoding="utf-8") as file:
        return _critical_artifacts(loads(file.read())["critical_artifacts"], SHIPPED)


def _critical_artifacts(critical: object, path: str) -> CriticalArtifacts:
    if not isinstance(critical, dict):
        raise _unusable(path, "critical_artifacts is not an object")
    phases = critical.get("phase_specific")
    if not (phases is None or isinstance(phases, dict)):
        raise _unusable(path, "critical_artifacts.phase_specific is not an object")
    return {
        "always_load": _artifacts(critical.get("always_load"), "always_load", path),
        "conditional_load": _artifacts(critical.get("conditional_load"), "conditional_load", path),
        "phase_specific": {
            phase: _artifacts(artifacts, f"phase_specific.{phase}", path) for phase, artifacts in (phases or {}).items()
        },
    }


def _artifacts(artifacts: object, place: str, path: str) -> list[Artifact]:
    if artifacts is None:
        return []
    if not isinstance(artifacts, list):
        raise _unusable(path, f"critical_artifacts.{place} is not a list")
    return [parse_artifact(raw, f"{place}[{number}]") for number, raw in enumerate(artifacts)]


def _unusable(path: str, problem: str) -> WorkflowNotFound:
    return WorkflowNotFound(f"{UNUSABLE} {path} cannot be used: {problem}", hint=f"correct {path}")


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


def list_named(root: str, *, only_here: bool = False) -> list[str]:
    """Return the names, `<plugin>@<marketplace>`, of the client's plugins: all, or those for this project."""
    listed = [one for rank, one in _listed(client_folder(root), root) if not (only_here and rank == OTHERS)]
    return list(dict.fromkeys([f"{plugin}@{marketplace}" for _, plugin, marketplace in listed]))


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


TEXT_FIELDS = ("path", "path_from_state", "command", "description", "load_strategy")


def parse_artifact(raw: object, place: str) -> Artifact:
    """Return a definition with every field set; errors go into `problem`, and `place` is its name if it has no id."""
    given = raw if isinstance(raw, dict) else {}
    problems = [] if isinstance(raw, dict) else ["Artifact is not a JSON object"]
    named = given.get("id")
    if not (isinstance(named, str) and named):
        problems.append("Artifact must have an id")
        named = place
    texts: dict[str, str | None] = dict.fromkeys(TEXT_FIELDS)
    for name in TEXT_FIELDS:
        value = given.get(name)
        if value is None or isinstance(value, str):
            texts[name] = value or None
        else:
            problems.append(f"{name} must be a string")
    required = given.get("required", False)
    if not isinstance(required, bool):
        problems.append("required must be true or false")
    triggers = given.get("reload_triggers")
    if not (triggers is None or (isinstance(triggers, list) and all([isinstance(name, str) for name in triggers]))):
        problems.append("reload_triggers must be a list of strings")
        triggers = None
    kind = given.get("type")
    return {
        "id": named,
        "type": kind if isinstance(kind, str) else "(none)",
        "path": texts["path"],
        "path_from_state": texts["path_from_state"],
        "command": texts["command"],
        "description": texts["description"] or "",
        "required": required is not False,
        "condition": given.get("condition"),
        "reload_triggers": triggers,
        "load_strategy": texts["load_strategy"] or "all",
        "problem": "; ".join(problems) or None,
    }


RECENT_SECONDS = 300
MAX_PER_LIST = 200  # in a hook: some ask git, each with a process of its own
MAX_BYTES_READ = 2 * 1024 * 1024  # in a hook, of required artifacts, and as many of optional ones
HINT_LOAD_ALL = "`faber-ledger session-load` loads all"


def select(
    workflow: Workflow,
    state: dict[str, Any],
    triggers: Iterable[str],
    requested_ids: Collection[str] | None,
    warn: Callable[[str], None],
) -> list[Artifact]:
    """Return the artifacts to load, in the workflow's order, each id once (RELOAD, Step 3).

    Requested ids replace the triggers, but not a condition. Warns of conditions that cannot be evaluated, and of
    requested ids that select nothing.
    """
    full = {full_trigger(trigger, state) for trigger in triggers}
    selected: dict[str, Artifact] = {}
    for artifact in _applicable(workflow, state, warn):
        wanted = _is_triggered(artifact, full) if requested_ids is None else artifact["id"] in requested_ids
        known = selected.get(artifact["id"]) if wanted else None
        if known is not None:
            warn(f"Artifact named twice: {escape(artifact['id'])} - one is loaded, a required one if there is one")
        if wanted and (known is None or (artifact["required"] and not known["required"])):
            selected[artifact["id"]] = artifact
    if requested_ids:
        _warn_of_others(requested_ids, selected, workflow, warn)
    return list(selected.values())


def _warn_of_others(
    requested_ids: Collection[str], selected: dict[str, Artifact], workflow: Workflow, warn: Callable[[str], None]
) -> None:
    configured = list(dict.fromkeys([artifact["id"] for artifact in every_artifact(workflow)]))
    for name in dict.fromkeys(requested_ids):
        if name not in configured:
            warn(escape(f"Artifact not configured: {name} - the workflow has {', '.join(configured) or 'none'}"))
        elif name not in selected:
            warn(f"Artifact not selected: {name} - its condition does not hold, or it belongs to another phase")


def every_artifact(workflow: Workflow) -> list[Artifact]:
    """Return all artifacts of a workflow, whatever their condition or phase."""
    critical = workflow["critical_artifacts"]
    phases = [artifact for artifacts in critical["phase_specific"].values() for artifact in artifacts]
    return [*critical["always_load"], *critical["conditional_load"], *phases]


def full_trigger(trigger: str, state: dict[str, Any]) -> str:
    """Return a trigger as artifacts list it: `phase_start` alone means the state's current phase."""
    return f"phase_start:{state.get('current_phase')}" if trigger == "phase_start" else trigger


def recorded_trigger(trigger: str) -> str:
    """Return a trigger as a load records it, without the phase it names (AGENT, Step 7)."""
    return trigger.partition(":")[0]


def age_of(load_entry: Mapping[str, object] | None, now_seconds: float) -> float | None:
    """Return the seconds since an entry was loaded; negative if that is to come, None if its time is unreadable."""
    loaded_at = seconds_of(load_entry.get("loaded_at")) if load_entry is not None else None
    return None if loaded_at is None else now_seconds - loaded_at


def is_current(
    load_entry: Mapping[str, object] | None, now_seconds: float, sha256: str | None, last_sha256: str | None
) -> bool:
    """Return whether a load is under five minutes old (RELOAD, Step 3), and its content not known to have changed.

    One from the future, or without a readable time, is not.
    """
    age = age_of(load_entry, now_seconds)
    changed = sha256 is not None and last_sha256 is not None and sha256 != last_sha256
    return age is not None and 0 <= age < RECENT_SECONDS and not changed


def _applicable(workflow: Workflow, state: dict[str, Any], warn: Callable[[str], None]) -> list[Artifact]:
    critical = workflow["critical_artifacts"]
    conditional = [artifact for artifact in critical["conditional_load"] if _holds(artifact, state, warn)]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase, []) if isinstance(phase, str) else []
    return [*critical["always_load"], *conditional, *of_phase]


def _holds(artifact: Artifact, state: dict[str, Any], warn: Callable[[str], None]) -> bool:
    condition = artifact["condition"]
    if condition is None:
        return True
    try:
        if not isinstance(condition, str):
            raise ConditionError(condition)
        return evaluate(condition, state)
    except ConditionError as error:
        part = f"\n   Not understood: {error.part}" if error.part else ""
        warn(f"{escape(str(error))}\n   Artifact: {escape(artifact['id'])}{part}")
        return False


def _is_triggered(artifact: Artifact, triggers: set[str]) -> bool:
    """Return whether an artifact lists one of the triggers; without a list, every trigger loads it (AGENT, Step 4)."""
    listed = artifact["reload_triggers"]
    return listed is None or "manual" in triggers or not triggers.isdisjoint(listed)


def limit_for_hook(workflow: Workflow, state: dict[str, Any], warn: Callable[[str], None]) -> Workflow:
    """Return a workflow with only the state's current phase and at most MAX_PER_LIST artifacts in each list.

    Of a longer list the required artifacts are kept first, with a warning.
    """

    def first(artifacts: list[Artifact], place: str) -> list[Artifact]:
        if len(artifacts) <= MAX_PER_LIST:
            return artifacts
        warn(
            f"⚠️ WARNING: {escape(place)} names {len(artifacts):,} artifacts, and a hook loads at most {MAX_PER_LIST} of"
            f" them, required ones first; {HINT_LOAD_ALL}"
        )
        return sorted(artifacts, key=lambda artifact: not artifact["required"])[:MAX_PER_LIST]

    critical = workflow["critical_artifacts"]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase) if isinstance(phase, str) else None
    return {
        **workflow,
        "critical_artifacts": {
            "always_load": first(critical["always_load"], "always_load"),
            "conditional_load": first(critical["conditional_load"], "conditional_load"),
            "phase_specific": {phase: first(of_phase, f"phase_specific.{phase}")} if phase and of_phase else {},
        },
    }


MAX_QUOTED = 200  # characters of a condition in a message
MAX_CHARACTERS = 2000  # of a condition: a hook must not be noticed
MAX_DEPTH = 50  # of parentheses: each level takes a few frames of the interpreter's stack
WORDS = {"null": None, "true": True, "false": False}
SIGNS = ("===", "!==", "==", "!=", "<=", ">=", "<", ">", "||", "&&", "!", "(", ")")
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$.[]-")


class ConditionError(ValueError):
    """The text is not a condition of this grammar; the message is worded by the documents.

    `part` is what was not understood: the rest of the text from there on, or empty if it is the whole text.
    """

    def __init__(self, expression: object, reason: str = "", part: str = "") -> None:
        self.part = one_line(part, MAX_QUOTED)
        super().__init__(f"Cannot evaluate condition: {one_line(expression, MAX_QUOTED)}{reason}")


def evaluate(expression: str, state: dict[str, Any]) -> bool:
    """Return whether a condition holds for a state, in time linear in its length; raises only ConditionError."""
    if len(expression) > MAX_CHARACTERS:
        raise ConditionError(expression, f" ({len(expression):,} characters; the limit is {MAX_CHARACTERS:,})")
    return _is_true(_Reader(expression, state).value())


class _Reader:
    """Evaluates an expression from left to right without a tree: each rule returns the value of what it read."""

    def __init__(self, expression: str, state: dict[str, Any]) -> None:
        self.expression = expression
        self.state = state
        self.depth = 0
        self.at = 0  # of the tokens
        self.tokens = self._split()

    def _split(self) -> list[tuple[str, int]]:
        """Return the words, strings and signs of the expression, each with its place, and an empty one at the end."""
        text, at, tokens = self.expression, 0, []
        while at < len(text):
            start = at
            if text[at].isspace():
                at += 1
                continue
            if text[at] in "\"'":
                at = text.find(text[at], at + 1) + 1
                if not at or "\\" in text[start:at]:
                    raise self._error(start)
            elif sign := next((sign for sign in SIGNS if text.startswith(sign, at)), ""):
                at += len(sign)
            else:
                while text[at : at + 1] in LETTERS:
                    at += 1
                if at == start:
                    raise self._error(start)
            tokens.append((text[start:at], start))
        return [*tokens, ("", at)]

    def _error(self, start: int | None = None) -> ConditionError:
        start = self.tokens[self.at][1] if start is None else start
        return ConditionError(self.expression, part=self.expression[start:].strip() or "its end")

    def value(self) -> Any:
        value = self._either()
        if self.tokens[self.at][0]:
            raise self._error()
        return value

    def _take(self, *signs: str) -> str:
        """Return the next token if it is one of the signs, and go on behind it; else an empty text."""
        token = self.tokens[self.at][0]
        if token not in signs:
            return ""
        self.at += 1
        return token

    def _either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = value if _is_true(value) else other
        return value

    def _both(self) -> Any:
        value = self._equality()
        while self._take("&&"):
            other = self._equality()
            value = other if _is_true(value) else value
        return value

    def _equality(self) -> Any:
        value = self._order()
        while sign := self._take("===", "!==", "==", "!="):
            value = _is_same(value, self._order()) is (sign[0] == "=")
        return value

    def _order(self) -> Any:
        value = self._single()
        while sign := self._take("<=", ">=", "<", ">"):
            value = _is_ordered(value, sign, self._single())
        return value

    def _single(self) -> Any:
        negations = 0
        while self._take("!"):
            negations += 1
        value = self._operand()
        return value if negations == 0 else _is_true(value) is (negations % 2 == 0)

    def _operand(self) -> Any:
        if self._take("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self._error()
            value = self._either()
            if not self._take(")"):
                raise self._error()
            self.depth -= 1
            return value
        token, start = self.tokens[self.at]
        if token in WORDS:
            value = WORDS[token]
        elif token[:1] in "\"'" and token:
            value = token[1:-1]
        elif token[:1].isdecimal() or token[:1] == "-":
            try:
                value = float(token)
            except ValueError:
                raise self._error(start) from None
        elif _is_path(token):
            value = value_at(self.state, token)
        else:
            raise self._error(start)
        self.at += 1
        return value


def _is_path(token: str) -> bool:
    """Return whether a token is a name, then any number of `.name` and `[0]`."""
    names = token.replace("[", ".[").split(".")
    for place, name in enumerate(names):
        is_index = place > 0 and name[:1] == "[" and name[-1:] == "]" and name[1:-1].isdecimal()
        if not is_index and not name.replace("$", "_").isidentifier() and not (place and name.isdecimal()):
            return False
    return True


# Truth is as in JavaScript, since the workflow format calls a condition a JavaScript expression. Comparisons are
# stricter: a number and its text are neither equal nor in an order.


def _is_true(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return True
    return bool(value) and value == value  # NaN is false


def _is_same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    if type(one) is not type(other):
        return False
    return one is other if isinstance(one, (dict, list)) else bool(one == other)


def _is_ordered(one: Any, sign: str, other: Any) -> bool:
    """Compare two numbers or two strings by their order; anything else is in none."""
    if not (_is_number(one) and _is_number(other)) and not (isinstance(one, str) and isinstance(other, str)):
        return False
    is_less = one < other if sign[0] == "<" else one > other
    return bool(is_less or (sign[1:] and one == other))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
