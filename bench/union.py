"""Time the union of two logs against a plain copy of its result. Arguments: a ledger, a folder, rounds.

Each log is a copy of the ledger with 500 more events. Prints the seconds of each round as JSON, each with its processor
time: {"union": [[...]], "copy": [[...]]}.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import time
from pathlib import Path

from long_log import BEGIN, drafts

from faber_ledger.ledger.encoding import INSERT
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of, write_union

APART = 500


def main() -> None:
    """Make the two logs, unite and copy in turn, and print how long each took."""
    ledger, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    sides = [str(folder / name) for name in ("ours.db", "theirs.db")]
    for number, side in enumerate(sides):
        shutil.copyfile(ledger, side)
        with Log.open(side) as log:
            log.append(itertools.islice(drafts(), APART), at=BEGIN, writer=f"{number:032x}")
            log.commit()
    united, copied = str(folder / "united.db"), folder / "copied.db"
    seconds: dict[str, list[list[float]]] = {"union": [], "copy": []}
    for _ in range(rounds):
        start = clocks()
        write_union(sides, united)
        seconds["union"].append(since(start))
        copied.unlink(missing_ok=True)
        start = clocks()
        with Log.read(united) as source, Log.open(str(copied)) as log:
            log.connection.executemany(INSERT, rows_of(source))
            log.commit()
        seconds["copy"].append(since(start))
    print(json.dumps(seconds))


def clocks() -> tuple[float, float]:
    """Return the time, and the processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> list[float]:
    """Return how much of both has passed since `start`."""
    return [now - then for now, then in zip(clocks(), start, strict=True)]


if __name__ == "__main__":
    main()
