"""The events of a run, one shape per type, from which mypy, the strict models and the docs take it.

Free text is masked where it enters, by `recording.secrets.mask`: `text`, `summary`, a redaction's `reason`,
`client_reason`, the `error` of a user's program, `told`, `uncommitted_names`, `model`. The other texts are names, ids
and words.
"""

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
    """The hook call that an event comes from.

    `digest` is the HMAC-SHA256 of the SHA-256 of its standard input, with the clone's key, in hex; empty without a key.
    """

    hook: str
    digest: str
    pid: str | None


class RunStarted(TypedDict):
    """A run was started."""

    type: Literal["run_started"]
    run_id: str
    workflow_id: str
    work_id: str | None


class RunAdopted(TypedDict):
    """A run that other tools made got a log; `blocks` is the JSON text of the two blocks in its `state.json`."""

    type: Literal["run_adopted"]
    run_id: str
    blocks: str


class SessionStarted(TypedDict):
    """The client opened a session on this run.

    `agent` is the client's name in `hooks.agents`, and `agent_version` its version; each is left out if it is unknown.
    """

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
    agent: NotRequired[str]
    agent_version: NotRequired[str]


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


class CheckoutRecorded(TypedDict):
    """What git had checked out when a session started or ended, or, without a session, when the run was started.

    `has_run` says whether the work tree had the run's files: a branch without them is not the run's. `branch` is None
    if none was checked out, or it is unknown. `uncommitted` is true if something outside `.fractary` surely was
    not committed. Of that, `uncommitted_count` counts the files and new folders, `uncommitted_names` are the first ten,
    with secrets masked, and `commit` is the one that they change. `is_end` says whether a session's end was recorded.
    """

    type: Literal["checkout_recorded"]
    session_id: NotRequired[str]
    is_end: bool
    has_run: bool
    branch: str | None
    uncommitted: bool | None
    uncommitted_count: NotRequired[int]
    uncommitted_names: NotRequired[list[str]]
    commit: NotRequired[str]


class ArtifactLoaded(TypedDict):
    """An artifact was loaded, and `given` to the agent whole (`inline`) or as an `outline`.

    A `pointer` only named it, and of a `deferred` one the agent was asked to run a command: neither is in context.

    `sha256` is `keyed:` and the HMAC-SHA256 of the content's SHA-256 with the clone's key, in hex: nobody else can
    guess a secret from it, or compare it. It is empty if the clone has no key.
    """

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
    """An artifact was not loaded again, because it had been loaded shortly before, at `loaded_at`."""

    type: Literal["artifact_skipped"]
    session_id: str
    artifact_id: str
    trigger: str
    loaded_at: str


class ContextReloaded(TypedDict):
    """Artifacts were reloaded, whatever the outcome; `environment` is there if the session had none yet."""

    type: Literal["context_reloaded"]
    session_id: str
    trigger: str
    loaded: int
    failed: int
    skipped: int
    environment: NotRequired[Environment]


class CompactionCompleted(TypedDict):
    """The client compacted a conversation: the session's own, or a subagent's, which belongs to no session.

    `summary` is the client's summary of the conversation, shortened and with secrets masked.
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
    """A hook call changed nothing; `reason` says why."""

    type: Literal["delivery_ignored"]
    reason: Literal["repeated", "subagent"]
    delivery: Delivery


class AnswerLost(TypedDict):
    """A session's start was recorded, but its hook was killed before it gave the agent what it had loaded."""

    type: Literal["answer_lost"]
    session_id: str


class NoteRecorded(TypedDict):
    """Someone left a note for the next session; `session_id` is the session that was open, if any.

    A reader takes any other text as `kind` for a note: 0.2 knows no decision, and shows, folds and searches it as one.
    """

    type: Literal["note_recorded"]
    session_id: NotRequired[str]
    kind: Literal["note", "summary", "decision"]
    text: str
    phase: str | None
    step: str | None


class Finding(TypedDict):
    """A finding of a reconstitution; an ERROR either ended it, or someone chose to continue."""

    severity: Literal["ERROR", "WARNING", "INFO"]
    code: str
    told: str


class ContextReconstituted(TypedDict):
    """A run's context was put together again.

    `mode` says how the run is resumed: None if it cannot be, `stopped` if an ERROR ended the reconstitution.
    `session_id` is the session of the client that asked, if any; earlier programs left it out.
    """

    type: Literal["context_reconstituted"]
    session_id: NotRequired[str]
    status: str
    phase: str | None
    step: str | None
    mode: str | None
    findings: list[Finding]


class UsageRecorded(TypedDict):
    """What new responses of one model cost, which a hook found in the client's transcript; nothing of their content.

    `input_tokens` are those that no cache had, `cached_tokens` the others. `turns` counts responses, `active_seconds`
    is the time between responses that follow each other within five minutes. `in_phase` is the phase that the run was
    in by the responses' times, None if it is unknown. `read_files` says of each file, by a hash of its name, from which
    byte up to which it was read, then what a reader has to know there.
    """

    type: Literal["usage_recorded"]
    session_id: str
    model: str
    in_phase: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    turns: int
    active_seconds: int
    read_files: dict[str, str]


class EventRedacted(TypedDict):
    """The payload of an event was removed; its envelope stays."""

    type: Literal["event_redacted"]
    event_id: str
    reason: str | None


class RedactionUndone(TypedDict):
    """A redaction of an event was undone."""

    type: Literal["redaction_undone"]
    event_id: str
    reason: str | None


Event = (
    RunStarted
    | RunAdopted
    | SessionStarted
    | SessionEnded
    | CheckoutRecorded
    | ArtifactLoaded
    | ArtifactFailed
    | ArtifactSkipped
    | ContextReloaded
    | CompactionCompleted
    | DeliveryIgnored
    | AnswerLost
    | NoteRecorded
    | ContextReconstituted
    | UsageRecorded
    | EventRedacted
    | RedactionUndone
)


class Draft(TypedDict):
    """An event to append; `client` is the client's own session id, `id` the event's id if it has one already.

    `at` (seconds since 1970) is the time of an event that is inferred; its id still has the time of recording.

    `salt` (hex) belongs to that id: the same event after the same events then has the same hash.
    """

    event: Event
    client: NotRequired[str | None]
    at: NotRequired[float]
    id: NotRequired[str]
    salt: NotRequired[str]


class Recorded(TypedDict):
    """An event with its envelope; events are ordered by `(seq, id)`, and `at` is only shown.

    `redacted` is there, and true, if its payload is gone: only the envelope is known then.
    """

    seq: int
    id: str
    version: int
    at: str
    writer: str
    client: str | None
    event: Event
    redacted: NotRequired[bool]
