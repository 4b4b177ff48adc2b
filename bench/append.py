"""One durable append in a process of its own: lock, append with a hash link, commit. Argument: the run's folder."""

from __future__ import annotations

import sys

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Draft

folder = sys.argv[1]
draft: Draft = {
    "event": {
        "type": "artifact_loaded",
        "session_id": "claude-session-20260105-143022-a1b2c3",
        "artifact_id": "specification",
        "trigger": "manual",
        "source": "specs/WORK-00258.md",
        "size_bytes": 2048,
        "sha256": "0" * 64,
        "given": "inline",
    }
}
with RunLock(folder + "/ledger.lock", 10.0), Log.open(folder + "/ledger.db") as log:
    log.append([draft], at=now(), writer="0" * 32)
    log.commit()
