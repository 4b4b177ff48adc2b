"""One reload of context (RELOAD, Steps 3 to 6): which artifacts were loaded, which failed, and which were skipped."""

from __future__ import annotations

import os

from faber_ledger.context import messages, notes, packet, selection
from faber_ledger.context.artifact import COMMAND_TYPES, ArtifactError, is_named_by_state
from faber_ledger.context.artifact_content import load
from faber_ledger.context.artifact_source import build_surroundings
from faber_ledger.context.selection import HINT_LOAD_ALL, MAX_BYTES_READ, limit_for_hook
from faber_ledger.context.workflow import artifacts_without_workflow, load_workflow
from faber_ledger.files.untrusted import around
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.projections.blocks import artifacts_in_context
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import fields_missing, workflow_id_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypedDict

    from faber_ledger.context.artifact import Artifact, Loaded, Surroundings
    from faber_ledger.context.packet import Given, Part
    from faber_ledger.context.workflow import Workflow
    from faber_ledger.ledger.events import ArtifactLoaded, ContextReloaded, Draft, Environment
    from faber_ledger.ledger.log import Log
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run

    class Failed(TypedDict):
        """An artifact that could not be loaded."""

        artifact: Artifact
        error: ArtifactError

    class Skipped(TypedDict):
        """An artifact that was loaded `minutes` ago, rounded down; `loaded` is its content now."""

        artifact: Artifact
        loaded: Loaded
        loaded_at: str
        minutes: int


class Reload:
    """The result of one reload; `problems` are what the agent must read first."""

    def __init__(
        self, root: str, triggers: list[str], state: dict[str, Any], problems: list[str], *, has_workflow: bool = True
    ) -> None:
        self.root = root
        self.triggers = triggers
        self.state = state
        self.attempts: list[tuple[Artifact, Loaded | ArtifactError]] = []
        self.skipped: list[Skipped] = []
        self.other_problems = problems
        self.has_workflow = has_workflow
        self.mapped: dict[str, str | None] = {}  # commands with a program, each with the reason if it cannot be run

    @classmethod
    def failed_to_gather(cls, root: str, state: dict[str, Any], error: Exception) -> Reload:
        """Return a reload without artifacts, which reports the bug of ours that stopped it."""
        warning = f"⚠️ WARNING: a bug in faber-ledger kept it from loading artifacts, please report it: {error!r:.300}"
        return cls(root, ["session_start"], state, [warning], has_workflow=False)

    @property
    def loaded(self) -> list[Loaded]:
        """What was loaded, in order."""
        return [result for _, result in self.attempts if not isinstance(result, ArtifactError)]

    @property
    def failed(self) -> list[Failed]:
        """What could not be loaded, in order."""
        return [{"artifact": one, "error": error} for one, error in self.attempts if isinstance(error, ArtifactError)]

    @property
    def required_failed(self) -> list[Failed]:
        """The failures of required artifacts, without which the workflow cannot proceed."""
        return [failed for failed in self.failed if failed["artifact"]["required"]]

    def problems(self) -> list[str]:
        """Return what is missing and how to recover, most important first."""
        return [*self.other_problems, *[messages.required_failed(**failed) for failed in self.required_failed]]

    def parts(self) -> list[Part]:
        """Return what was loaded as the packet takes it, required artifacts first.

        The size of the run's own state is that of the part that is given: the file grows with every session.
        """
        ordered = sorted(self.loaded, key=lambda loaded: not loaded["artifact"]["required"])
        return [
            {
                "artifact_id": loaded["artifact"]["id"],
                "description": loaded["artifact"]["description"],
                "source": self._place_of(loaded),
                "size_bytes": len(loaded["content"].encode()) if loaded["is_state"] else loaded["size_bytes"],
                "content": loaded["content"],
                "required": loaded["artifact"]["required"],
                "deferred": self._to_run(loaded) if loaded["is_deferred"] else None,
            }
            for loaded in ordered
        ]

    def _place_of(self, loaded: Loaded) -> str:
        """Return a source that the agent can read: as recorded, or the absolute path of a file in a plugin root."""
        if loaded["artifact"]["type"] in COMMAND_TYPES or around(loaded["resolved"], [self.root]):
            return loaded["source"]
        return loaded["resolved"]

    def _to_run(self, loaded: Loaded) -> str:
        command = loaded["content"].split()[0]
        return messages.to_run(loaded, is_mapped=command in self.mapped, problem=self.mapped.get(command))

    def find_programs(self, commands: dict[str, list[str]], surroundings: Surroundings) -> None:
        """Find out which of the loaded commands have one of the user's programs, without starting any."""
        from faber_ledger.context.artifact_command import mapped_programs  # most projects map no program

        self.mapped = mapped_programs(self.loaded, commands, surroundings)

    def not_loaded(self) -> list[str]:
        """Return a line for each optional artifact that is there, or named by the state, but could not be loaded."""
        return [
            messages.not_loaded(failed["artifact"], failed["error"], self.root)
            for failed in self.failed
            if not (failed["artifact"]["required"] or (failed["error"].is_missing and not is_named_by_state(**failed)))
        ]

    def pack(
        self,
        run: Run,
        log: Log | None,
        problems: list[str],
        *,
        session_id: str,
        client: str | None,
        source: str,
        budget: int,
        has_summaries_in_git: bool,
        environment: Environment | None = None,
        elsewhere: str | None = None,
    ) -> tuple[str, list[Draft]]:
        """Return the packet of a session that starts, or loads again, and the facts of what is in it.

        Notes and another conversation's summary come from `log`, where it can be read. `client` and `source` are the
        session's. `environment` as in `drafts`. `elsewhere` is a sentence about other clones.
        """
        text, given = packet.pack(
            run.run_id,
            self.state,
            self.parts(),
            problems,
            budget=budget,
            notes=notes.newest_notes(log) if log else [],
            summary=notes.summary_for(log, client, source, None if has_summaries_in_git else run) if log else None,
            not_loaded=self.not_loaded(),
            elsewhere=elsewhere,
        )
        return text, self.drafts(session_id, client, given, environment)

    def drafts(
        self, session_id: str, client: str | None, given: dict[str, Given], environment: Environment | None = None
    ) -> list[Draft]:
        """Return the events of this reload; without a workflow or a required artifact it does not count as a reload.

        `environment` is given if the session lacks one, as a session of an older tool may (RELOAD, Validation 4).
        """
        facts: list[Draft] = []
        for loaded in self.loaded:
            name = loaded["artifact"]["id"]
            facts.append(
                {
                    "event": {
                        "type": "artifact_loaded",
                        "session_id": session_id,
                        "artifact_id": name,
                        "trigger": self._trigger_of(loaded["artifact"]),
                        "source": loaded["source"],
                        "size_bytes": loaded["size_bytes"],
                        "sha256": loaded["sha256"],
                        "given": "deferred" if loaded["is_deferred"] else given[name],
                    }
                }
            )
        for failed in self.failed:
            artifact = failed["artifact"]
            facts.append(
                {
                    "event": {
                        "type": "artifact_failed",
                        "session_id": session_id,
                        "artifact_id": artifact["id"],
                        "trigger": self._trigger_of(artifact),
                        "source": messages.source_of(artifact),
                        "required": artifact["required"],
                        # Portable: on other machines, which get this event too, the project has another path.
                        "error": failed["error"].message.replace(os.path.join(self.root, ""), ""),
                    }
                }
            )
        for skipped in self.skipped:
            facts.append(
                {
                    "event": {
                        "type": "artifact_skipped",
                        "session_id": session_id,
                        "artifact_id": skipped["artifact"]["id"],
                        "trigger": self._trigger_of(skipped["artifact"]),
                        "loaded_at": skipped["loaded_at"],
                    }
                }
            )
        if self.has_workflow and not self.required_failed:
            reloaded: ContextReloaded = {
                "type": "context_reloaded",
                "session_id": session_id,
                "trigger": selection.recorded_trigger(self.triggers[0]),
                "loaded": len(self.loaded),
                "failed": len(self.failed),
                "skipped": len(self.skipped),
            }
            if environment is not None:
                reloaded["environment"] = environment
            facts.append({"event": reloaded})
        for fact in facts:
            fact["client"] = client
        return facts

    def _trigger_of(self, artifact: Artifact) -> str:
        """Return the trigger that an artifact was loaded for, in the form that is recorded."""
        listed = artifact["reload_triggers"] or self.triggers
        matching = [trigger for trigger in self.triggers if selection.full_trigger(trigger, self.state) in listed]
        return selection.recorded_trigger((matching or self.triggers)[0])


def gather(
    selected: Iterable[Artifact],
    surroundings: Surroundings,
    *,
    triggers: list[str],
    at: float,
    in_context: dict[str, dict[str, Any]],
    last_loads: dict[str, ArtifactLoaded],
    force: bool,
    dry_run: bool,
    stop_at_failure: bool,
    max_bytes: float = float("inf"),
    problems: list[str] | None = None,
    has_workflow: bool = True,
) -> Reload:
    """Load artifacts; one loaded in the last five minutes is skipped, unless `force` or its content has changed.

    `in_context` has the loads that count, by artifact id; `last_loads` the last recorded load of each artifact. The
    answer of a user's program can only be known by running it: such an artifact is skipped if the program answered in
    the last five minutes, so that a `dry_run`, which starts no program, shows what the load would do. With
    `stop_at_failure`, nothing is loaded after a required artifact that failed (RELOAD, Step 5). After `max_bytes` of
    required artifacts no more of these are read, and likewise for optional ones. `problems` and
    `has_workflow` are the result's.
    """
    result = Reload(surroundings["root"], triggers, surroundings["state"], problems or [], has_workflow=has_workflow)
    without_programs: Surroundings = {**surroundings, "commands": {}}
    left = {True: max_bytes, False: max_bytes}
    for artifact in selected:
        entry, last = in_context.get(artifact["id"]), last_loads.get(artifact["id"])
        try:
            if left[artifact["required"]] <= 0:
                raise ArtifactError(
                    f"Not read, since a hook has read {max_bytes / 1048576:.0f} MB of artifacts; {HINT_LOAD_ALL}"
                )
            loaded = load(artifact, without_programs)
            left[artifact["required"]] -= loaded["size_bytes"]
            is_mapped = loaded["is_deferred"] and loaded["content"].split()[0] in surroundings["commands"]
            if is_mapped:
                is_current = last is not None and last.get("given") != "deferred" and selection.is_recent(entry, at)
            else:
                is_current = selection.is_current(entry, at, loaded["sha256"], last.get("sha256") if last else None)
            if is_mapped and (force or not is_current):
                if dry_run:
                    from faber_ledger.context.artifact_command import check_mapped  # most projects map no program

                    check_mapped(surroundings["commands"][loaded["content"].split()[0]], surroundings)
                else:
                    loaded = load(artifact, surroundings)
        except ArtifactError as error:
            result.attempts.append((artifact, error))
            if artifact["required"] and stop_at_failure:
                break
            continue
        if is_current and not force:
            minutes = selection.minutes_since(entry, at) or 0
            result.skipped.append(
                {
                    "artifact": artifact,
                    "loaded": loaded,
                    "loaded_at": str((entry or {}).get("loaded_at")),
                    "minutes": minutes,
                }
            )
            continue
        result.attempts.append((artifact, loaded))
    return result


def gather_for_hook(
    run: Run, state: dict[str, Any], *, compacted: bool, at: float, is_state_read: bool = False
) -> Reload:
    """Load what a session start in the client needs; whatever goes wrong is a problem in the result, never an error.

    `is_state_read` means that `state` is the content of its file, which is then not read again for its artifact.
    """
    triggers = ["session_start", "compaction_detected"] if compacted else ["session_start"]
    config = read_user_config()
    problems = [f"⚠️ WARNING: {config['problem']}"] if config["problem"] else []
    has_workflow = True
    try:
        workflow = limit_for_hook(workflow_of(run, state, config["plugin_roots"]), state, problems.append)
        problems += workflow["warnings"]
        selected = selection.select(workflow, state, triggers, None, problems.append)
    except WorkflowNotFound as error:
        has_workflow = False
        selected = artifacts_without_workflow() if state else []
        problems.append(error.block or f"❌ ERROR: {error.message}\n\nRecovery: {error.hint}")
    surroundings = build_surroundings(run, state, config["plugin_roots"])
    surroundings["is_state_read"] = is_state_read
    result = gather(
        selected,
        surroundings,
        triggers=triggers,
        at=at,
        in_context={},  # a new session has nothing in context yet
        last_loads={},
        force=True,
        dry_run=False,
        stop_at_failure=False,
        max_bytes=MAX_BYTES_READ,
        problems=problems,
        has_workflow=has_workflow,
    )
    if config["commands"]:
        result.find_programs(config["commands"], surroundings)
    return result


def workflow_of(run: Run, state: dict[str, Any], plugin_roots: list[str]) -> Workflow:
    """Load the workflow that a run's state names, or its metadata; raises WorkflowNotFound."""
    workflow_id = workflow_id_of(run, state)
    if not isinstance(workflow_id, str):
        message, hint, block = fields_missing(run, ("run_id", "workflow_id"))
        raise WorkflowNotFound(message, hint=hint, block=block)
    return load_workflow(run.root, workflow_id, plugin_roots)


def loads_in_context(blocks: Blocks) -> dict[str, dict[str, Any]]:
    """Return the loads that are in context, by artifact id."""
    return {str(entry.get("artifact_id")): entry for entry in artifacts_in_context(blocks)}
