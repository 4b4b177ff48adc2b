"""Where a run goes on (RECON, 0.7 Determine Resume Point)."""

from __future__ import annotations

from faber_ledger.context.state_values import current_phase, current_step, phase_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class ResumePoint(TypedDict):
        """A place in the workflow and how it is entered: after_feedback, continue, retry or start."""

        phase: str | None
        step: str | None
        mode: str


def resume_point(state: dict[str, Any]) -> ResumePoint | None:
    """Tell where a run goes on; None where there is nothing to resume."""
    status, phase, step = state.get("status"), current_phase(state), current_step(state)
    if status == "awaiting_feedback":
        point = _member(_member(state, "feedback_request"), "resume_point") or _member(state, "resume_point")
        return {"phase": _text(point, "phase"), "step": _text(point, "step"), "mode": "after_feedback"}
    if status in ("in_progress", "paused"):
        return {"phase": phase, "step": step, "mode": "continue"}
    if status == "failed":
        failed = _text(phase_state(state, phase), "failed_step")
        return {"phase": phase, "step": failed or step, "mode": "retry"}
    if status == "pending":
        return {"phase": "frame", "step": None, "mode": "start"}
    return None


def _member(value: Any, name: str | None) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any, name: str) -> str | None:
    found = _member(value, name)
    return found if isinstance(found, str) else None
