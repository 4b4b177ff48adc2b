"""Where an artifact comes from: its path, with placeholders filled, inside the project or a plugin root."""

from __future__ import annotations

import os
import stat

from faber_ledger.context.artifact import ArtifactError
from faber_ledger.files.untrusted import FileRefused, around, real_path, size_of
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.run import RUNS, is_run_id
from faber_ledger.runs.settings import places_in_plugins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from faber_ledger.context.artifact import Artifact, Surroundings
    from faber_ledger.runs.run import Run

    class Found(TypedDict):
        """A file or directory: `source` is relative to `folder`, the project or a plugin root; the rest is absolute."""

        source: str
        resolved: str
        folder: str
        size_bytes: int


NO_SOURCE = "Artifact must have path, path_from_state, or command"
RUNS_BELOW = {".fractary", ".fractary/faber"}
STATE_OF_PLAN = r"\.fractary/faber/runs/[^/]+/state-([^/]+)\.json"
OF_PLAN = "-run-"
PLACEHOLDERS = ("project_root", "run_id", "plan_id", "work_id", "run_suffix")
MAX_VALUE = 64  # in a command, or in the client's environment
MAX_VALUE_IN_PATH = 255  # the longest name of a file; real plan ids have more than 64
# Where FABER's tools and the documents' keep a run's state, below one of the folders of runs.
PLACES_OF_STATE = (
    "{run_id}/state.json",
    "{plan_id}/{run_suffix}/state.json",
    "{plan_id}/state-{run_suffix}.json",
    "{plan_id}-run-{run_suffix}/state.json",
)
OF_VALUE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._#-")


def build_surroundings(
    run: Run, state: dict[str, Any], plugin_roots: list[str], commands: dict[str, list[str]] | None = None
) -> Surroundings:
    """Return what a run's artifacts are resolved against; `commands` are the user's, and None in a hook."""
    in_tree = find_run(run.root, run.run_id) if run.is_kept else run
    return {
        "root": os.path.realpath(run.root),
        "run_dir": os.path.realpath(in_tree.directory),
        "state_path": os.path.join(os.path.realpath(run.directory), os.path.basename(run.state_path)),
        "suffix": in_tree.suffix,
        "plugin_roots": plugin_roots,
        "commands": commands or {},
        "state": {**state, "run_id": run.run_id},
    }


def find_file(artifact: Artifact, surroundings: Surroundings) -> Found:
    """Return an artifact's file (RELOAD, Step 5); raises ArtifactError.

    Links are resolved first. A file outside the project and the plugin roots is refused, since state and workflow come
    with the repository.
    """
    return _find(artifact, surroundings, size_of, "File")


def find_directory(artifact: Artifact, surroundings: Surroundings) -> Found:
    """Return an artifact's directory, found as `find_file` finds a file; its size is 0. Raises ArtifactError."""
    return _find(artifact, surroundings, _directory_size, "Directory")


def _find(artifact: Artifact, surroundings: Surroundings, size_at: Callable[[str], int | None], kind: str) -> Found:
    folders = [surroundings["root"], *map(os.path.realpath, surroundings["plugin_roots"])]
    path = path_of(artifact, surroundings)
    missing, outside = [], []
    for place in _places(path, surroundings):
        resolved = _real_path(place)
        is_state = resolved == surroundings["state_path"]  # a kept run's is below the git directory
        folder = surroundings["root"] if is_state else around(resolved, folders)
        size = _size_at(place, resolved, folder, size_at, is_state=is_state) if folder is not None else None
        if folder is None:
            outside.append(place)
        elif size is None:
            missing.append(place)
        else:
            return _found(resolved, folder, size)
    from faber_ledger.context.plugins import folder_installed, places_installed  # only for what is not in the project

    for place in outside:
        resolved = _real_path(place)
        folder = folder_installed(resolved, surroundings["root"])
        size = _size_at(place, resolved, folder, size_at) if folder is not None else None
        if folder is not None and size is not None:
            return _found(resolved, folder, size)
    existing = [place for place in outside if os.path.lexists(place)]
    if existing or not missing:
        # The error has no `resolved`: nothing may look at a path outside, not even for its size.
        raise ArtifactError(f"Path is outside the project and the plugin roots: {(existing or outside)[0]}")
    relative = os.path.relpath(missing[0], surroundings["root"])
    for place, folder in places_installed(relative, surroundings["root"]):
        resolved = _real_path(place)
        size = _size_at(place, resolved, folder, size_at) if around(resolved, [folder]) is not None else None
        if size is not None:
            return _found(resolved, folder, size)
    raise ArtifactError(f"{kind} not found: {missing[0]}", missing[0], is_missing=True)


def _real_path(place: str) -> str:
    try:
        return real_path(place)
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {place}: {error}", place) from error


def _size_at(
    place: str, resolved: str, folder: str, size_at: Callable[[str], int | None], *, is_state: bool = False
) -> int | None:
    """Return the size of what is at a place inside `folder`, or None; raises ArtifactError."""
    try:
        size = size_at(resolved)
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {place}: {error}", place) from error
    if not is_state and ".git" in os.path.relpath(resolved, folder).lower().split(os.sep):
        raise ArtifactError(f"Path is in git's own folder, which may hold a token: {place}")
    return size


def _found(resolved: str, folder: str, size: int) -> Found:
    source = os.path.relpath(resolved, folder).replace(os.sep, "/")
    return {"source": source, "resolved": resolved, "folder": folder, "size_bytes": size}


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
    """Return an artifact's path, from the workflow or the state, with its placeholders filled; raises ArtifactError."""
    state = surroundings["state"]
    if artifact["path"]:
        return surroundings["state_path"] if is_own_state(artifact) else fill(artifact["path"], surroundings)
    field = artifact["path_from_state"]
    if field:
        value = value_at(state, field)
        if value is None or value == "":
            raise ArtifactError(f"State field not found: {field}", is_missing=True)
        if not isinstance(value, str):
            raise ArtifactError(f"State field is not a path: {field}")
        return fill(value, surroundings)
    if artifact["command"]:
        raise ArtifactError(f"Artifact of type {artifact['type']} must have path or path_from_state")
    raise ArtifactError(NO_SOURCE)


def is_own_state(artifact: Artifact) -> bool:
    """Return whether an artifact's path means the run's own state, wherever it is and whatever its plan's id."""
    path = (artifact["path"] or "").removeprefix("{project_root}").lstrip("/")
    return any([path == f"{runs}/{place}" for runs in RUNS for place in PLACES_OF_STATE])


def _places(path: str, surroundings: Surroundings) -> list[str]:
    """Return where a path may be, in the order of search.

    Real states name project files with a leading slash. A run is used where it is, whatever layout of the runs' folder
    the workflow was written for: a path below `runs/<run_id>/` means one below the run's own folder, and so does the
    state that tools with several runs in one plan keep as `runs/<plan_id>/state-<run_suffix>.json`.
    """
    root, run_id = surroundings["root"], str(surroundings["state"].get("run_id"))
    inside = path if path.startswith(os.path.join(root, "")) else os.path.join(root, path.lstrip("/"))
    relative = os.path.relpath(inside, root)
    before, marker, rest = f"{relative}/".partition(f"/runs/{run_id}/")
    of_run = [os.path.join(surroundings["run_dir"], rest).rstrip("/")] if marker and before in RUNS_BELOW else []
    if of_run and rest == "state.json/":
        of_run = [surroundings["state_path"]]
    if "/state-" in relative:
        import re  # a third of what a start costs, for these layouts alone

        of_plan = re.fullmatch(STATE_OF_PLAN, relative)
        if of_plan and of_plan[1] == run_suffix(run_id):
            of_run = [surroundings["state_path"]]
    as_given = [path] if path.startswith("/") else []
    places = [*of_run, *as_given, inside, *places_in_plugins(relative, surroundings["plugin_roots"])]
    return list(dict.fromkeys(places))


def fill(text: str, surroundings: Surroundings, where: str = "a path") -> str:
    """Return a text with its placeholders filled, in one pass: a value that looks like a placeholder is not filled.

    A placeholder without a value becomes empty (RELOAD, Step 5). Raises ArtifactError for a value that could be more
    than a name, since the state comes with the repository.
    """
    first, *others = text.split("{")
    for piece in others:
        name, _, rest = piece.partition("}")
        first += _value(name, surroundings, where) + rest if _is_placeholder(piece) else "{" + piece
    return first


def fill_command(text: str, surroundings: Surroundings) -> str:
    """Return a command with its placeholders filled; raises ArtifactError if one is empty: it could mean all."""
    empty = empty_placeholders(text, surroundings, "a command")
    if empty:
        raise ArtifactError(no_value_for(empty))
    return fill(text, surroundings, "a command")


def empty_placeholders(text: str, surroundings: Surroundings, where: str) -> list[str]:
    """Return the names of a text's placeholders that have no value, in their order; raises ArtifactError."""
    names = dict.fromkeys([piece.partition("}")[0] for piece in text.split("{")[1:] if _is_placeholder(piece)])
    return [name for name in names if not _value(name, surroundings, where)]


def unknown_placeholders(text: str) -> list[str]:
    """Return what looks like a placeholder in a text but is not one, with its braces, in its order."""
    import re  # no hook looks for them

    return [name for name in dict.fromkeys(re.findall(r"\{[A-Za-z_]\w*\}", text)) if name[1:-1] not in PLACEHOLDERS]


def _is_placeholder(piece: str) -> bool:
    """Return whether the text after a brace begins with a placeholder's name and the closing brace."""
    name, brace, _ = piece.partition("}")
    return bool(brace) and name in PLACEHOLDERS


def no_value_for(names: list[str]) -> str:
    """Return a message that names placeholders without a value."""
    return f"no value in the run's state for {', '.join([f'{{{name}}}' for name in names])}"


def is_value(text: str, longest: int = MAX_VALUE) -> bool:
    """Return whether a text may enter a command or a path: [A-Za-z0-9][A-Za-z0-9._#-]*, not longer than `longest`."""
    return 0 < len(text) <= longest and OF_VALUE.issuperset(text) and text[0] not in "._#-"


def run_suffix(run_id: str) -> str:
    """Return the part of a run id that differs within its plan: after the last `-run-`, else after the last `-`.

    Tools that keep the states of several runs in one plan's folder use ids of the form `<plan>-run-<suffix>`.
    """
    last = run_id.rpartition("/")[2]
    return last.rpartition(OF_PLAN)[2] if OF_PLAN in last else last.rpartition("-")[2]


def _value(name: str, surroundings: Surroundings, where: str = "a path") -> str:
    if name == "project_root":
        return surroundings["root"]
    is_of_run = name in ("run_id", "run_suffix")
    value = surroundings["state"].get("run_id" if is_of_run else name)
    if value is None:
        return ""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else "/"
    if is_of_run:
        safe = is_run_id(text)
        text = run_suffix(text) if name == "run_suffix" else text
    else:
        safe = text == "" or is_value(text, MAX_VALUE_IN_PATH if where == "a path" else MAX_VALUE)
    if not safe:
        raise ArtifactError(f"State field cannot be used in {where}: {name}")
    return text
