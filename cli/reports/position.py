"""Where a run stands, as commands print it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faber_ledger.context.position import place_of
from faber_ledger.files.text import one_line
from faber_ledger.runs.progress import current_phase, current_step, phases_completed, resume_point

MAX_LINE = 200


def position_lines(state: dict[str, Any]) -> Iterator[str]:
    """Yield what a state says of the run, a fact on each line."""
    point = resume_point(state)
    facts = {
        "Work item": state.get("work_id"),
        "Target": state.get("target"),
        "Workflow": state.get("workflow_id"),
        "Status": state.get("status"),
        "Phase": current_phase(state),
        "Step": current_step(state),
        "Phases completed": ", ".join(phases_completed(state)),
        "Resume point": f"{place_of(point) or 'unknown'} ({point['mode']})" if point else None,
    }
    yield from (one_line(f"{name}: {value}", MAX_LINE) for name, value in facts.items() if value not in (None, ""))
