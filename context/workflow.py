"""A workflow's configuration: where it stands, whom it extends, and its critical artifacts."""

from __future__ import annotations

import json
import os
import re

from faber_ledger.context.artifacts import artifact_of
from faber_ledger.context.untrusted_file import FileRefused, folder_around, text_of
from faber_ledger.context.user_config import places_in_plugins
from faber_ledger.ledger.errors import WorkflowNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from faber_ledger.context.artifacts import Artifact

    class CriticalArtifacts(TypedDict):
        """Which artifacts to load, and when; `phase_specific` is keyed by phase."""

        always_load: list[Artifact]
        conditional_load: list[Artifact]
        phase_specific: dict[str, list[Artifact]]

    class Workflow(TypedDict):
        """A workflow; `path` is relative to the project where it lies there."""

        id: str
        path: str
        critical_artifacts: CriticalArtifacts


NAMESPACE = "fractary-faber:"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
OF_PLUGIN = "plugins/faber/config/workflows"
OF_PROJECT = ".fractary/plugins/faber/workflows"
SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "workflows")
MAX_BYTES = 1_048_576


def load_workflow(root: str, workflow_id: str, plugin_roots: list[str]) -> Workflow:
    """Load a workflow and its critical artifacts (RELOAD, Step 2).

    They are its own, else the nearest ancestor's, else the defaults. Raises WorkflowNotFound if the workflow or an
    ancestor is missing, malformed, or extends itself.
    """
    path, config = read_workflow(root, workflow_id, plugin_roots)
    owner, chain = path, [workflow_id]
    while (critical := config.get("critical_artifacts")) is None and (parent := config.get("extends")) is not None:
        if not isinstance(parent, str):
            raise _unusable(owner, "extends is no text")
        if parent in chain:
            raise _unusable(owner, f"it extends itself: {' -> '.join([*chain, parent])}")
        chain.append(parent)
        owner, config = read_workflow(root, parent, plugin_roots)
    whole = _defaults() if critical is None else _critical_artifacts(critical, owner)
    return {"id": workflow_id, "path": path, "critical_artifacts": whole}


def read_workflow(root: str, workflow_id: str, plugin_roots: list[str]) -> tuple[str, dict[str, Any]]:
    """Read one workflow's file; give its path as shown, and the object in it. Raises WorkflowNotFound."""
    places = _places(root, workflow_id, plugin_roots)
    for place in places:
        shown = os.path.relpath(place, root) if place.startswith(os.path.join(root, "")) else place
        try:
            if os.path.lexists(place) and folder_around(place, [root, *plugin_roots, SHIPPED]) is None:
                raise FileRefused("it is a link that leaves the project and the plugin roots")
            text = text_of(place, MAX_BYTES)
            config = None if text is None else json.loads(text)
        except (FileRefused, ValueError, RecursionError) as error:
            raise _unusable(shown, str(error)) from error
        if text is None:
            continue
        if not isinstance(config, dict):
            raise _unusable(shown, "it is no JSON object")
        return shown, config
    shown = os.path.relpath(places[0], root)
    raise WorkflowNotFound(
        f"Workflow configuration not found: {workflow_id}",
        hint=f"create {shown}, or correct workflow_id in state.json",
        block=f"❌ ERROR: Workflow configuration not found: {workflow_id}\nPath: {shown}\n\nRecovery:\n"
        f"1. Create {shown}\n2. Correct workflow_id in state.json; fractary-faber:default is always there",
    )


def _places(root: str, workflow_id: str, plugin_roots: list[str]) -> list[str]:
    """Give where a workflow may stand, in the order of search; raises WorkflowNotFound for what is no id."""
    name = workflow_id.removeprefix(NAMESPACE)
    if not NAME.fullmatch(name):
        raise WorkflowNotFound(
            f"this is no id of a workflow: {workflow_id!r:.200}",
            hint="correct workflow_id in state.json or `extends` in the workflow; `fractary-faber:default` is one",
        )
    if name == workflow_id:
        return [os.path.join(root, OF_PROJECT, f"{name}.json")]
    relative = f"{OF_PLUGIN}/{name}.json"
    in_plugins = places_in_plugins(relative, plugin_roots)
    return [os.path.join(root, relative), *in_plugins, os.path.join(SHIPPED, f"{name}.json")]


def _defaults() -> CriticalArtifacts:
    """Give what is loaded for a workflow that names nothing; it promises no protocol, so that one is optional."""
    with open(os.path.join(SHIPPED, "default.json"), encoding="utf-8") as file:
        defaults = _critical_artifacts(json.load(file)["critical_artifacts"], SHIPPED)
    for artifact in defaults["always_load"]:
        if artifact["id"] == "orchestration-protocol":
            artifact["required"] = False
    return defaults


def _critical_artifacts(critical: object, path: str) -> CriticalArtifacts:
    if not isinstance(critical, dict):
        raise _unusable(path, "critical_artifacts is no object")
    phases = critical.get("phase_specific")
    if not (phases is None or isinstance(phases, dict)):
        raise _unusable(path, "critical_artifacts.phase_specific is no object")
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
        raise _unusable(path, f"critical_artifacts.{place} is no list")
    return [artifact_of(raw, f"{place}[{number}]") for number, raw in enumerate(artifacts)]


def _unusable(path: str, problem: str) -> WorkflowNotFound:
    return WorkflowNotFound(f"the workflow configuration {path} cannot be used: {problem}", hint=f"correct {path}")
