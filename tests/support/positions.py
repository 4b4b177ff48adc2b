"""Positions of runs that are nowhere on a disk, and artifacts for their packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faber_ledger.context.position import render_position
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from faber_ledger.context.body import Part
    from faber_ledger.context.position import Position


def position_of(run_id: str, state: dict[str, Any], **more: Any) -> Position:
    """Return the position of a run with a state."""
    return render_position(Run("/nowhere", run_id, f"/nowhere/.fractary/runs/{run_id}"), state, **more)


def part(name: str, content: str, **more: Any) -> Part:
    """Return an artifact with this content, as a packet has it."""
    whole: Any = {"artifact_id": name, "description": "", "source": f"docs/{name}.md", "required": False}
    whole |= {"size_bytes": len(content.encode("utf-8", "surrogatepass")), "content": content, **more}
    made: Part = whole
    return made
