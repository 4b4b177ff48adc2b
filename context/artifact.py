"""An artifact that must stay in context: its definition in a workflow, and its loaded content (SPEC, section 1)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

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

    class Content(TypedDict):
        """What a loader read: the text that the agent is given.

        `source` is what a load records, the same on every machine; `resolved` is what a report shows. If `is_deferred`,
        the text is a slash command that the agent is asked to run.
        """

        text: str
        source: str
        resolved: str
        size_bytes: int
        is_deferred: bool

    class Loaded(TypedDict):
        """An artifact with its content.

        `size_bytes` is the file's size; `sha256` (hex) is the content's digest; for the run's own state both are
        without the ledger's blocks. One that `is_outlined` is given as an outline, however much room there is. `source`
        is what a load records, `resolved` the absolute path or command that a report shows.
        If `is_deferred`, the content is what the agent is asked to do: a slash command, or an instruction in words.
        `notes` are for the user.
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


MAX_BYTES = 1024 * 1024
COMMAND_TYPES = {"work_plugin", "skill", "git_info"}  # types that have a command; all others have a path
STRATEGIES = ("all", "latest_only", "summary")
REFUSED = "Command refused: "  # the beginning of the reason if a command is not on the list
TEXT_FIELDS = ("path", "path_from_state", "command", "description", "load_strategy")


class ArtifactError(Exception):
    """An artifact cannot be loaded: the reason, and the path that was tried, if it is known.

    `is_missing` means that the file does not exist, which is expected for artifacts that a later phase creates.
    `is_state` means that it is the run's own state, of which whoever reads it first says what is wrong. `has_room_in`
    names the load strategies with which one that is too large can be loaded.
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


def is_named_by_state(artifact: Artifact, error: ArtifactError) -> bool:
    """Return whether the state names the missing file: it was then removed, or never written."""
    return bool(artifact["path_from_state"]) and not artifact["path"] and error.resolved is not None
