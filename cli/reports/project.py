"""Project a run, after what is not in its log yet has been recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from faber_ledger.ledger.clock import now
from faber_ledger.recording.recording import record_before_projecting
from faber_ledger.runs import state_write
from faber_ledger.runs.conflicts import check_not_in_conflict
from faber_ledger.runs.log import read_log
from faber_ledger.runs.projecting import reproject, restore_backup
from faber_ledger.runs.publish import why_not_published
from faber_ledger.runs.run import Run
from faber_ledger.runs.tree_note import TreeNote


def project_run(run: Run, *, rebuild: bool, restore: bool, warn: Callable[[str], None]) -> dict[str, Any]:
    """Write a run's blocks, restoring a backup first if needed, and return the outcome; raises as `reproject`.

    Raises StateInvalid, too, for a state in conflict: a projection or a backup would lose one side's keys.
    """
    check_not_in_conflict(run)
    missing = not os.path.lexists(run.state_path)
    if restore:
        used, has_events = restore_backup(run, warn=warn)
        if has_events:
            record_before_projecting(run, now(), warn=warn)
            reproject(run, rebuild=True, warn=warn)
        name = os.path.basename(used)
        return {"run_id": run.run_id, "outcome": "restored", "backup": name, "projected": has_events}
    record_before_projecting(run, now(), warn=warn)
    result = reproject(run, rebuild=rebuild, warn=warn, defaults={})
    if result.source is not None:
        return {"run_id": run.run_id, "outcome": "restored", "backup": result.source, "projected": True}
    if missing:
        return {"run_id": run.run_id, "outcome": "made", "unknown": result.unknown}
    if result.is_changed:
        return {"run_id": run.run_id, "outcome": "written"}
    with read_log(run) as log:
        state = state_write.read_known(run)
        why = None if state.shows(log) else why_not_published(run, state.value, TreeNote(run), log, on_purpose=rebuild)
    if why is not None:
        return {"run_id": run.run_id, "outcome": "not_published", "why": why}
    return {"run_id": run.run_id, "outcome": "unchanged"}
