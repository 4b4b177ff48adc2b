"""A value of a state, named as the documents name one: `artifacts.spec_path`, `state.work_id`, `$.phases[0].name`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value_at(state: dict[str, Any], path: str) -> Any:
    """Give the value at a path; None where a step of it is missing (SPEC, section 1: path_from_state)."""
    steps = path.strip().replace("[", ".").replace("]", "").split(".")
    if steps[0] in {"state", "$"}:
        del steps[0]
    value: Any = state
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value
