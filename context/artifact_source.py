"""Where an artifact comes from: its path with placeholders filled, inside the project or a plugin root."""

from __future__ import annotations

import os
import re
import stat

from faber_ledger.context.artifacts import ArtifactError
from faber_ledger.context.placeholders import filled, run_suffix
from faber_ledger.files.untrusted import FileRefused, around, real_path, size_of
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.settings import places_in_plugins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from faber_ledger.context.artifacts import Artifact
    from faber_ledger.runs.run import Run

    class Surroundings(TypedDict):
        """What artifacts are resolved against: absolute folders, and the run's state.

        `root` and `run_dir` are without links, and the second is where the run really lies; `plugin_roots` are those of
        the user's own configuration, and so are `commands`, the programs that stand in for slash commands: none in a
        hook, which runs none.
        """

        root: str
        run_dir: str
        plugin_roots: list[str]
        commands: dict[str, list[str]]
        state: dict[str, Any]

    class Found(TypedDict):
        """A file or directory: `source` is relative to the project, else to its plugin root; `resolved` is absolute."""

        source: str
        resolved: str
        size_bytes: int


NO_SOURCE = "Artifact must have path, path_from_state, or command"
RUNS_BELOW = {".fractary", ".fractary/faber"}
STATE_OF_PLAN = r"\.fractary/faber/runs/[^/]+/state-([^/]+)\.json"


def surroundings_of(
    run: Run, state: dict[str, Any], plugin_roots: list[str], commands: dict[str, list[str]] | None = None
) -> Surroundings:
    """Give what a run's artifacts are resolved against; `commands` are the user's, and none in a hook."""
    real = {**state, "run_id": run.run_id}
    return {
        "root": os.path.realpath(run.root),
        "run_dir": os.path.realpath(run.directory),
        "plugin_roots": plugin_roots,
        "commands": commands or {},
        "state": real,
    }


def find(artifact: Artifact, surroundings: Surroundings) -> Found:
    """Find an artifact's file (RELOAD, Step 5); raises ArtifactError.

    Links are resolved first: a file outside the project and the plugin roots is refused, since state and workflow come
    with the repository.
    """
    return _found(artifact, surroundings, size_of, "File")


def find_directory(artifact: Artifact, surroundings: Surroundings) -> Found:
    """Find an artifact's directory, as `find` does a file; its size is 0. Raises ArtifactError."""
    return _found(artifact, surroundings, _directory_size, "Directory")


def _found(artifact: Artifact, surroundings: Surroundings, size_at: Callable[[str], int | None], kind: str) -> Found:
    folders = [surroundings["root"], *map(os.path.realpath, surroundings["plugin_roots"])]
    missing, outside = [], []
    for place in _places(path_of(artifact, surroundings), surroundings):
        try:
            resolved = real_path(place)
            folder = around(resolved, folders)
            size = size_at(resolved) if folder is not None else None
        except FileRefused as error:
            raise ArtifactError(f"Cannot read {place}: {error}", place) from error
        if folder is not None and ".git" in os.path.relpath(resolved, folder).lower().split(os.sep):
            raise ArtifactError(f"Path is git's own, which may hold a token: {place}")
        if folder is None:
            outside.append(place)
        elif size is None:
            missing.append(place)
        else:
            source = os.path.relpath(resolved, folder).replace(os.sep, "/")
            return {"source": source, "resolved": resolved, "size_bytes": size}
    existing = [place for place in outside if os.path.lexists(place)]
    if existing or not missing:
        # Without the place: nothing that looks at it may follow, were it only for its size.
        raise ArtifactError(f"Path is outside the project and the plugin roots: {(existing or outside)[0]}")
    raise ArtifactError(f"{kind} not found: {missing[0]}", missing[0], is_missing=True)


def _directory_size(path: str) -> int | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileRefused(error.strerror or str(error)) from error
    if not stat.S_ISDIR(status.st_mode):
        raise FileRefused("not a directory")
    return 0


def path_of(artifact: Artifact, surroundings: Surroundings) -> str:
    """Give an artifact's path with its placeholders filled, from the workflow or the state; raises ArtifactError."""
    state = surroundings["state"]
    if artifact["path"]:
        return filled(artifact["path"], surroundings)
    field = artifact["path_from_state"]
    if field:
        value = value_at(state, field)
        if value is None or value == "":
            raise ArtifactError(f"State field not found: {field}", is_missing=True)
        if not isinstance(value, str):
            raise ArtifactError(f"State field is no path: {field}")
        return filled(value, surroundings)
    if artifact["command"]:
        raise ArtifactError(f"Artifact of type {artifact['type']} must have path or path_from_state")
    raise ArtifactError(NO_SOURCE)


def _places(path: str, surroundings: Surroundings) -> list[str]:
    """Give where a path may lie, in the order of search.

    Real states name project files with a leading slash. And a run is used where it lies, whatever layout of the runs'
    folder the workflow was written for: a path below `runs/<run_id>/` is one below the run's own folder, and so is the
    state that tools with several runs to a plan keep as `runs/<plan_id>/state-<run_suffix>.json`.
    """
    root, run_id = surroundings["root"], str(surroundings["state"].get("run_id"))
    inside = path if path.startswith(os.path.join(root, "")) else os.path.join(root, path.lstrip("/"))
    relative = os.path.relpath(inside, root)
    before, marker, rest = f"{relative}/".partition(f"/runs/{run_id}/")
    of_run = [os.path.join(surroundings["run_dir"], rest).rstrip("/")] if marker and before in RUNS_BELOW else []
    of_plan = re.fullmatch(STATE_OF_PLAN, relative) if "/state-" in relative else None
    if of_plan and of_plan[1] == run_suffix(run_id):
        of_run = [os.path.join(surroundings["run_dir"], "state.json")]
    as_given = [path] if path.startswith("/") else []
    places = [*of_run, *as_given, inside, *places_in_plugins(relative, surroundings["plugin_roots"])]
    return list(dict.fromkeys(places))
