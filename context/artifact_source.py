"""Where an artifact comes from: its path with placeholders filled, inside the project or a plugin root."""

from __future__ import annotations

import os
import re

from faber_ledger.context.artifacts import ArtifactError
from faber_ledger.context.project import RUN_ID
from faber_ledger.context.state_path import value_at
from faber_ledger.context.untrusted_file import FileRefused, folder_around, real_path, size_of
from faber_ledger.context.user_config import places_in_plugins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from faber_ledger.context.artifacts import Artifact

    class Surroundings(TypedDict):
        """What artifacts are resolved against: absolute folders, and the run's state.

        `run_dir` is where the run really lies; `plugin_roots` are those of the user's own configuration.
        """

        root: str
        run_dir: str
        plugin_roots: list[str]
        state: dict[str, Any]

    class Found(TypedDict):
        """A file: `source` is relative to the project, else to its plugin root; `resolved` is absolute."""

        source: str
        resolved: str
        size_bytes: int


PLACEHOLDER = re.compile(r"\{(project_root|run_id|plan_id|work_id)\}")
VALUE = r"[A-Za-z0-9][A-Za-z0-9._#-]{0,63}"  # few need it: compiled at first use
MAX_RUN_ID = 255
RUNS_BELOW = {".fractary", ".fractary/faber"}


def find(artifact: Artifact, surroundings: Surroundings) -> Found:
    """Find an artifact's file (RELOAD, Step 5); raises ArtifactError.

    Links are resolved first: a file outside the project and the plugin roots is refused, since state and workflow come
    with the repository.
    """
    folders = [surroundings["root"], *surroundings["plugin_roots"]]
    missing, outside = [], []
    for place in _places(path_of(artifact, surroundings), surroundings):
        try:
            folder = folder_around(place, folders)
            size = size_of(place) if folder is not None else None
        except FileRefused as error:
            raise ArtifactError(f"Cannot read {place}: {error}", place) from error
        if folder is None:
            outside.append(place)
        elif size is None:
            missing.append(place)
        else:
            resolved = real_path(place)
            return {"source": os.path.relpath(resolved, folder), "resolved": resolved, "size_bytes": size}
    existing = [place for place in outside if os.path.lexists(place)]
    if existing or not missing:
        place = (existing or outside)[0]
        raise ArtifactError(f"Path is outside the project and the plugin roots: {place}", place)
    raise ArtifactError(f"File not found: {missing[0]}", missing[0])


def path_of(artifact: Artifact, surroundings: Surroundings) -> str:
    """Give an artifact's path with its placeholders filled, from the workflow or the state; raises ArtifactError."""
    state = surroundings["state"]
    if artifact["path"]:
        return _filled(artifact["path"], surroundings)
    field = artifact["path_from_state"]
    if field:
        value = value_at(state, field)
        if value is None or value == "":
            raise ArtifactError(f"State field not found: {field}")
        if not isinstance(value, str):
            raise ArtifactError(f"State field is no path: {field}")
        return _filled(value, surroundings)
    if artifact["command"]:
        raise ArtifactError(f"Artifact of type {artifact['type']} must have path or path_from_state")
    raise ArtifactError("Artifact must have path, path_from_state, or command")


def _filled(path: str, surroundings: Surroundings) -> str:
    """Fill the placeholders in one pass, so that a value that looks like one stays a value (SPEC, section 8)."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return surroundings["root"] if name == "project_root" else _safe(name, surroundings["state"].get(name))

    return PLACEHOLDER.sub(value, path)


def _safe(name: str, value: object) -> str:
    if value is None:
        return ""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else "/"
    if name == "run_id":
        safe = len(text) <= MAX_RUN_ID and RUN_ID.fullmatch(text) is not None
    else:
        safe = text == "" or re.fullmatch(VALUE, text) is not None
    if not safe:
        raise ArtifactError(f"State field cannot stand in a path: {name}")
    return text


def _places(path: str, surroundings: Surroundings) -> list[str]:
    """Give where a path may lie, in the order of search.

    Real states name project files with a leading slash. And a run is used where it lies, whatever layout of the runs'
    folder the workflow was written for: a path below `runs/<run_id>/` is one below the run's own folder.
    """
    root, run_id = surroundings["root"], surroundings["state"].get("run_id")
    inside = path if path.startswith(os.path.join(root, "")) else os.path.join(root, path.lstrip("/"))
    relative = os.path.relpath(inside, root)
    before, marker, rest = relative.partition(f"/runs/{run_id}/")
    of_run = [os.path.join(surroundings["run_dir"], rest)] if marker and before in RUNS_BELOW else []
    as_given = [path] if path.startswith("/") else []
    places = [*of_run, *as_given, inside, *places_in_plugins(relative, surroundings["plugin_roots"])]
    return list(dict.fromkeys(places))
