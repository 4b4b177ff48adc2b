"""What can happen in a run, one shape a fact; every reader (mypy, the strict models, the docs) takes it from here."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class Environment(TypedDict):
    """Where a session runs (SPEC, State File Enhancement)."""

    hostname: str | None
    platform: str | None
    cwd: str | None
    git_commit: str | None


class Delivery(TypedDict):
    """The client's hook call that a fact came from; `digest` is the SHA-256 of its standard input, in hex."""

    hook: str
    digest: str
    pid: str | None


class RunStarted(TypedDict):
    """A run was started here."""

    type: Literal["run_started"]
    run_id: str
    workflow_id: str
    work_id: str | None


class RunAdopted(TypedDict):
    """A run that had no log got one; `blocks` is the JSON text of its two blocks as they were."""

    type: Literal["run_adopted"]
    run_id: str
    blocks: str


class SessionStarted(TypedDict):
    """A session opened on this run."""

    type: Literal["session_started"]
    session_id: str
    source: str
    environment: Environment
    phase: str | None
    step: str | None
    phases_completed: list[str]
    empties_context: bool
    pid: str | None
    delivery: NotRequired[Delivery]


class SessionEnded(TypedDict):
    """A session ended, or its end was inferred from the next one's start."""

    type: Literal["session_ended"]
    session_id: str
    reason: Literal["compaction", "normal", "manual", "abandoned"]
    client_reason: str | None
    inferred: bool
    phase: str | None
    step: str | None
    phases_completed: list[str]
    environment: NotRequired[Environment]
    also_loaded: NotRequired[list[str]]
    delivery: NotRequired[Delivery]


class ArtifactLoaded(TypedDict):
    """An artifact was given to the agent; `sha256` is of its content, in hex."""

    type: Literal["artifact_loaded"]
    session_id: str
    artifact_id: str
    trigger: str
    source: str
    size_bytes: int
    sha256: str
    given: Literal["inline", "outline", "pointer", "deferred"]


class ArtifactFailed(TypedDict):
    """An artifact could not be loaded."""

    type: Literal["artifact_failed"]
    session_id: str
    artifact_id: str
    trigger: str
    source: str
    required: bool
    error: str


class ArtifactSkipped(TypedDict):
    """An artifact was loaded a short while ago and was not loaded again."""

    type: Literal["artifact_skipped"]
    session_id: str
    artifact_id: str
    trigger: str
    loaded_at: str


class ContextReloaded(TypedDict):
    """One reload operation was done, whatever it loaded; `environment` where the session had none yet."""

    type: Literal["context_reloaded"]
    session_id: str
    trigger: str
    loaded: int
    failed: int
    skipped: int
    environment: NotRequired[Environment]


class CompactionCompleted(TypedDict):
    """The client compacted a conversation: the main one, or a subagent's, which is no session's.

    `summary` is what the conversation came to, bounded and with its secrets masked.
    """

    type: Literal["compaction_completed"]
    session_id: NotRequired[str]
    trigger: str | None
    agent_id: str | None
    phase: str | None
    step: str | None
    summary: NotRequired[str]
    delivery: NotRequired[Delivery]


class DeliveryIgnored(TypedDict):
    """A hook call changed nothing, and why."""

    type: Literal["delivery_ignored"]
    reason: Literal["repeated", "subagent", "no_session"]
    delivery: Delivery


class NoteRecorded(TypedDict):
    """Somebody wrote down what the next session should know, in the session that was open, if one was."""

    type: Literal["note_recorded"]
    session_id: NotRequired[str]
    kind: Literal["note", "summary"]
    text: str
    phase: str | None
    step: str | None


class Finding(TypedDict):
    """What a reconstitution noticed: an ERROR is one that somebody chose to skip, or that stopped it."""

    severity: Literal["ERROR", "WARNING", "INFO"]
    code: str
    told: str


class ContextReconstituted(TypedDict):
    """A run's context was put together again.

    `mode` says how the run is resumed, None where it cannot be, and `stopped` where an ERROR ended the reconstitution.
    """

    type: Literal["context_reconstituted"]
    status: str
    phase: str | None
    step: str | None
    mode: str | None
    findings: list[Finding]


class EventRedacted(TypedDict):
    """An event's payload was taken out, or `fields` of it (none named: all of it); `remains` stands in its place.

    `supersedes` are the earlier redactions of the same event, whose own payloads went with this one.
    """

    type: Literal["event_redacted"]
    event_id: str
    fields: list[str]
    remains: dict[str, object]
    supersedes: list[str]
    reason: str | None


Event = (
    RunStarted
    | RunAdopted
    | SessionStarted
    | SessionEnded
    | ArtifactLoaded
    | ArtifactFailed
    | ArtifactSkipped
    | ContextReloaded
    | CompactionCompleted
    | DeliveryIgnored
    | NoteRecorded
    | ContextReconstituted
    | EventRedacted
)


class Draft(TypedDict):
    """A fact to append; `client` is the client's own session id, `id` an id that the event already has.

    `salt`, hexadecimal, goes with it: the same fact after the same events is the same event then, to its hash.
    """

    event: Event
    client: NotRequired[str | None]
    id: NotRequired[str]
    salt: NotRequired[str]


class Recorded(TypedDict):
    """An event with its envelope. Read in `(seq, id)` order; `at` is shown and never orders.

    `redacted` is there, and true, if its payload was taken out: what the event says is what may stay of it then.
    """

    seq: int
    id: str
    version: int
    at: str
    writer: str
    client: str | None
    event: Event
    redacted: NotRequired[bool]
