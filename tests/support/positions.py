"""Positions of runs that are nowhere on a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faber_ledger.context.position import render_position
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.context.position import Position


def position_of(run_id: str, state: dict[str, Any], **more: Any) -> Position:
    """Return the position of a run with a state."""
    return render_position(Run("/nowhere", run_id, f"/nowhere/.fractary/runs/{run_id}"), state, **more)
