"""Project a run, after the deliveries that wait have been recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.projecting import reproject, restore_backup

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


def project_run(run: Run, *, rebuild: bool, restore: bool, warn: Callable[[str], None]) -> dict[str, Any]:
    """Write a run's blocks, restoring a backup first if needed, and return the outcome; raises as `reproject`."""
    missing = not os.path.lexists(run.state_path)
    if restore:
        used, is_projected = restore_backup(run, warn=warn)
        name = os.path.basename(used)
        return {"run_id": run.run_id, "outcome": "restored", "backup": name, "projected": is_projected}
    drain_waiting(run, now(), warn=warn)
    result = reproject(run, rebuild=rebuild, warn=warn, defaults={})
    if result.source is not None:
        return {"run_id": run.run_id, "outcome": "restored", "backup": result.source, "projected": True}
    if missing:
        return {"run_id": run.run_id, "outcome": "made", "unknown": result.unknown}
    return {"run_id": run.run_id, "outcome": "written" if result.is_changed else "unchanged"}
