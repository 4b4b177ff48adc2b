"""Which of a workflow's artifacts a reload is about, and which of them were loaded a short while ago."""

from __future__ import annotations

from faber_ledger.ledger.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from faber_ledger.context.artifact import Artifact
    from faber_ledger.context.workflow import Workflow


RECENT_SECONDS = 300


def select(
    workflow: Workflow,
    state: dict[str, Any],
    triggers: Iterable[str],
    requested_ids: Collection[str] | None,
    on_warning: Callable[[str], None],
) -> list[Artifact]:
    """Give the artifacts to load, in the workflow's order, each id once (RELOAD, Step 3).

    Requested ids stand in the place of the triggers, never of a condition. Conditions that cannot be evaluated and
    requested ids that select nothing are told to `on_warning`.
    """
    whole = {whole_trigger(trigger, state) for trigger in triggers}
    selected: dict[str, Artifact] = {}
    for artifact in _applicable(workflow, state, on_warning):
        wanted = _is_triggered(artifact, whole) if requested_ids is None else artifact["id"] in requested_ids
        if wanted:
            selected.setdefault(artifact["id"], artifact)
    configured = {artifact["id"] for artifact in every_artifact(workflow)}
    for name in dict.fromkeys(requested_ids or ()):
        if name not in configured:
            on_warning(f"Artifact not configured: {name}")
        elif name not in selected:
            on_warning(f"Artifact not selected: {name} - its condition does not hold, or it belongs to another phase")
    return list(selected.values())


def every_artifact(workflow: Workflow) -> list[Artifact]:
    """Give all artifacts of a workflow, whatever their condition or phase."""
    critical = workflow["critical_artifacts"]
    phases = [artifact for artifacts in critical["phase_specific"].values() for artifact in artifacts]
    return [*critical["always_load"], *critical["conditional_load"], *phases]


def whole_trigger(trigger: str, state: dict[str, Any]) -> str:
    """Give a trigger as artifacts list it: a bare `phase_start` is about the state's current phase."""
    return f"phase_start:{state.get('current_phase')}" if trigger == "phase_start" else trigger


def recorded_trigger(trigger: str) -> str:
    """Give a trigger as a load records it, without the phases it names (AGENT, Step 7)."""
    return trigger.partition(":")[0]


def is_recent(load_entry: dict[str, Any] | None, now_seconds: float) -> bool:
    """Tell whether an entry of `artifacts_in_context` is less than five minutes old (RELOAD, Step 3).

    An entry from the future, or without a readable time, says nothing and is not recent.
    """
    age = _age(load_entry, now_seconds)
    return age is not None and 0 <= age < RECENT_SECONDS


def minutes_since(load_entry: dict[str, Any] | None, now_seconds: float) -> int | None:
    """Give the whole minutes since an entry was loaded; None if its time cannot be read or is still to come."""
    age = _age(load_entry, now_seconds)
    return None if age is None or age < 0 else int(age // 60)


def is_current(
    load_entry: dict[str, Any] | None, now_seconds: float, sha256: str | None, last_sha256: str | None
) -> bool:
    """Tell whether a load need not be repeated: it is recent, and the content is not known to have changed since."""
    changed = sha256 is not None and last_sha256 is not None and sha256 != last_sha256
    return is_recent(load_entry, now_seconds) and not changed


def _applicable(workflow: Workflow, state: dict[str, Any], on_warning: Callable[[str], None]) -> list[Artifact]:
    critical = workflow["critical_artifacts"]
    conditional = [artifact for artifact in critical["conditional_load"] if _holds(artifact, state, on_warning)]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase, []) if isinstance(phase, str) else []
    return [*critical["always_load"], *conditional, *of_phase]


def _holds(artifact: Artifact, state: dict[str, Any], on_warning: Callable[[str], None]) -> bool:
    condition = artifact["condition"]
    if condition is None:
        return True
    from faber_ledger.context.conditions import ConditionError, evaluate  # most artifacts have none

    try:
        if not isinstance(condition, str):
            raise ConditionError(condition)
        return evaluate(condition, state)
    except ConditionError as error:
        on_warning(str(error))
        return False


def _is_triggered(artifact: Artifact, triggers: set[str]) -> bool:
    """Tell whether an artifact lists one of the triggers; one without a list is loaded by each (AGENT, Step 4)."""
    listed = artifact["reload_triggers"]
    return listed is None or "manual" in triggers or not triggers.isdisjoint(listed)


def _age(load_entry: dict[str, Any] | None, now_seconds: float) -> float | None:
    loaded_at = seconds_of(load_entry.get("loaded_at")) if load_entry is not None else None
    return None if loaded_at is None else now_seconds - loaded_at


MOST_OF_A_LIST = 200  # artifacts: some ask git, each a process of its own
MOST_READ = 2 * 1024 * 1024  # bytes after which no other artifact is read, of required ones, and of optional ones
ASK = "`faber-ledger session-load` loads all"


def bounded(workflow: Workflow, state: dict[str, Any], on_warning: Callable[[str], None]) -> Workflow:
    """Give a workflow with at most MOST_OF_A_LIST artifacts in each list, the required ones first, and of one phase.

    It is the state's current one. That some artifacts were left out is told to `on_warning`.
    """

    def first(artifacts: list[Artifact], place: str) -> list[Artifact]:
        if len(artifacts) <= MOST_OF_A_LIST:
            return artifacts
        on_warning(
            f"⚠️ WARNING: {place} names {len(artifacts):,} artifacts, and a hook loads at most {MOST_OF_A_LIST} of them,"
            f" required ones first; {ASK}"
        )
        return sorted(artifacts, key=lambda artifact: not artifact["required"])[:MOST_OF_A_LIST]

    critical = workflow["critical_artifacts"]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase) if isinstance(phase, str) else None
    return {
        **workflow,
        "critical_artifacts": {
            "always_load": first(critical["always_load"], "always_load"),
            "conditional_load": first(critical["conditional_load"], "conditional_load"),
            "phase_specific": {phase: first(of_phase, f"phase_specific.{phase}")} if phase and of_phase else {},
        },
    }
