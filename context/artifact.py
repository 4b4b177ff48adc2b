"""What a workflow says of an artifact that must stay in context (SPEC, section 1)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

    class Artifact(TypedDict):
        """A definition, made whole. `problem` says what is wrong with it, and comes up when it is loaded."""

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
        """What a loader read: the text as the agent is given it.

        `source` is what a load records, the same on every machine; `resolved` is what a report shows. If it
        `is_deferred`, the text is a slash command that the agent is asked to run.
        """

        text: str
        source: str
        resolved: str
        size_bytes: int
        is_deferred: bool

    class Loaded(TypedDict):
        """An artifact with its content.

        `size_bytes` is the file's; `sha256` (hex) is the content's, which for the run's own state lacks the ledger's
        blocks. `source` is what a load records, `resolved` the absolute path or command that a report shows. If it
        `is_deferred`, the content is a slash command that the agent is asked to run. `notes` are for the user.
        """

        artifact: Artifact
        content: str
        size_bytes: int
        sha256: str
        source: str
        resolved: str
        is_large: bool
        is_state: bool
        is_deferred: bool
        notes: list[str]

    class Surroundings(TypedDict):
        """What artifacts are resolved against: absolute folders, and the run's state.

        `root` and `run_dir` are without links, and the second is where the run really lies; `plugin_roots` are those of
        the user's own configuration, and so are `commands`, the programs that stand in for slash commands: none in a
        hook, which runs none. `is_state_read` is set if the state is what its file says, and no backup's.
        """

        root: str
        run_dir: str
        plugin_roots: list[str]
        commands: dict[str, list[str]]
        state: dict[str, Any]
        is_state_read: NotRequired[bool]


MAX_BYTES = 1024 * 1024
COMMANDS = {"work_plugin", "skill", "git_info"}  # what they ask is a command, and all others a path
STRATEGIES = ("all", "latest_only", "summary")
REFUSED = "Command refused: "  # how the reason begins where a command is not on the list
TEXTS = ("path", "path_from_state", "command", "description", "load_strategy")


class ArtifactError(Exception):
    """An artifact cannot be loaded: the reason, and the path that was looked at, as far as it is known.

    If it `is_missing`, nothing is there, which is no wonder of what a later phase makes.
    """

    def __init__(self, message: str, resolved: str | None = None, *, is_missing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.resolved = resolved
        self.is_missing = is_missing


def artifact_of(raw: object, place: str) -> Artifact:
    """Make a definition whole; what is wrong with it goes into `problem`, and `place` names it if it has no id."""
    given = raw if isinstance(raw, dict) else {}
    problems = [] if isinstance(raw, dict) else ["Artifact is no JSON object"]
    named = given.get("id")
    if not (isinstance(named, str) and named):
        problems.append("Artifact must have an id")
        named = place
    texts: dict[str, str | None] = dict.fromkeys(TEXTS)
    for name in TEXTS:
        value = given.get(name)
        if value is None or isinstance(value, str):
            texts[name] = value or None
        else:
            problems.append(f"{name} must be a text")
    required = given.get("required", False)
    if not isinstance(required, bool):
        problems.append("required must be true or false")
    triggers = given.get("reload_triggers")
    if not (triggers is None or (isinstance(triggers, list) and all([isinstance(name, str) for name in triggers]))):
        problems.append("reload_triggers must be a list of texts")
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


def is_named(artifact: Artifact, error: ArtifactError) -> bool:
    """Tell whether the state names the path of what is not there: then it has gone, or was never written."""
    return bool(artifact["path_from_state"]) and not artifact["path"] and error.resolved is not None
