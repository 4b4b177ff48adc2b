"""A workflow's configuration: where it is, in the project or a plugin; what it extends; its critical artifacts."""

from __future__ import annotations

import os

from faber_ledger.files.text import escape
from faber_ledger.ledger.disk import FileRefused, folder_around, read_text
from faber_ledger.ledger.encoding import loads
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.runs.progress import PHASES
from faber_ledger.runs.run import is_name
from faber_ledger.runs.settings import places_in_plugins, places_installed

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

    class WorkflowStep(TypedDict):
        """A step, or a phase without steps (`name` is None); `is_gated` if its phase needs approval to begin."""

        phase: str
        name: str | None
        does: str
        path: str
        is_gated: bool


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
        block = f"❌ ERROR: {message}\n\nRecovery:\n1. Correct `extends` in {owner}"
        raise WorkflowNotFound(message, hint=f"correct `extends` in {owner}", block=block)
    shown = os.path.relpath(places[0], root)
    raise WorkflowNotFound(
        f"Workflow configuration not found: {workflow_id}",
        hint=f"create {shown}, or correct workflow_id in state.json",
        block=f"❌ ERROR: Workflow configuration not found: {workflow_id}\nPath: {shown}\n\nRecovery:\n"
        f"1. Create {shown}\n2. Correct workflow_id in state.json; fractary-faber:default is always there",
    )


def _read_first(places: list[tuple[str, list[str]]], root: str) -> tuple[str, dict[str, Any]] | None:
    """Return the path and the object of the first workflow that exists, or None; raises WorkflowNotFound."""
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
    """Return the plugin, the marketplace and the name in an id, as far as it has them.

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


def steps_in_order(lineage: list[tuple[str, dict[str, Any]]]) -> list[WorkflowStep]:
    """Return the steps of all enabled phases; of a phase without steps, the phase alone.

    `lineage` has the path and the object of the workflow, then of each one that it extends. As FABER merges them, what
    comes before a phase's steps is inherited, the oldest ancestor's first; the steps are the workflow's own alone; what
    comes after them is inherited, too, the oldest ancestor's last. A step that the workflow skips is not there.
    """
    path, own = lineage[0]
    phases = [(where, _phases_of(config)) for where, config in lineage]
    ordered = dict.fromkeys([*PHASES, *[name for _, of_config in phases for name in of_config]])
    gated = _gated_phases([config for _, config in lineage])
    listed = own.get("skip_steps")
    skipped = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    in_order: list[WorkflowStep] = []
    for phase in ordered:
        defined = [(where, of_config[phase]) for where, of_config in phases if phase in of_config]
        nearest: dict[str, Any] = {}
        for _, held in reversed(defined):
            nearest |= held
        if not defined or nearest.get("enabled") is False:
            continue
        lists = [(where, held.get("pre_steps")) for where, held in reversed(defined)]
        lists.append((path, phases[0][1].get(phase, {}).get("steps")))
        lists += [(where, held.get("post_steps")) for where, held in defined]
        steps: dict[str | None, WorkflowStep] = {}
        for step in _read_steps(lists, phase):
            if step["name"] not in skipped:
                steps.setdefault(step["name"], step)
        does = nearest.get("description")
        does = does if isinstance(does, str) else ""
        alone: WorkflowStep = {"phase": phase, "name": None, "does": does, "path": path, "is_gated": False}
        is_gated = phase in gated or nearest.get("require_approval") is True
        in_order += [{**step, "is_gated": is_gated} for step in steps.values() or [alone]]
    return in_order


def _read_steps(lists: list[tuple[str, Any]], phase: str) -> list[WorkflowStep]:
    """Return the steps in lists of one phase, each with the path where it stands."""
    steps: list[WorkflowStep] = []
    for path, listed in lists:
        for raw in listed if isinstance(listed, list) else []:
            name, does = raw, ""
            if isinstance(raw, dict):
                texts = {key: value.strip() for key, value in raw.items() if isinstance(value, str)}
                name, does = texts.get("id") or texts.get("name") or None, _describe_step(texts)
            if isinstance(name, str):
                steps.append({"phase": phase, "name": name, "does": does, "path": path, "is_gated": False})
    return steps


def _describe_step(texts: dict[str, str]) -> str:
    """Return a step's prompt, else its command or its skill, after its description if that alone says little."""
    described = texts.get("description") or texts.get("name") or ""
    command = texts.get("prompt") or texts.get("command") or texts.get("skill")
    if not command:
        return described
    more = texts.get("context")
    is_worded = " " in command and not command.startswith("/")
    said = command if is_worded or not described else f"{described.rstrip('.')}: {command}"
    return f"{said} ({more})" if more else said


def _gated_phases(configs: list[dict[str, Any]]) -> set[str]:
    """Return the phases that the nearest `autonomy` with such a list wants approved."""
    for config in configs:
        autonomy = config.get("autonomy")
        named = autonomy.get("require_approval_for") if isinstance(autonomy, dict) else None
        if isinstance(named, list):
            return {name for name in named if isinstance(name, str)}
    return set()


def _phases_of(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    held = config.get("phases")
    return {key: value for key, value in held.items() if isinstance(value, dict)} if isinstance(held, dict) else {}
