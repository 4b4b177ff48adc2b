"""One reload of context (RELOAD, Steps 3 to 6): which artifacts were loaded, which failed, which were skipped."""

from __future__ import annotations

import os

from faber_ledger.context import messages, notes, packet, selection
from faber_ledger.context.artifact import COMMANDS, ArtifactError, is_named
from faber_ledger.context.artifact_content import load
from faber_ledger.context.artifact_source import surroundings_of
from faber_ledger.context.selection import ASK, MOST_READ, bounded
from faber_ledger.context.workflow import artifacts_without_workflow, load_workflow
from faber_ledger.files.untrusted import around
from faber_ledger.ledger.errors import WorkflowNotFound
from faber_ledger.projections import blocks as shape
from faber_ledger.runs.settings import read_user_config
from faber_ledger.runs.state_file import fields_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypedDict

    from faber_ledger.context.artifact import Artifact, Loaded, Surroundings
    from faber_ledger.context.packet import Given, Part
    from faber_ledger.context.workflow import Workflow
    from faber_ledger.ledger.events import ArtifactLoaded, ContextReloaded, Draft, Environment
    from faber_ledger.ledger.log import Log
    from faber_ledger.runs.run import Run

    class Failed(TypedDict):
        """An artifact that could not be loaded."""

        artifact: Artifact
        error: ArtifactError

    class Skipped(TypedDict):
        """An artifact that was loaded a short while ago, `loaded` as it is now; `minutes` are whole."""

        artifact: Artifact
        loaded: Loaded
        loaded_at: str
        minutes: int


class Reload:
    """What one reload operation came to; `problems` are what the agent must be told first."""

    def __init__(self, root: str, triggers: list[str], state: dict[str, Any]) -> None:
        self.root = root
        self.triggers = triggers
        self.state = state
        self.attempts: list[tuple[Artifact, Loaded | ArtifactError]] = []
        self.skipped: list[Skipped] = []
        self.other_problems: list[str] = []
        self.has_workflow = True
        self.mapped: dict[str, str | None] = {}  # commands with a program, which no hook runs; why it cannot be run

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
        """The failures of artifacts that the workflow cannot proceed without."""
        return [failed for failed in self.failed if failed["artifact"]["required"]]

    def problems(self) -> list[str]:
        """Word what is missing and how to recover, most important first."""
        return [*self.other_problems, *[messages.required_failed(**failed) for failed in self.required_failed]]

    def parts(self) -> list[Part]:
        """Give what was loaded as the packet takes it, what is required first.

        The size of the run's own state is that of what is given of it: the file grows with every session.
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
        """Give what the agent can read: the recorded source, but the absolute path of what a plugin root brought."""
        if loaded["artifact"]["type"] in COMMANDS or around(loaded["resolved"], [self.root]):
            return loaded["source"]
        return loaded["resolved"]

    def _to_run(self, loaded: Loaded) -> str:
        command = loaded["content"].split()[0]
        return messages.to_run(loaded, is_mapped=command in self.mapped, problem=self.mapped.get(command))

    def not_loaded(self) -> list[str]:
        """Say in a line each which optional artifacts are there or named by the state, and could not be loaded."""
        return [
            messages.not_loaded(failed["artifact"], failed["error"], self.root)
            for failed in self.failed
            if not (failed["artifact"]["required"] or (failed["error"].is_missing and not is_named(**failed)))
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
    ) -> tuple[str, list[Draft]]:
        """Return the packet of a session that starts, or loads again, and the facts of what is in it.

        Notes and another conversation's summary come from `log`, where it can be read. `client` and `source` are the
        session's. `environment` as in `drafts`.
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
        )
        return text, self.drafts(session_id, client, given, environment)

    def drafts(
        self, session_id: str, client: str | None, given: dict[str, Given], environment: Environment | None = None
    ) -> list[Draft]:
        """Give the facts of this operation; without a workflow, or what is required, it counts as none.

        `environment` is given where the session lacks one, as an older tool's may (RELOAD, Validation 4).
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
                        # Portable: the fact travels to other machines, where the project lies elsewhere.
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
        """Give the trigger that an artifact was loaded for, as it is recorded."""
        listed = artifact["reload_triggers"] or self.triggers
        whole = [trigger for trigger in self.triggers if selection.whole_trigger(trigger, self.state) in listed]
        return selection.recorded_trigger((whole or self.triggers)[0])


def gather(
    selected: Iterable[Artifact],
    surroundings: Surroundings,
    *,
    triggers: list[str],
    at: float,
    in_context: dict[str, dict[str, Any]],
    last_loads: dict[str, ArtifactLoaded],
    force: bool,
    is_dry: bool,
    stops: bool,
    most_read: float = float("inf"),
) -> Reload:
    """Load artifacts; those of the last five minutes are skipped unless `force` or a changed content.

    `in_context` holds the loads that count, by artifact id; `last_loads` the last recorded one of each.
    What a program of the user's answers is known by running it alone: such an artifact is skipped if the program has
    answered in the last five minutes, so that a dry run (`is_dry`), which starts none, tells what the load would do.
    With `stops`, nothing is loaded after a required artifact that failed (RELOAD, Step 5). After `most_read` bytes of
    required artifacts none of them is read, and so it is with the optional ones.
    """
    result = Reload(surroundings["root"], triggers, surroundings["state"])
    unasked: Surroundings = {**surroundings, "commands": {}}
    left = {True: most_read, False: most_read}
    for artifact in selected:
        entry, last = in_context.get(artifact["id"]), last_loads.get(artifact["id"])
        try:
            if left[artifact["required"]] <= 0:
                raise ArtifactError(f"Not read, since a hook has read {most_read / 1048576:.0f} MB of artifacts; {ASK}")
            loaded = load(artifact, unasked)
            left[artifact["required"]] -= loaded["size_bytes"]
            is_mapped = loaded["is_deferred"] and loaded["content"].split()[0] in surroundings["commands"]
            if is_mapped:
                is_current = last is not None and last.get("given") != "deferred" and selection.is_recent(entry, at)
            else:
                is_current = selection.is_current(entry, at, loaded["sha256"], last.get("sha256") if last else None)
            if is_mapped and (force or not is_current):
                if is_dry:
                    from faber_ledger.context.artifact_command import check_mapped  # only who needs it pays for it

                    check_mapped(surroundings["commands"][loaded["content"].split()[0]], surroundings)
                else:
                    loaded = load(artifact, surroundings)
        except ArtifactError as error:
            result.attempts.append((artifact, error))
            if artifact["required"] and stops:
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
    """Load what a client's session start asks for; whatever goes wrong is a problem of the result, never an error.

    `is_state_read` tells that `state` is what its file says: the artifact that is this file is then not read again.
    """
    triggers = ["session_start", "compaction_detected"] if compacted else ["session_start"]
    config = read_user_config()
    problems = [f"⚠️ WARNING: {config['problem']}"] if config["problem"] else []
    has_workflow = True
    try:
        workflow = bounded(workflow_of(run, state, config["plugin_roots"]), state, problems.append)
        selected = selection.select(workflow, state, triggers, None, problems.append)
    except WorkflowNotFound as error:
        has_workflow = False
        selected = artifacts_without_workflow() if state else []
        problems.append(error.block or f"❌ ERROR: {error.message}\n\nRecovery: {error.hint}")
    surroundings = surroundings_of(run, state, config["plugin_roots"])
    surroundings["is_state_read"] = is_state_read
    result = gather(
        selected,
        surroundings,
        triggers=triggers,
        at=at,
        in_context={},  # a new session has nothing in context yet
        last_loads={},
        force=True,
        is_dry=False,
        stops=False,
        most_read=MOST_READ,
    )
    result.has_workflow = has_workflow
    if config["commands"]:
        from faber_ledger.context.artifact_command import mapped_programs  # only who needs it pays for it

        result.mapped = mapped_programs(result.loaded, config["commands"], surroundings)
    result.other_problems = problems
    return result


def workflow_of(run: Run, state: dict[str, Any], plugin_roots: list[str]) -> Workflow:
    """Load the workflow that a state names; raises WorkflowNotFound."""
    workflow_id = state.get("workflow_id")
    if not isinstance(workflow_id, str):
        told, hint, block = fields_missing(run, ("run_id", "workflow_id"))
        raise WorkflowNotFound(told, hint=hint, block=block)
    return load_workflow(run.root, workflow_id, plugin_roots)


def loads_in_context(blocks: shape.Blocks) -> dict[str, dict[str, Any]]:
    """Give the loads that are in context, by artifact id."""
    return {str(entry.get("artifact_id")): entry for entry in shape.artifacts_in_context(blocks)}
