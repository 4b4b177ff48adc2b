"""Time the rebuild of a run's blocks against a plain loop over the same file. Arguments: ledger, rounds.

Prints the seconds of each round as JSON, each with its processor time:
{"rebuild": [[...]], "raw": [[...]]}.
"""

from __future__ import annotations

import json
import sqlite3
import sys

from union import clocks, since

from faber_ledger.ledger.log import Log
from faber_ledger.ledger.verify import read_verified
from faber_ledger.projections.fold import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

RAW = "SELECT payload, type, session_id, version, at FROM event ORDER BY seq, id"


def rebuild(path: str) -> dict[str, Any]:
    """Fold the log and check every hash, as `project --rebuild` does."""
    with Log.read(path) as log:
        return fold(read_verified(log))


def fold_raw(path: str) -> dict[str, Any]:
    """Fold the payloads and check nothing: the least that any reader of the file must do."""
    connection = sqlite3.connect(path)
    try:
        return fold(_payloads(connection))
    finally:
        connection.close()


def _payloads(connection: sqlite3.Connection) -> Iterator[Any]:
    for payload, kind, session_id, version, at in connection.execute(RAW):
        event = json.loads(payload)
        event["type"] = kind
        event["session_id"] = session_id
        yield {"version": version, "at": at, "event": event}


def main() -> None:
    """Run both in turn and print how long each took."""
    path, rounds = sys.argv[1], int(sys.argv[2])
    if rebuild(path) != fold_raw(path):
        raise SystemExit("the loops fold to different blocks")
    seconds: dict[str, list[list[float]]] = {"rebuild": [], "raw": []}
    for _ in range(rounds):
        for name, loop in (("raw", fold_raw), ("rebuild", rebuild)):
            start = clocks()
            loop(path)
            seconds[name].append(since(start))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
