"""Select which of a workflow's artifacts to load, and decide which were loaded recently enough to skip."""

from __future__ import annotations

from faber_ledger.files.text import escape
from faber_ledger.ledger.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

    from faber_ledger.context.artifact import Artifact
    from faber_ledger.context.workflow import Workflow


RECENT_SECONDS = 300
MAX_PER_LIST = 200  # in a hook: some ask git, each with a process of its own
MAX_BYTES_READ = 2 * 1024 * 1024  # in a hook, of required artifacts, and as many of optional ones
HINT_LOAD_ALL = "`faber-ledger session-load` loads all"


def select(
    workflow: Workflow,
    state: dict[str, Any],
    triggers: Iterable[str],
    requested_ids: Collection[str] | None,
    warn: Callable[[str], None],
) -> list[Artifact]:
    """Return the artifacts to load, in the workflow's order, each id once (RELOAD, Step 3).

    Requested ids replace the triggers, but not a condition. Warns of conditions that cannot be evaluated, and of
    requested ids that select nothing.
    """
    full = {full_trigger(trigger, state) for trigger in triggers}
    selected: dict[str, Artifact] = {}
    for artifact in _applicable(workflow, state, warn):
        wanted = _is_triggered(artifact, full) if requested_ids is None else artifact["id"] in requested_ids
        known = selected.get(artifact["id"]) if wanted else None
        if known is not None:
            warn(f"Artifact named twice: {escape(artifact['id'])} - one is loaded, a required one if there is one")
        if wanted and (known is None or (artifact["required"] and not known["required"])):
            selected[artifact["id"]] = artifact
    if requested_ids:
        _warn_of_others(requested_ids, selected, workflow, warn)
    return list(selected.values())


def _warn_of_others(
    requested_ids: Collection[str], selected: dict[str, Artifact], workflow: Workflow, warn: Callable[[str], None]
) -> None:
    configured = list(dict.fromkeys([artifact["id"] for artifact in every_artifact(workflow)]))
    for name in dict.fromkeys(requested_ids):
        if name not in configured:
            warn(escape(f"Artifact not configured: {name} - the workflow has {', '.join(configured) or 'none'}"))
        elif name not in selected:
            warn(f"Artifact not selected: {name} - its condition does not hold, or it belongs to another phase")


def every_artifact(workflow: Workflow) -> list[Artifact]:
    """Return all artifacts of a workflow, whatever their condition or phase."""
    critical = workflow["critical_artifacts"]
    phases = [artifact for artifacts in critical["phase_specific"].values() for artifact in artifacts]
    return [*critical["always_load"], *critical["conditional_load"], *phases]


def full_trigger(trigger: str, state: dict[str, Any]) -> str:
    """Return a trigger as artifacts list it: `phase_start` alone means the state's current phase."""
    return f"phase_start:{state.get('current_phase')}" if trigger == "phase_start" else trigger


def recorded_trigger(trigger: str) -> str:
    """Return a trigger as a load records it, without the phase it names (AGENT, Step 7)."""
    return trigger.partition(":")[0]


def is_recent(load_entry: Mapping[str, object] | None, now_seconds: float) -> bool:
    """Return whether a load is less than five minutes old (RELOAD, Step 3).

    One from the future, or without a readable time, is not recent.
    """
    age = age_of(load_entry, now_seconds)
    return age is not None and 0 <= age < RECENT_SECONDS


def age_of(load_entry: Mapping[str, object] | None, now_seconds: float) -> float | None:
    """Return the seconds since an entry was loaded; negative if that is to come, None if its time is unreadable."""
    loaded_at = seconds_of(load_entry.get("loaded_at")) if load_entry is not None else None
    return None if loaded_at is None else now_seconds - loaded_at


def is_current(
    load_entry: Mapping[str, object] | None, now_seconds: float, sha256: str | None, last_sha256: str | None
) -> bool:
    """Return whether a load need not be repeated: it is recent, and its content is not known to have changed since."""
    changed = sha256 is not None and last_sha256 is not None and sha256 != last_sha256
    return is_recent(load_entry, now_seconds) and not changed


def _applicable(workflow: Workflow, state: dict[str, Any], warn: Callable[[str], None]) -> list[Artifact]:
    critical = workflow["critical_artifacts"]
    conditional = [artifact for artifact in critical["conditional_load"] if _holds(artifact, state, warn)]
    phase = state.get("current_phase")
    of_phase = critical["phase_specific"].get(phase, []) if isinstance(phase, str) else []
    return [*critical["always_load"], *conditional, *of_phase]


def _holds(artifact: Artifact, state: dict[str, Any], warn: Callable[[str], None]) -> bool:
    condition = artifact["condition"]
    if condition is None:
        return True
    from faber_ledger.context.conditions import ConditionError, evaluate  # most artifacts have none

    try:
        if not isinstance(condition, str):
            raise ConditionError(condition)
        return evaluate(condition, state)
    except ConditionError as error:
        part = f"\n   Not understood: {error.part}" if error.part else ""
        warn(f"{escape(str(error))}\n   Artifact: {escape(artifact['id'])}{part}")
        return False


def _is_triggered(artifact: Artifact, triggers: set[str]) -> bool:
    """Return whether an artifact lists one of the triggers; without a list, every trigger loads it (AGENT, Step 4)."""
    listed = artifact["reload_triggers"]
    return listed is None or "manual" in triggers or not triggers.isdisjoint(listed)


def limit_for_hook(workflow: Workflow, state: dict[str, Any], warn: Callable[[str], None]) -> Workflow:
    """Return a workflow with only the state's current phase and at most MAX_PER_LIST artifacts in each list.

    Of a longer list the required artifacts are kept first, with a warning.
    """

    def first(artifacts: list[Artifact], place: str) -> list[Artifact]:
        if len(artifacts) <= MAX_PER_LIST:
            return artifacts
        warn(
            f"⚠️ WARNING: {escape(place)} names {len(artifacts):,} artifacts, and a hook loads at most {MAX_PER_LIST} of"
            f" them, required ones first; {HINT_LOAD_ALL}"
        )
        return sorted(artifacts, key=lambda artifact: not artifact["required"])[:MAX_PER_LIST]

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
