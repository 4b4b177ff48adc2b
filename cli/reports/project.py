"""Project a run, after the deliveries that wait have been recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from faber_ledger.ledger.clock import now
from faber_ledger.recording.recording import drain_waiting
from faber_ledger.runs.projecting import reproject, restore_backup
from faber_ledger.runs.state_file import read_backup
from faber_ledger.runs.state_merge import is_complete

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.runs.run import Run


def project_run(run: Run, *, rebuild: bool, restore: bool, warn: Callable[[str], None]) -> dict[str, Any]:
    """Write a run's blocks, restoring a backup first if needed, and return the outcome; raises as `reproject`."""
    missing = not os.path.lexists(run.state_path)
    backup = read_backup(run) if missing else None
    if restore or (backup is not None and is_complete(backup[1].value)):  # the log alone has only our blocks
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
