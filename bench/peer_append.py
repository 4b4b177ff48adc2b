"""Append one event with the `eventsourcing` library, in a process of its own. Arguments: its database, the run's id.

If there is no database, make it with a run of three events, and print the run's id.
"""

from __future__ import annotations

import os
import sys
from uuid import UUID

from peer_log import Run, open_runs, save_events

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
    """Append the event, or make the database."""
    path = sys.argv[1]
    if not os.path.exists(path):
        print(save_events(path, iter([RECORDED] * 3)))
        return
    runs = open_runs(path)
    run = runs.repository.get(UUID(sys.argv[2]))
    run.trigger_event(Run.Happened, recorded=RECORDED)
    runs.save(run)
    runs.close()


if __name__ == "__main__":
    main()
