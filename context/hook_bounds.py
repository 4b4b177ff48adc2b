"""How much a session's start looks at, whatever a workflow names: a hook must not be felt; a command reads the rest."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from faber_ledger.context.artifacts import Artifact
    from faber_ledger.context.workflow import Workflow

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
