"""One append in a process of its own, with the `eventsourcing` library. Arguments: its database, the run's id.

The database and a run of a few events are made where there is none: then the id is printed.
"""

from __future__ import annotations

import os
import sys
from uuid import UUID

from peer_log import Run, filled, runs_in

EVENT = {
    "type": "artifact_loaded",
    "session_id": "claude-session-20260105-143022-a1b2c3",
    "artifact_id": "specification",
    "trigger": "manual",
    "source": "specs/WORK-00258.md",
    "size_bytes": 2048,
    "sha256": "0" * 64,
    "given": "inline",
}
RECORDED = {"version": 1, "at": "2026-01-05T14:30:22Z", "event": EVENT}


def main() -> None:
    """Append."""
    path = sys.argv[1]
    if not os.path.exists(path):
        print(filled(path, iter([RECORDED] * 3)))
        return
    runs = runs_in(path)
    run = runs.repository.get(UUID(sys.argv[2]))
    run.trigger_event(Run.Happened, recorded=RECORDED)
    runs.save(run)
    runs.close()


if __name__ == "__main__":
    main()
