"""What a session-load prints, step by step, and its dry run (RELOAD, Steps 2 to 7; AGENT, Step 8 and Dry Run Mode)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.reports.loading import Loading
from faber_ledger.cli.ui.words import ago
from faber_ledger.context import selection
from faber_ledger.context.artifact import COMMAND_TYPES, ArtifactError
from faber_ledger.context.body import described, kilobytes, named_in_hint
from faber_ledger.context.failures import describe_failure, describe_large
from faber_ledger.context.reload import Reload
from faber_ledger.context.selection import MAX_QUOTED
from faber_ledger.files.text import escape, one_line
from faber_ledger.projections.fold import entry_of, session_history

if TYPE_CHECKING:
    from faber_ledger.context.artifact import Loaded, Surroundings
    from faber_ledger.context.body import Given
    from faber_ledger.context.reload import Failed
    from faber_ledger.context.workflow import Artifact
    from faber_ledger.projections.fold import Blocks


RULE = "━" * 46
LOADED = ("source", "resolved", "size_bytes", "sha256", "is_large", "is_deferred")  # of an artifact, for programs
LONGEST_HINT = 300
LOAD, FAIL = "LOAD", "FAIL (the load would exit with code 1)"
LOOK = (
    "ℹ A look, since this is a terminal: nothing is recorded, and no contents are printed"
    " (`faber-ledger session-load --content` does both)"
)
OUTLINED = "    Given: as an outline"
NOT_GIVEN = {
    "pointer": "not shown: the contents have no room for it",
    "deferred": "deferred: the agent is asked to run it",
}


def config_lines(loading: Loading) -> Iterator[str]:
    """Yield which workflow, state and hint a load is about (RELOAD, Step 2)."""
    state = loading.state
    yield f"✓ Loaded workflow config: {loading.workflow['id']}"
    yield f"  Run status: {state['status']}"
    yield f"  Current phase: {state.get('current_phase') or 'unknown'}"
    if loading.hint:
        yield f"Context hint: {one_line(loading.hint, LONGEST_HINT)}"


def skipped_lines(result: Reload) -> Iterator[str]:
    """Yield which of the selected artifacts are skipped (RELOAD, Step 3)."""
    for skipped in result.skipped:
        yield f"ℹ Skipping {skipped['artifact']['id']} - loaded {ago(skipped['age'])} (--force loads it)"


def step_lines(result: Reload) -> Iterator[str]:
    """Yield what was loaded, in order (RELOAD, Step 5).

    For a person who gets the contents, too: the report comes far below, and only names what was loaded.
    """
    for artifact, outcome in result.attempts:
        yield f"Loading {artifact['id']}..."
        if not isinstance(outcome, ArtifactError):
            mark = "⊘" if outcome["is_deferred"] else "✓"
            yield f"{mark} {artifact['id']}{described(artifact['description'])}"
            yield from _facts(outcome, "  ")


def warnings(result: Reload) -> Iterator[str]:
    """Yield what did not stop the load: large artifacts, missing values, and optional artifacts that failed."""
    for loaded in result.loaded:
        for note in loaded["notes"]:
            yield f"⚠️ WARNING: {escape(note)}"
        if loaded["is_large"]:
            yield describe_large(loaded)
    yield from [describe_failure(**failed) for failed in result.missed if not failed["artifact"]["required"]]


def lines(loading: Loading, result: Reload, *, is_look: bool, is_brief: bool, given_bytes: int) -> Iterator[str]:
    """Yield the report of a load (RELOAD, Step 7) into a session, which may have ended for a compaction to come.

    A look, which gives nothing, is reported as the load that it would be; without a session it would open one. If
    `is_brief`, as after the lines of each step, the artifacts are only named (AGENT, Step 8). `given_bytes` is the size
    of the contents.
    """
    given = _given(result)
    yield ""
    yield RULE
    yield from head_lines(loading, result, is_look=is_look)
    yield f"  Workflow: {loading.state['workflow_id']}"
    yield f"  Run status: {loading.state['status']}"
    yield f"  Current phase: {loading.state.get('current_phase') or 'unknown'}"
    yield ""
    yield f"Artifacts that would be loaded ({len(given)}):" if is_look else f"Artifacts loaded ({len(given)}):"
    yield from _given_lines(result, given, "•" if is_look else "✓", is_brief=is_brief)
    total = [f"Total size: {kilobytes(sum(loaded['size_bytes'] for loaded in given))}"] if len(given) > 1 else []
    sizes = [*total, *_room_lines(result, given_bytes)]
    yield from [*sizes, ""] if sizes else []
    skipped = _skipped_lines(result, result.failed)
    yield from [f"Artifacts skipped ({len(skipped)}):", *skipped, ""] if skipped else []
    yield from _session_lines(loading.blocks, loading.session_id)
    yield RULE
    yield from _closing_lines(result, is_minimal=loading.is_minimal)


def short_lines(loading: Loading, result: Reload, *, given_bytes: int, needs_head: bool) -> Iterator[str]:
    """Yield the short report of a load, for an agent that has the contents; they may already begin with its head."""
    if needs_head:
        yield from ["", *head_lines(loading, result)]
    yield from _skipped_lines(result, result.missed)
    yield from _room_lines(result, given_bytes)
    yield from _closing_lines(result, is_minimal=loading.is_minimal)


def _given(result: Reload) -> list[Loaded]:
    return [loaded for loaded in result.loaded if _how(result, loaded) not in NOT_GIVEN]


def head_lines(loading: Loading, result: Reload, *, is_look: bool = False) -> Iterator[str]:
    """Yield the first line of a load's report."""
    if is_look:
        yield f"Would reload context for run: {loading.run.run_id}"
    elif _given(result):
        yield f"✓ Context reloaded for run: {loading.run.run_id}"
    else:
        yield from _nothing_lines(loading, result)


def _room_lines(result: Reload, given_bytes: int, given: str = "Contents given") -> list[str]:
    """Return the size of contents that were cut; more than was loaded they are by what stands around it."""
    is_cut = result.lacks_room() and given_bytes < sum(loaded["size_bytes"] for loaded in result.loaded)
    return [f"{given}: {kilobytes(given_bytes)} (--budget gives more)"] if is_cut else []


def _named(loaded: Loaded) -> str:
    return f"{loaded['artifact']['id']}{described(loaded['artifact']['description'])}"


def _given_lines(result: Reload, given: list[Loaded], mark: str, *, is_brief: bool) -> Iterator[str]:
    for loaded in given:
        yield f"  {mark} {_named(loaded)}"
        if not is_brief:
            yield from _facts(loaded, "    ")
        if _how(result, loaded) == "outline":
            yield OUTLINED
        if not is_brief:
            yield ""
    if is_brief or not given:
        yield ""


def _skipped_lines(result: Reload, failed: list[Failed]) -> list[str]:
    left_out = [(loaded, _how(result, loaded)) for loaded in result.loaded]
    return [
        *[f"  ⊘ {one['artifact']['id']} - this session has it: loaded {ago(one['age'])}" for one in result.skipped],
        *[f"  ⊘ {one['artifact']['id']} - {NOT_GIVEN[how]}" for one, how in left_out if how in NOT_GIVEN],
        *[f"  ⚠️ {one['artifact']['id']} - {one['error'].message}" for one in failed],
    ]


def _session_lines(current: Blocks, session_id: str | None) -> Iterator[str]:
    session = entry_of(current, session_id or "") or {}
    environment = session.get("environment") or {}
    metadata = current.get("context_metadata")
    known = metadata if isinstance(metadata, dict) else {}
    yield "Session tracking:"
    yield f"  Current session: {session_id or 'none'}"
    yield f"  Total sessions: {len(session_history(current))}"
    if environment:
        hostname, platform, cwd = [environment.get(name) or "unknown" for name in ("hostname", "platform", "cwd")]
        yield f"  Environment: {hostname} ({platform})"
        yield f"  Working directory: {cwd}"
    yield ""
    yield "Context metadata:"
    yield f"  Last reload: {known.get('last_artifact_reload') or 'never'}"
    yield f"  Total reloads: {known.get('reload_count') or 0}"


def _facts(loaded: Loaded, indent: str) -> Iterator[str]:
    """Yield where an artifact came from and its size, or that the agent is asked to run it."""
    yield f"{indent}Source: {loaded['source']}"
    yield f"{indent}Resolved: {loaded['resolved']}"
    if loaded["is_deferred"]:
        yield f"{indent}Deferred: the agent is asked to run it"
    else:
        yield f"{indent}Size: {kilobytes(loaded['size_bytes'])}"


def _nothing_lines(loading: Loading, result: Reload) -> Iterator[str]:
    """Yield why nothing was loaded, instead of the line that something was."""
    skipped, failed, deferred = len(result.skipped), len(result.missed), len(result.loaded)
    them = "it" if skipped == 1 else "them"
    why = [f"{skipped} skipped (--force loads {them})"] if skipped else []
    why += [f"{failed} failed"] if failed else []
    why += [f"{deferred} not given"] if deferred else []
    what = "Nothing was loaded" if failed or deferred else "Nothing to load"
    yield f"ℹ {what}: {', '.join(why)}" if why else f"ℹ {what}"
    yield f"  Run: {loading.run.run_id}"


def _closing_lines(result: Reload, *, is_minimal: bool) -> Iterator[str]:
    """Yield what the user's hint led to, and how to go on after a minimal load (FABER's session-load)."""
    if result.hint:
        named = ", ".join([loaded["artifact"]["id"] for loaded in named_in_hint(result.loaded, result.hint)])
        yield f"Phase context hint: {one_line(result.hint, LONGEST_HINT)}"
        yield f"  Relevant loaded artifacts, which come first: {named or 'none is named in it'}"
    if is_minimal:
        yield "Recovery: run TaskList to see pending steps, then continue from next pending step."


def _how(result: Reload, loaded: Loaded) -> Given:
    """Return how a loaded artifact was given; before it is packed, how it would be with enough room."""
    return result.given.get(loaded["artifact"]["id"], "deferred" if loaded["is_deferred"] else "inline")


def data(loading: Loading, result: Reload) -> dict[str, Any]:
    """Return what a load did, or would do, for programs."""
    return {
        "run_id": loading.run.run_id,
        "workflow_id": loading.state["workflow_id"],
        "status": loading.state["status"],
        "session_id": loading.session_id,
        "loaded": [
            {"artifact_id": loaded["artifact"]["id"], "given": _how(result, loaded)}
            | {name: value for name, value in loaded.items() if name in LOADED}
            for loaded in result.loaded
        ],
        "failed": [
            {"artifact_id": failed["artifact"]["id"], "error": failed["error"].message} for failed in result.failed
        ],
        "skipped": [
            {"artifact_id": skipped["artifact"]["id"], "loaded_at": skipped["loaded_at"]} for skipped in result.skipped
        ],
        "total_bytes": sum(loaded["size_bytes"] for loaded in result.loaded),
    }


def dry_lines(loading: Loading, result: Reload, given_bytes: int) -> Iterator[str]:
    """Yield what would be loaded (RELOAD, Step 4; AGENT, Dry Run Mode); `given_bytes` is the contents' size."""
    surroundings = loading.surroundings()
    yield f"Would reload context for run: {loading.run.run_id}"
    yield f"Workflow: {loading.state['workflow_id']}"
    yield f"Run status: {loading.state['status']}"
    yield ""
    yield "Artifacts that would be loaded:"
    yield ""
    recent = {skipped["artifact"]["id"]: skipped["loaded"] for skipped in result.skipped}
    outcomes: dict[str, Loaded | ArtifactError] = {**recent, **{one["id"]: got for one, got in result.attempts}}
    actions = []
    for artifact in loading.selected:
        name = artifact["id"]
        is_pointer = result.given.get(name) == "pointer"
        mark, action = _action(artifact, outcomes[name], name in recent, surroundings)
        if is_pointer and action == LOAD:
            mark, action = "⊘", f"SKIP ({NOT_GIVEN['pointer']})"
        actions.append(action)
        yield from _dry_artifact(artifact, outcomes[name], mark, action, loading, result)
    count, failing = actions.count(LOAD), actions.count(FAIL)
    skipped = f"{len(actions) - count - failing} skipped"
    would_fail = f", {failing} would fail" if failing else ""
    yield f"Total: {len(actions)} artifacts ({count} would be loaded, {skipped}{would_fail})"
    yield f"Estimated context size: {kilobytes(sum(loaded['size_bytes'] for loaded in result.loaded))}"
    yield from _room_lines(result, given_bytes, "Contents that would be given")
    if loading.others:
        yield f"Not selected, for their triggers, phase or condition: {', '.join(loading.others)}"
    if failing:
        yield "The load would give the others, record no reload, and exit with code 1."


def _action(
    artifact: Artifact, outcome: Loaded | ArtifactError, is_skipped: bool, surroundings: Surroundings
) -> tuple[str, str]:
    """Return the mark and the words for what a load would do with an artifact."""
    if is_skipped:
        return "⊘", "SKIP (recently loaded)"
    if not isinstance(outcome, ArtifactError):
        is_mapped = outcome["resolved"].split()[0] in surroundings["commands"] if outcome["is_deferred"] else False
        is_asked = outcome["is_deferred"] and not is_mapped
        return ("⊘", "SKIP (deferred: the agent is asked to run it)") if is_asked else ("✓", LOAD)
    if artifact["required"]:
        return "✗", FAIL
    return "⊘", "SKIP (not found)" if outcome.is_missing else "SKIP (cannot be loaded)"


def _dry_artifact(
    artifact: Artifact, outcome: Loaded | ArtifactError, mark: str, action: str, loading: Loading, result: Reload
) -> Iterator[str]:
    is_command = artifact["type"] in COMMAND_TYPES
    yield f"  {mark} {artifact['id']}"
    yield f"    Type: {artifact['type']}"
    if is_command:
        yield f"    Command: {artifact['command'] or '-'}"
    else:
        resolved = outcome.resolved if isinstance(outcome, ArtifactError) else outcome["resolved"]
        yield f"    Path: {artifact['path'] or artifact['path_from_state'] or '-'}"
        if artifact["path_from_state"] and not artifact["path"]:
            yield f"    Path from state: {artifact['path_from_state']}"
        yield f"    Resolved: {resolved or '-'}"
    if artifact["condition"] is not None:
        yield f"    Condition: {one_line(artifact['condition'], MAX_QUOTED)}"
    yield f"    Required: {'yes' if artifact['required'] else 'no'}"
    if not is_command:
        yield f"    Exists: {'yes' if resolved is not None and os.path.exists(resolved) else 'no'}"
    if isinstance(outcome, ArtifactError):
        yield f"    Error: {outcome.message}"
    elif not outcome["is_deferred"]:
        yield f"    Size: {kilobytes(outcome['size_bytes'])}"
    known = loading.in_context.get(artifact["id"])
    earlier = " (in an earlier session)" if loading.session_id is None else ""
    yield f"    Last loaded: {ago(selection.age_of(known, loading.at)) + earlier if known is not None else 'never'}"
    yield f"    Action: {action}"
    if action == LOAD and result.given.get(artifact["id"]) == "outline":
        yield OUTLINED
    yield ""
