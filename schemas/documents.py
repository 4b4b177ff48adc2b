"""The strict models of documents that come from outside: a hook's delivery, a run's state, a workflow's configuration.

Strict where this program relies on a value, open where the document belongs to others: clients, FABER's own tools and
older versions of both write fields that are not known here. The JSON Schemas are generated from these models; no
command loads them, since a command reports in one line what it refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from faber_ledger.ledger.clock import seconds_of

FileType = Literal["json", "markdown", "directory"]
CommandType = Literal["work_plugin", "skill", "git_info"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
LOAD = r"^(session_start|phase_start:[a-z]+|phase_transition:[a-z]+->[a-z]+|manual|compaction_detected)$"
Trigger = Annotated[str, Field(pattern=LOAD)]


def _moment(text: str) -> str:
    if seconds_of(text) is None:
        raise ValueError("is not an ISO 8601 time with a zone")
    return text


Moment = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]


class Document(BaseModel):
    """A document of another program: unknown fields are kept, known ones have exactly the type named."""

    model_config = ConfigDict(strict=True, extra="allow")


class Closed(BaseModel):
    """A document whose reader defines it: an unknown field is a mistake."""

    model_config = ConfigDict(strict=True, extra="forbid", populate_by_name=True)


class HookDelivery(Document):
    """The JSON that the client writes to a hook's standard input; versions of clients differ in their fields."""

    session_id: str | None = None
    transcript_path: str | None = None
    cwd: str | None = None
    hook_event_name: str | None = None
    prompt_id: str | None = None
    source: str | None = Field(None, description="SessionStart: startup, resume, clear, compact, fork")
    trigger: str | None = Field(None, description="PreCompact and PostCompact: manual, auto")
    custom_instructions: str | None = None
    compact_summary: str | None = None
    reason: str | None = Field(None, description="SessionEnd: clear, resume, logout, prompt_input_exit, other")
    agent_id: str | None = Field(None, description="Present when the delivery is about a subagent")
    agent_type: str | None = None


class SessionEnvironment(Document):
    """Where a session ran (SPEC-00027, State File Enhancement)."""

    hostname: str | None = None
    platform: str | None = None
    cwd: str | None = None
    git_commit: str | None = None


class SessionRecord(Document):
    """One session's entry in the history; `ended_at` and `end_reason` are missing while it is open."""

    session_id: str
    started_at: Moment
    ended_at: Moment | None = None
    end_reason: Literal["compaction", "normal", "manual", "abandoned"] | None = None
    phases_completed: list[str] = []
    environment: SessionEnvironment | None = None
    artifacts_loaded: list[str] = []


class SessionsBlock(Document):
    """The `sessions` block of a state (SPEC-00027, State File Enhancement)."""

    current_session_id: str | None
    total_sessions: Annotated[int, Field(ge=0)]
    session_history: list[SessionRecord]


class ArtifactLoad(Document):
    """The latest load of an artifact that is in context."""

    artifact_id: str
    loaded_at: Moment
    load_trigger: Literal["session_start", "manual", "phase_start", "phase_transition", "compaction_detected"]
    source: str | None = None
    size_bytes: Annotated[int, Field(ge=0)] | None = None


class CompactionRecord(Document):
    """A compaction that was detected."""

    detected_at: Moment
    phase: str | None = None
    step: str | None = None
    action_taken: Literal["reload_critical_artifacts", "none", "manual_trigger"] | None = None


class ContextBlock(Document):
    """The `context_metadata` block of a state (SPEC-00027, State File Enhancement)."""

    last_artifact_reload: Moment | None = None
    reload_count: Annotated[int, Field(ge=0)]
    artifacts_in_context: list[ArtifactLoad]
    compaction_events: list[CompactionRecord] = []


class Worktree(Document):
    """A run's own linked worktree, in its state (FABER's state schema)."""

    path: str
    created_by: Literal["fractary-faber", "manual", "unknown"] | None = None
    created_at: Moment | None = None
    auto_cleanup: bool | None = None
    branch: str | None = None


class WorktreeMetadata(Document):
    """A worktree as it was last seen."""

    git_commit: str | None = None


class WorktreeRecord(Worktree):
    """One run in one worktree of the clone."""

    workflow_run_id: str
    work_id: str | None = None
    status: Literal["active", "completed", "failed", "abandoned", "removed"]
    created_at: Moment
    updated_at: Moment | None = None
    completed_at: Moment | None = None
    removed_at: Moment | None = None
    last_activity: Moment | None = None
    pr_number: str | None = None
    pr_url: str | None = None
    metadata: WorktreeMetadata | None = None


class Worktrees(Document):
    """`.fractary/faber/worktrees.json`: the worktrees of a clone, former ones included, and their runs."""

    worktrees: list[WorktreeRecord]
    last_updated: Moment | None = None


class State(Document):
    """A run's `state.json`: three keys are required, the two blocks are checked, the rest is FABER's own."""

    run_id: str
    workflow_id: str
    status: Literal["pending", "in_progress", "paused", "awaiting_feedback", "completed", "failed", "cancelled"]
    phases: list[dict[str, Any]] | dict[str, Any] | None = None
    artifacts: dict[str, Any] | None = None
    sessions: SessionsBlock | None = None
    context_metadata: ContextBlock | None = None
    worktree: Worktree | None = None


class Artifact(Closed):
    """A critical artifact (SPEC-00027, Artifact Fields): where it is, when it is loaded, whether it must be there."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"properties": {"type": {"enum": list(get_args(FileType))}}, "required": ["path"]},
                {"properties": {"type": {"enum": list(get_args(FileType))}}, "required": ["path_from_state"]},
                {"properties": {"type": {"enum": list(get_args(CommandType))}}, "required": ["command"]},
            ]
        }
    )

    id: Name
    type: Literal[FileType, CommandType]
    path: str | None = None
    path_from_state: str | None = None
    command: str | None = None
    description: str
    required: bool
    condition: str | None = None
    reload_triggers: list[Trigger]
    load_strategy: Literal["all", "latest_only", "summary"] | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> Artifact:
        if self.type in get_args(CommandType):
            if self.command is None:
                raise ValueError(f"an artifact of type {self.type} needs `command`")
        elif (self.path is None) == (self.path_from_state is None):
            raise ValueError(f"an artifact of type {self.type} needs one of `path` and `path_from_state`")
        return self


class PhaseArtifacts(Closed):
    """Artifacts that are loaded in one phase only."""

    frame: list[Artifact] = []
    architect: list[Artifact] = []
    build: list[Artifact] = []
    evaluate: list[Artifact] = []
    release: list[Artifact] = []


class CriticalArtifacts(Closed):
    """What must be in context (SPEC-00027, Critical Artifacts)."""

    always_load: list[Artifact] = []
    conditional_load: list[Artifact] = []
    phase_specific: PhaseArtifacts = PhaseArtifacts()


class Step(Document):
    """A step of a phase; FABER's own workflows carry fields that their schema does not name."""

    id: Name
    name: str | None = None
    description: str | None = None
    prompt: str | None = None


class WorkflowPhase(Document):
    """A phase of a workflow."""

    enabled: bool
    description: str | None = None
    pre_steps: list[Step] = []
    steps: list[Step] = []
    post_steps: list[Step] = []


class WorkflowPhases(Closed):
    """The five phases; a workflow names each."""

    frame: WorkflowPhase
    architect: WorkflowPhase
    build: WorkflowPhase
    evaluate: WorkflowPhase
    release: WorkflowPhase


class Autonomy(Document):
    """How much a workflow does without asking."""

    level: Literal["dry-run", "assist", "guarded", "autonomous"]


class Workflow(Closed):
    """A workflow's configuration, by FABER's workflow schema."""

    schema_: str | None = Field(None, alias="$schema")
    id: Name
    description: str | None = None
    extends: str | None = None
    skip_steps: list[Name] = []
    phases: WorkflowPhases
    hooks: dict[str, Any] | None = None
    autonomy: Autonomy
    critical_artifacts: CriticalArtifacts | None = None
