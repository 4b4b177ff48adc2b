"""An artifact's content as the agent is given it, and the digest that shows whether it changed."""

from __future__ import annotations

from faber_ledger.context.artifact import COMMAND_TYPES, MAX_BYTES, STRATEGIES, ArtifactError
from faber_ledger.context.artifact_source import empty_placeholders, find_file, is_own_state, no_value_for
from faber_ledger.files.json_text import on_lines
from faber_ledger.files.untrusted import FileRefused, FileTooLarge, read_text
from faber_ledger.ledger.plain_json import dumps, loads, sha256, without_surrogates
from faber_ledger.runs.clone import keyed_digest
from faber_ledger.runs.progress import value_at
from faber_ledger.runs.run import LARGEST_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.artifact import Artifact, Content, Loaded, Surroundings


LARGE_BYTES = 100 * 1024
MAX_INDENTED = 25_000  # characters of a state that is written with an indent
SUMMARY = "summary"  # the load strategy
KEYED = "keyed:"  # before a digest, which was made with the key of the clone that recorded it
CHANGED_BY_EVENTS = {"sessions", "context_metadata", "updated_at"}


def load(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    """Load an artifact (RELOAD, Step 5); raises ArtifactError, for an optional one too."""
    if artifact["problem"]:
        raise ArtifactError(artifact["problem"])
    loader = LOADERS.get(artifact["type"])
    if loader is None:
        raise ArtifactError(f"Unknown artifact type: {artifact['type']}")
    where = "a command" if artifact["type"] in COMMAND_TYPES else "a path"
    source = "" if is_own_state(artifact) else _source_text(artifact, surroundings)
    empty = empty_placeholders(source, surroundings, where)
    try:
        content = loader(artifact, surroundings)
    except ArtifactError as error:
        if empty and no_value_for(empty) not in error.message:
            reason = f"{error.message} ({no_value_for(empty)})"
            raise ArtifactError(reason, error.resolved, is_missing=error.is_missing) from error
        raise
    is_state = artifact["type"] in FILES and _is_state(content["resolved"], surroundings)
    is_outlined = artifact["type"] in FILES and artifact["load_strategy"] == SUMMARY
    notes = [no_value_for(empty)] if empty else []
    if artifact["load_strategy"] not in STRATEGIES:
        unknown = f"{artifact['load_strategy']!r:.80} is not a load_strategy ({', '.join(STRATEGIES)})"
        notes.append(f'{unknown}: "all" is used')
    return {
        "artifact": artifact,
        "content": content["text"],
        "size_bytes": content["size_bytes"],
        "sha256": content_digest(content["text"], is_state=False),
        "source": content["source"],
        "resolved": content["resolved"],
        "is_large": content["size_bytes"] > LARGE_BYTES and not (is_state or is_outlined),
        "is_state": is_state,
        "is_outlined": is_outlined,
        "is_deferred": content["is_deferred"],
        "notes": [f"{artifact['id']}: {note}" for note in notes],
    }


def content_digest(text: str, is_state: bool) -> str:
    """Return the SHA-256 (hex) of a file's text as the agent gets it; of a state, without what every append changes."""
    return sha256(given_text(text, is_state).encode("utf-8", "surrogatepass")).hexdigest()


def keyed(root: str, digest: str) -> str:
    """Return what is recorded of a SHA-256, so that nobody guesses the content from it; empty without a key."""
    found = keyed_digest(root, digest)
    return f"{KEYED}{found}" if found else ""


def state_for_packet(state: dict[str, Any]) -> str:
    """Return a state as JSON without what every append changes, so that the same state gives the same text.

    A state too large for any packet is on one line: an indent makes deep lists a hundred times larger.
    """
    kept = {name: value for name, value in state.items() if name not in CHANGED_BY_EVENTS}
    text = dumps(kept)
    if len(text) <= MAX_INDENTED:
        text = on_lines(kept)
    return without_surrogates(text)


def given_text(text: str, is_state: bool) -> str:
    """Return a file's text as the agent is given it; for a state, what `state_for_packet` returns."""
    if not is_state:
        return text
    try:
        state = loads(text)
        return state_for_packet(state) if isinstance(state, dict) else text
    except (ValueError, RecursionError):
        return text


def _given_state(text: str) -> str:
    """Return the run's state as the agent is given it; empty for what is not a JSON object."""
    try:
        is_object = isinstance(loads(text), dict)
    except ValueError:
        return ""
    except RecursionError:
        return text
    return given_text(text, is_state=True) if is_object else ""


def _source_text(artifact: Artifact, surroundings: Surroundings) -> str:
    """Return the text of an artifact that may have placeholders, before they are filled."""
    if artifact["type"] in COMMAND_TYPES:
        return artifact["command"] or ""
    if artifact["path"] or not artifact["path_from_state"]:
        return artifact["path"] or ""
    value = value_at(surroundings["state"], artifact["path_from_state"])
    return value if isinstance(value, str) else ""


def _is_state(path: str, surroundings: Surroundings) -> bool:
    return path == surroundings["state_path"]


def _known_state_text(surroundings: Surroundings) -> str | None:
    """Return the run's state as the agent is given it, if it was read just before: its file is not read again."""
    try:
        return state_for_packet(surroundings["state"]) if surroundings.get("is_state_read") else None
    except RecursionError:
        return None


def _read_file(artifact: Artifact, surroundings: Surroundings) -> Content:
    found = find_file(artifact, surroundings)
    place = found["resolved"]
    is_state = _is_state(place, surroundings)
    is_outlined = artifact["load_strategy"] == SUMMARY
    limit = LARGEST_STATE if is_state or is_outlined else MAX_BYTES
    try:
        text = _known_state_text(surroundings) if is_state else None
        if text is None:
            text = read_text(place, limit)
            text = _given_state(text) if text is not None and is_state else text
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
        # Our own blocks grow with each session and are not given to the agent: they count nowhere.
        "size_bytes": len(text.encode()) if is_state else found["size_bytes"],
        "is_deferred": False,
    }


def _read_directory(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_directory import read_directory  # each kind is loaded only where it is needed

    return read_directory(artifact, surroundings)


def _read_command(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_command import read_command

    return read_command(artifact, surroundings)


def _read_git(artifact: Artifact, surroundings: Surroundings) -> Content:
    from faber_ledger.context.artifact_git import read_git

    return read_git(artifact, surroundings)


FILES = {"json", "markdown"}
LOADERS: dict[str, Callable[[Artifact, Surroundings], Content]] = {
    "json": _read_file,
    "markdown": _read_file,
    "directory": _read_directory,
    "work_plugin": _read_command,
    "skill": _read_command,
    "git_info": _read_git,
}
