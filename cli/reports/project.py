"""Project a run, with the deliveries that wait taken in first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from faber_ledger.cli.ui.output import say
from faber_ledger.ledger.clock import now
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.projecting import reproject, restore_backup
from faber_ledger.runs.state_file import read_backup
from faber_ledger.runs.state_merge import is_whole

if TYPE_CHECKING:
    from faber_ledger.runs.run import Run


def written(run: Run, *, rebuild: bool, restore: bool) -> dict[str, Any]:
    """Write a run's blocks, or put a backup back first, and tell what came of it; raises as `reproject`."""
    missing = not os.path.lexists(run.state_path)
    backup = read_backup(run) if missing else None
    if restore or (backup is not None and is_whole(backup[1].value)):  # the log alone makes a poor state
        name, is_projected = restore_backup(run, warn=say)
        return {"run_id": run.run_id, "outcome": "restored", "backup": name, "projected": is_projected}
    drain_waiting(run, now(), warn=say)
    changed, source, unknown = reproject(run, rebuild=rebuild, warn=say, made={})
    if source is not None:
        return {"run_id": run.run_id, "outcome": "restored", "backup": source, "projected": True}
    if missing:
        return {"run_id": run.run_id, "outcome": "made", "unknown": unknown}
    return {"run_id": run.run_id, "outcome": "written" if changed else "unchanged"}
