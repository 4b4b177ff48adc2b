"""An artifact's content as the agent is given it, and the digest by which a change is noticed."""

from __future__ import annotations

import json
import os

from faber_ledger.context.artifact_source import find, path_of
from faber_ledger.context.artifacts import ArtifactError
from faber_ledger.context.untrusted_file import FileRefused, FileTooLarge, text_of
from faber_ledger.ledger.canonical import without_surrogates
from faber_ledger.ledger.sha256 import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypedDict

    from faber_ledger.context.artifact_source import Surroundings
    from faber_ledger.context.artifacts import Artifact

    class Loaded(TypedDict):
        """An artifact with its content.

        `size_bytes` is the file's; `sha256` (hex) is the content's, which for the run's own state lacks the ledger's
        blocks. `source` is what a load records, `resolved` the absolute path that a report shows.
        """

        artifact: Artifact
        content: str
        size_bytes: int
        sha256: str
        source: str
        resolved: str
        is_large: bool
        is_state: bool


LARGE_BYTES = 100 * 1024
MAX_BYTES = 1024 * 1024
NOT_CONTENT = {"sessions", "context_metadata", "updated_at"}


def load(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    """Load an artifact (RELOAD, Step 5); raises ArtifactError, whether it is required or not."""
    if artifact["problem"]:
        raise ArtifactError(artifact["problem"])
    loader = LOADERS.get(artifact["type"])
    if loader is None:
        raise ArtifactError(f"Unknown artifact type: {artifact['type']}")
    return loader(artifact, surroundings)


def content_digest(text: str, is_state: bool) -> str:
    """Hash a file's text (SHA-256, hex); of a state, what `state_for_packet` gives."""
    return sha256(_given(text, is_state).encode("utf-8", "surrogatepass")).hexdigest()


def state_for_packet(state: dict[str, Any]) -> str:
    """Write a state as JSON without what every append changes, so that the same state gives the same text."""
    kept = {name: value for name, value in state.items() if name not in NOT_CONTENT}
    return without_surrogates(json.dumps(kept, indent=2, ensure_ascii=False))


def _given(text: str, is_state: bool) -> str:
    if not is_state:
        return text
    try:
        state = json.loads(text)
        return state_for_packet(state) if isinstance(state, dict) else text
    except (ValueError, RecursionError):
        return text


def _text_file(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    found = find(artifact, surroundings)
    place = found["resolved"]
    try:
        text = text_of(place, MAX_BYTES)
    except FileTooLarge as error:
        raise ArtifactError(f"Artifact is larger than 1 MB: {error}", place) from error
    except FileRefused as error:
        raise ArtifactError(f"Cannot read {place}: {error}", place) from error
    if text is None:
        raise ArtifactError(f"File not found: {place}", place)
    is_state = place == os.path.realpath(os.path.join(surroundings["run_dir"], "state.json"))
    content = _given(text, is_state)
    return {
        "artifact": artifact,
        "content": content,
        "size_bytes": found["size_bytes"],
        "sha256": content_digest(content, is_state=False),
        "source": found["source"],
        "resolved": place,
        "is_large": found["size_bytes"] > LARGE_BYTES,
        "is_state": is_state,
    }


def _not_yet(artifact: Artifact, surroundings: Surroundings) -> Loaded:
    if not artifact["command"]:
        path_of(artifact, surroundings)
    raise ArtifactError(f"artifact type `{artifact['type']}` is not supported yet")


LOADERS: dict[str, Callable[[Artifact, Surroundings], Loaded]] = {
    "json": _text_file,
    "markdown": _text_file,
    "directory": _not_yet,
    "work_plugin": _not_yet,
    "skill": _not_yet,
    "git_info": _not_yet,
}
