"""What a session-load prints, step by step, and its dry run (RELOAD, Steps 2 to 7; AGENT, Step 8 and Dry Run Mode)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.context import messages, selection
from faber_ledger.context.artifact import COMMAND_TYPES, ArtifactError
from faber_ledger.context.artifact_command import fill_program
from faber_ledger.context.conditions import MAX_QUOTED
from faber_ledger.files.text import one_line
from faber_ledger.projections import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faber_ledger.context.artifact import Artifact, Loaded, Surroundings
    from faber_ledger.context.reload import Reload
    from faber_ledger.context.workflow import Workflow
    from faber_ledger.projections.blocks import Blocks
    from faber_ledger.runs.run import Run


RULE = "━" * 46


class DryRun(NamedTuple):
    """A load that was only tried; `in_context` holds the loads that count as in context, by artifact id."""

    run_id: str
    state: dict[str, Any]
    selected: list[Artifact]
    in_context: dict[str, dict[str, Any]]
    surroundings: Surroundings
    at: float
    result: Reload


def config_lines(workflow: Workflow, state: dict[str, Any]) -> Iterator[str]:
    """Yield which workflow and state a load is about (RELOAD, Step 2)."""
    yield f"✓ Loaded workflow config: {workflow['id']}"
    yield f"  Run status: {state['status']}"
    yield f"  Current phase: {state.get('current_phase') or 'unknown'}"


def step_lines(result: Reload, selected: int) -> Iterator[str]:
    """Yield which of the selected artifacts were skipped and loaded, in order (RELOAD, Steps 3 and 5)."""
    for skipped in result.skipped:
        yield f"ℹ Skipping {skipped['artifact']['id']} - loaded {skipped['minutes']} minutes ago"
    yield f"Determined {selected - len(result.skipped)} artifacts to load"
    for artifact, outcome in result.attempts:
        yield f"Loading {artifact['id']}..."
        if not isinstance(outcome, ArtifactError):
            yield f"✓ {artifact['id']} - {artifact['description']}"
            yield f"  Source: {outcome['source']}"
            yield f"  Resolved: {outcome['resolved']}"
            yield f"  Size: {_size(outcome)}"


def warnings(result: Reload) -> Iterator[str]:
    """Yield what did not stop the load: large artifacts, missing values, and optional artifacts that failed."""
    for loaded in result.loaded:
        for note in loaded["notes"]:
            yield f"⚠️ WARNING: {note}"
        if loaded["is_large"]:
            yield messages.large_artifact(loaded)
    for failed in result.failed:
        if not failed["artifact"]["required"]:
            yield messages.optional_failed(**failed)


def lines(run: Run, state: dict[str, Any], current: Blocks, result: Reload, session_id: str) -> Iterator[str]:
    """Yield the report of a load (RELOAD, Step 7) into a session, which may have ended for a compaction to come."""
    session = blocks.entry_of(current, session_id) or {}
    environment = session.get("environment") or {}
    yield ""
    yield RULE
    yield f"✓ Context reloaded for run: {run.run_id}"
    yield f"  Workflow: {state['workflow_id']}"
    yield f"  Run status: {state['status']}"
    yield f"  Current phase: {state.get('current_phase') or 'unknown'}"
    yield ""
    yield f"Artifacts loaded ({len(result.loaded)}):"
    for loaded in result.loaded:
        yield f"  ✓ {loaded['artifact']['id']} - {loaded['artifact']['description']}"
        yield f"    Source: {loaded['source']}"
        yield f"    Resolved: {loaded['resolved']}"
        yield f"    Size: {_size(loaded)}"
        yield ""
    if len(result.loaded) > 1:
        yield f"Total size: {messages.kilobytes(sum(loaded['size_bytes'] for loaded in result.loaded))}"
        yield ""
    if result.failed:
        yield f"Artifacts skipped ({len(result.failed)}):"
        for failed in result.failed:
            yield f"  ⚠️ {failed['artifact']['id']} - {failed['error'].message}"
        yield ""
    yield "Session tracking:"
    yield f"  Current session: {session_id}"
    yield f"  Total sessions: {current['sessions']['total_sessions']}"
    hostname, platform, cwd = [environment.get(name) or "unknown" for name in ("hostname", "platform", "cwd")]
    yield f"  Environment: {hostname} ({platform})"
    yield f"  Working directory: {cwd}"
    yield ""
    yield "Context metadata:"
    yield f"  Last reload: {current['context_metadata'].get('last_artifact_reload')}"
    yield f"  Total reloads: {current['context_metadata'].get('reload_count')}"
    yield RULE


def data(run: Run, state: dict[str, Any], result: Reload, session_id: str) -> dict[str, Any]:
    """Return what a load did, for programs."""
    return {
        "run_id": run.run_id,
        "workflow_id": state["workflow_id"],
        "status": state["status"],
        "session_id": session_id,
        "loaded": [_loaded_data(loaded) for loaded in result.loaded],
        "failed": [
            {"artifact_id": failed["artifact"]["id"], "error": failed["error"].message} for failed in result.failed
        ],
        "skipped": [
            {"artifact_id": skipped["artifact"]["id"], "loaded_at": skipped["loaded_at"]} for skipped in result.skipped
        ],
        "total_bytes": sum(loaded["size_bytes"] for loaded in result.loaded),
    }


def dry_lines(tried: DryRun) -> Iterator[str]:
    """Yield what would be loaded (RELOAD, Step 4; AGENT, Dry Run Mode)."""
    result = tried.result
    yield f"Would reload context for run: {tried.run_id}"
    yield f"Workflow: {tried.state['workflow_id']}"
    yield f"Run status: {tried.state['status']}"
    yield ""
    yield "Artifacts that would be loaded:"
    yield ""
    recent = {skipped["artifact"]["id"]: skipped["loaded"] for skipped in result.skipped}
    outcomes: dict[str, Loaded | ArtifactError] = {**recent, **{one["id"]: got for one, got in result.attempts}}
    for artifact in tried.selected:
        name = artifact["id"]
        yield from _dry_artifact(artifact, outcomes[name], name in recent, tried)
    count = len(result.loaded)
    skipped = len(tried.selected) - count
    yield f"Total: {len(tried.selected)} artifacts ({count} would be loaded, {skipped} skipped)"
    size = sum(loaded["size_bytes"] for loaded in result.loaded)
    yield f"Estimated context size: {messages.kilobytes(size)}"


def dry_data(tried: DryRun) -> dict[str, Any]:
    """Return what would be loaded, for programs."""
    result = tried.result
    return {
        "run_id": tried.run_id,
        "would_load": [_loaded_data(loaded) for loaded in result.loaded],
        "would_fail": [
            {"artifact_id": failed["artifact"]["id"], "error": failed["error"].message} for failed in result.failed
        ],
        "would_skip": [skipped["artifact"]["id"] for skipped in result.skipped],
        "total_bytes": sum(loaded["size_bytes"] for loaded in result.loaded),
    }


def _dry_artifact(
    artifact: Artifact, outcome: Loaded | ArtifactError, is_skipped: bool, tried: DryRun
) -> Iterator[str]:
    is_command = artifact["type"] in COMMAND_TYPES
    size = None if _is_deferred(outcome) else _file_size(outcome)
    mark, action = ("⊘", "SKIP (recently loaded)") if is_skipped else ("✓", "LOAD")
    if isinstance(outcome, ArtifactError) and not _is_missing(outcome, is_command):
        stops = artifact["required"]
        mark, action = ("✗", "FAIL (the load would stop here)") if stops else ("⊘", "SKIP (cannot be loaded)")
    yield f"  {mark} {artifact['id']}"
    yield f"    Type: {artifact['type']}"
    if is_command:
        yield f"    Command: {artifact['command'] or '-'}"
        yield f"    Runs: {_program(outcome, tried.surroundings)}"
    else:
        yield f"    Path: {artifact['path'] or artifact['path_from_state'] or '-'}"
    resolved = outcome.resolved if isinstance(outcome, ArtifactError) else outcome["resolved"]
    if artifact["path_from_state"] and not artifact["path"] and not is_command:
        yield f"    Path from state: {artifact['path_from_state']}"
        yield f"    Resolved: {resolved or '-'}"
    if artifact["condition"] is not None:
        yield f"    Condition: {one_line(artifact['condition'], MAX_QUOTED)}"
    yield f"    Required: {'yes' if artifact['required'] else 'no'}"
    if not is_command:
        yield f"    Exists: {'yes' if resolved and os.path.exists(resolved) else 'no'}"
    if isinstance(outcome, ArtifactError):
        yield f"    Error: {outcome.message}"
    if size is not None:
        yield f"    Size: {messages.kilobytes(size)}"
    minutes = selection.minutes_since(tried.in_context.get(artifact["id"]), tried.at)
    yield f"    Last loaded: {'never' if minutes is None else f'{minutes} minutes ago'}"
    yield f"    Action: {action}"
    yield ""


def _is_missing(error: ArtifactError, is_command: bool) -> bool:
    """Return whether the only problem is a missing file: RELOAD marks that by `Exists: no` alone."""
    return not is_command and error.resolved is not None and not os.path.lexists(error.resolved)


def _is_deferred(outcome: Loaded | ArtifactError) -> bool:
    return not isinstance(outcome, ArtifactError) and outcome["is_deferred"]


def _program(outcome: Loaded | ArtifactError, surroundings: Surroundings) -> str:
    """Return what a command would run; a dry run starts no program except git."""
    if isinstance(outcome, ArtifactError):
        return "-"
    if not outcome["is_deferred"]:
        return outcome["resolved"]
    program = surroundings["commands"].get(outcome["resolved"].split()[0])
    if program is None:
        return f"{outcome['resolved']} (by the agent)"
    try:
        return " ".join(fill_program(program, surroundings))
    except ArtifactError as error:
        return f"- ({error.message})"


def _size(loaded: Loaded) -> str:
    if loaded["is_deferred"]:
        return "0.0 KB (deferred: the agent is asked to run it)"
    return messages.kilobytes(loaded["size_bytes"])


def _file_size(outcome: Loaded | ArtifactError) -> int | None:
    """Return the size of an artifact's file, also if it cannot be loaded; None if there is no file."""
    if not isinstance(outcome, ArtifactError):
        return outcome["size_bytes"]
    path = outcome.resolved
    return os.path.getsize(path) if path and os.path.isfile(path) else None


def _loaded_data(loaded: Loaded) -> dict[str, Any]:
    kept = ("source", "resolved", "size_bytes", "sha256", "is_large", "is_deferred")
    return {"artifact_id": loaded["artifact"]["id"], **{name: loaded[name] for name in kept}}  # type: ignore[literal-required]  # the names are keys of Loaded
