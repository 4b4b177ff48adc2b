"""Time the rebuild of a run's blocks here and with the `eventsourcing` library. Arguments: ledger, folder, rounds.

Prints the seconds of each round as JSON, each with its processor time:
{"fold": [[...]], "rebuild": [[...]], "aggregate": [[...]], "notifications": [[...]]}. "fold" checks no
hashes, since the library has none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from peer_log import fold_aggregate, fold_notifications, save_events
from rebuild import rebuild
from union import clocks, since

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold


def fold_stream(ledger: str) -> dict[str, Any]:
    """Fold the log's stream, as a hook does when the checkpoint does not match."""
    with Log.read(ledger) as log:
        return dict(fold(log.stream()))


def main() -> None:
    """Copy the events, check that all fold to the same blocks, run all in turn, and print how long each took."""
    ledger, path, rounds = sys.argv[1], Path(sys.argv[2]) / "peer.db", int(sys.argv[3])
    path.unlink(missing_ok=True)
    with Log.read(ledger) as log:
        run_id = save_events(path, log.stream())
    if not fold_stream(ledger) == rebuild(ledger) == fold_aggregate(path, run_id) == fold_notifications(path):
        raise SystemExit("they fold to different blocks")
    seconds: dict[str, list[list[float]]] = {"aggregate": [], "notifications": [], "fold": [], "rebuild": []}
    for _ in range(rounds):
        for name, run in (
            ("aggregate", lambda: fold_aggregate(path, run_id)),
            ("notifications", lambda: fold_notifications(path)),
            ("fold", lambda: fold_stream(ledger)),
            ("rebuild", lambda: rebuild(ledger)),
        ):
            start = clocks()
            run()
            seconds[name].append(since(start))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
