"""An artifact that must stay in context: where it is, its content, and what is said of a failure (SPEC, section 1)."""

from __future__ import annotations

import os

from faber_ledger.files.json_text import on_lines
from faber_ledger.ledger.disk import FileRefused, FileTooLarge, around, read_text, real_path, size_of
from faber_ledger.ledger.encoding import dumps, loads, sha256, without_surrogates
from faber_ledger.runs.clone import keyed_digest
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.run import LARGEST_STATE, LAYOUTS, LONGEST_VALUE, OF_PLAN, RUNS, is_run_id, is_value
from faber_ledger.runs.settings import list_installed, places_in_plugins, places_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NotRequired, TypedDict

    from faber_ledger.context.workflow import Artifact
    from faber_ledger.runs.run import Run

    class Content(TypedDict):
        """What a loader read: the text that the agent is given, or if `is_deferred` the command that it is to run."""

        text: str
        source: str
        resolved: str
        size_bytes: int
        is_deferred: NotRequired[bool]

    class Loaded(TypedDict):
        """An artifact with its content.

        `size_bytes` is the file's size, `sha256` (hex) the content's digest; for the run's own state both are without
        the ledger's blocks. One that `is_outlined` is given as an outline, however much room there is. `source` is what
        a load records, `resolved` the absolute path or command that a report shows. `notes` are for the user.
        """

        artifact: Artifact
        content: str
        size_bytes: int
        sha256: str
        source: str
        resolved: str
        is_large: bool
        is_state: bool
        is_outlined: bool
        is_deferred: bool
        notes: list[str]

    class Surroundings(TypedDict):
        """What artifacts are resolved against: absolute folders, and the run's state.

        `root`, `run_dir` and `state_path` are resolved, without links. `plugin_roots` and `commands` come from the
        user's own configuration; `commands` are the programs mapped to slash commands, empty in a hook, which runs
        none. `suffix` belongs to the run's files, in a folder of several runs.
        `is_state_read` means that `state` is the content of its file, not of a backup.
        """

        root: str
        run_dir: str
        state_path: str
        suffix: NotRequired[str]
        plugin_roots: list[str]
        commands: dict[str, list[str]]
        state: dict[str, Any]
        is_state_read: NotRequired[bool]

    class Found(TypedDict):
        """A file or directory: `source` is relative to `folder`, the project or a plugin root; the rest is absolute."""

        source: str
        resolved: str
        folder: str
        size_bytes: int


MAX_BYTES = 1_048_576
COMMAND_TYPES = {"work_plugin", "skill", "git_info"}  # types that have a command; all others have a path
STRATEGIES = ("all", "latest_only", "summary")
REFUSED = "Command refused: "  # the beginning of the reason if a command is not on the list


class ArtifactError(Exception):
    """An artifact cannot be loaded: the reason, and the path that was tried, if it is known.

    `is_missing` means that the file does not exist, as before the phase that creates it; `is_state`, that it is the
    run's own state. `has_room_in` names the load strategies with which one that is too large can be loaded.
    """

    def __init__(
        self,
        message: str,
        resolved: str | None = None,
        *,
        is_missing: bool = False,
        is_state: bool = False,
        has_room_in: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.resolved = resolved
        self.is_missing = is_missing
        self.is_state = is_state
        self.has_room_in = has_room_in


NO_SOURCE = "Artifact must have path, path_from_state, or command"
PLACEHOLDERS = ("run_id", "plan_id", "work_id", "run_suffix", "project_root")
MAX_VALUE_IN_PATH = 255  # the longest name of a file; real plan ids have more than 64
# Where FABER's tools and the documents' keep a run's state, below one of the folders of runs.
PLACES_OF_STATE = [place.replace("<suffix", "<run_suffix").replace("<", "{").replace(">", "}") for _, place in LAYOUTS]
PLACES_OF_STATE.append(f"{{plan_id}}{OF_PLAN}{{run_suffix}}/state.json")


def build_surroundings(
    run: Run, state: dict[str, Any], plugin_roots: list[str], commands: dict[str, list[str]] | None = None
) -> Surroundings:
    """Return what a run's artifacts are resolved against; `commands` are the user's, None in a hook."""
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


def find_place(
    artifact: Artifact, surroundings: Surroundings, size_at: Callable[[str], int | None] = size_of, kind: str = "File"
) -> Found:
    """Return an artifact's file or directory (RELOAD, Step 5); raises ArtifactError.

    `size_at` measures it, and `kind` names it. Links are resolved first. What is outside of the project and the plugin
    roots is refused, since state and workflow come with the repository.
    """
    root = surroundings["root"]
    folders = [root, *map(os.path.realpath, surroundings["plugin_roots"])]
    missing: list[str] = []
    outside: list[str] = []
    for place in _places(path_of(artifact, surroundings), surroundings):
        is_inside, found = _look(place, folders, surroundings, size_at)
        if found is not None:
            return found
        (missing if is_inside else outside).append(place)
    for place in outside:
        _, found = _look(place, [folder for folder, _, _ in list_installed(root)], surroundings, size_at)
        if found is not None:
            return found
    existing = [place for place in outside if os.path.lexists(place)]
    if existing or not missing:
        # The error has no `resolved`: nothing may look at a path outside, not even for its size.
        raise ArtifactError(f"Path is outside the project and the plugin roots: {(existing or outside)[0]}")
    for place, folder in places_installed(os.path.relpath(missing[0], root), root):
        _, found = _look(place, [folder], surroundings, size_at)
        if found is not None:
            return found
    raise ArtifactError(f"{kind} not found: {missing[0]}", missing[0], is_missing=True)


def _look(
    place: str, folders: list[str], surroundings: Surroundings, size_at: Callable[[str], int | None]
) -> tuple[bool, Found | None]:
    """Return whether a place is in one of the folders, and what is there, or None; raises ArtifactError."""
    try:
        resolved = real_path(place)
        is_state = resolved == surroundings["state_path"]  # a kept run's is below the git directory
        folder = surroundings["root"] if is_state else around(resolved, folders)
        size = size_at(resolved) if folder is not None else None
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {place}: {error}", place) from error
    if folder is None:
        return False, None
    source = os.path.relpath(resolved, folder).replace(os.sep, "/")
    if not is_state and ".git" in source.lower().split("/"):
        raise ArtifactError(f"Path is in git's own folder, which may hold a token: {place}")
    if size is None:
        return True, None
    return True, {"source": source, "resolved": resolved, "folder": folder, "size_bytes": size}


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


def text_of(printed: bytes) -> str:
    """Return what a program printed as text; raises ValueError for anything else."""
    if b"\0" in printed:
        raise ValueError("binary content")
    try:
        return printed.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start:,})") from error


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
    of_run = [os.path.join(surroundings["run_dir"], rest).rstrip("/")] if marker and f"{before}/runs" in RUNS else []
    if of_run and rest == "state.json/":
        of_run = [surroundings["state_path"]]
    above, name = os.path.split(relative)
    if os.path.dirname(above) == RUNS[1] and name == f"state-{run_suffix(run_id)}.json":
        of_run = [surroundings["state_path"]]
    as_given = [path] if path.startswith("/") else []
    places = [*of_run, *as_given, inside, *places_in_plugins(relative, surroundings["plugin_roots"])]
    return list(dict.fromkeys(places))


def fill(text: str, surroundings: Surroundings, where: str = "a path") -> str:
    """Return a text with its placeholders filled; no value but the project's path, the last, may have a brace.

    A placeholder without a value becomes empty (RELOAD, Step 5). Raises ArtifactError for a value that could be more
    than a name, since the state comes with the repository.
    """
    for name in PLACEHOLDERS:
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", _value(name, surroundings, where))
    return text


def fill_command(text: str, surroundings: Surroundings) -> str:
    """Return a command with its placeholders filled; raises ArtifactError if one is empty: it could mean all."""
    empty = empty_placeholders(text, surroundings, "a command")
    if empty:
        raise ArtifactError(no_value_for(empty))
    return fill(text, surroundings, "a command")


def empty_placeholders(text: str, surroundings: Surroundings, where: str) -> list[str]:
    """Return the names of a text's placeholders that have no value, in their order; raises ArtifactError."""
    names = sorted([name for name in PLACEHOLDERS if f"{{{name}}}" in text], key=lambda name: text.index(f"{{{name}}}"))
    return [name for name in names if not _value(name, surroundings, where)]


def no_value_for(names: list[str]) -> str:
    """Return a message that names placeholders without a value."""
    return f"no value in the run's state for {', '.join([f'{{{name}}}' for name in names])}"


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
        safe = text == "" or is_value(text, MAX_VALUE_IN_PATH if where == "a path" else LONGEST_VALUE)
    if not safe:
        raise ArtifactError(f"State field cannot be used in {where}: {name}")
    return text


LARGE_BYTES = 100 * 1024
MAX_INDENTED = 25_000  # characters of a state that is written with an indent
SUMMARY = "summary"  # the load strategy
KEYED = "keyed:"  # before a digest, which was made with the key of the clone that recorded it
CHANGED_BY_EVENTS = {"sessions", "context_metadata", "updated_at"}


def content_digest(text: str) -> str:
    """Return the SHA-256 (hex) of a text as the agent gets it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keyed(root: str, digest: str) -> str:
    """Return what is recorded of a SHA-256, so that nobody guesses the content from it; empty without a key."""
    found = keyed_digest(root, digest)
    return f"{KEYED}{found}" if found else ""


def state_for_packet(state: dict[str, Any]) -> str:
    """Return a state as JSON without what every append changes; a large one is on one line, which is far shorter."""
    kept = {name: value for name, value in state.items() if name not in CHANGED_BY_EVENTS}
    text = dumps(kept)
    return without_surrogates(on_lines(kept) if len(text) <= MAX_INDENTED else text)


def given_text(text: str, is_state: bool, otherwise: str | None = None) -> str:
    """Return a file's text as the agent is given it; for a state, what `state_for_packet` returns.

    What is no JSON object is given as it is, or `otherwise`.
    """
    if not is_state:
        return text
    try:
        state = loads(text)
    except RecursionError:
        return text
    except ValueError:
        state = None
    return state_for_packet(state) if isinstance(state, dict) else text if otherwise is None else otherwise


def source_text(artifact: Artifact, surroundings: Surroundings) -> str:
    """Return the text of an artifact that may have placeholders, before they are filled."""
    if artifact["type"] in COMMAND_TYPES:
        return artifact["command"] or ""
    if artifact["path"] or not artifact["path_from_state"]:
        return artifact["path"] or ""
    value = value_at(surroundings["state"], artifact["path_from_state"])
    return value if isinstance(value, str) else ""


def read_file(artifact: Artifact, surroundings: Surroundings) -> Content:
    """Read a file; raises ArtifactError."""
    found = find_place(artifact, surroundings)
    place = found["resolved"]
    is_state = place == surroundings["state_path"]
    is_outlined = artifact["load_strategy"] == SUMMARY
    limit = LARGEST_STATE if is_state or is_outlined else MAX_BYTES
    is_read = is_state and surroundings.get("is_state_read")  # then its file is not read again
    try:
        text = state_for_packet(surroundings["state"]) if is_read else None
    except RecursionError:
        text = None
    try:
        if text is None:
            text = read_text(place, limit)
            text = given_text(text, is_state, otherwise="") if text is not None else None
    except FileTooLarge as error:
        reason = f"Artifact is larger than {limit // 1048576} MB: {error}"
        raise ArtifactError(reason, place, is_state=is_state, has_room_in=() if is_outlined else (SUMMARY,)) from error
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {place}: {error}", place, is_state=is_state) from error
    if text is None:
        raise ArtifactError(f"File not found: {place}", place, is_missing=True, is_state=is_state)
    if is_state and text == "":
        raise ArtifactError(f"Cannot read {place}: it is not a JSON object", place, is_state=True)
    return {
        "text": text,
        "source": found["source"],
        "resolved": place,
        "size_bytes": len(text.encode()) if is_state else found["size_bytes"],  # without our blocks
    }


FILES = {"json", "markdown"}


def source_of(artifact: Artifact) -> str:
    """Return where an artifact comes from, as its workflow says it."""
    return artifact["path"] or artifact["path_from_state"] or artifact["command"] or ""
