"""Deliveries that wait in a clone's inbox, as hooks leave them that could not record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now
from faber_ledger.recording import inbox
from faber_ledger.recording.call import Call
from faber_ledger.recording.incoming import arrival_of
from faber_ledger.runs import state_file
from faber_ledger.runs.layouts import find_run
from faber_ledger.runs.run import Run

if TYPE_CHECKING:
    from support.project import Project


def waiting(project: Project, run_id: str | None = None) -> list[Path]:
    """Return the files of the deliveries to a project's run that no living hook holds."""
    return [Path(path) for path in inbox.list_waiting(find_run(str(project.root), run_id or project.run_id))]


def leave(run: Run, hook: str = "SessionEnd", content: bytes = b'{"reason": "other"}', **changes: Any) -> Path:
    """Leave a delivery in a run's inbox, as its hook does when it is killed, and return its file."""
    state = state_file.read_state(run).value
    arrival = arrival_of(Call(hook, content, {}), run, now(), state, None, has_summaries_in_git=True)
    arrival |= changes  # type: ignore[typeddict-item]  # also what no hook writes
    _, file = inbox.put(run, arrival)
    file.close()
    return Path(file.path)
