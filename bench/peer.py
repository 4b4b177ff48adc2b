"""Rebuild a run's blocks here and with the `eventsourcing` library, in turn. Arguments: ledger, folder, rounds.

Prints the seconds of each round as JSON, each with its processor time:
{"fold": [[...]], "rebuild": [[...]], "aggregate": [[...]], "notifications": [[...]]}. "fold" is the log's own stream,
whose hashes nobody looks at, as the library has none to look at.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from peer_log import filled, notified, replayed
from rebuild import rebuilt
from union import clocks, since

from faber_ledger.ledger.log import Log
from faber_ledger.projections.fold import fold


def folded(ledger: str) -> dict[str, Any]:
    """Fold the log's stream, as a hook does whose state.json shows another log."""
    with Log.read(ledger) as log:
        return dict(fold(log.stream()))


def main() -> None:
    """Copy the events, see that all fold to the same, run all in turn, and print how long each took."""
    ledger, path, rounds = sys.argv[1], Path(sys.argv[2]) / "peer.db", int(sys.argv[3])
    path.unlink(missing_ok=True)
    with Log.read(ledger) as log:
        run_id = filled(path, log.stream())
    if not folded(ledger) == rebuilt(ledger) == replayed(path, run_id) == notified(path):
        raise SystemExit("they fold to different blocks")
    seconds: dict[str, list[list[float]]] = {"aggregate": [], "notifications": [], "fold": [], "rebuild": []}
    for _ in range(rounds):
        for name, done in (
            ("aggregate", lambda: replayed(path, run_id)),
            ("notifications", lambda: notified(path)),
            ("fold", lambda: folded(ledger)),
            ("rebuild", lambda: rebuilt(ledger)),
        ):
            start = clocks()
            done()
            seconds[name].append(since(start))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
