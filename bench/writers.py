"""Let many processes append to one run at once. Arguments: a folder, the number of writers, and of appends per writer.

Prints {"lost": ..., "doubled": ..., "p99": ..., "longest": ...}; the last two are the seconds from asking for the
lock until the event is durable. A writer is this script with its number as a fourth argument; it prints its seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from faber_ledger.ledger.clock import now
from faber_ledger.ledger.disk import RunLock
from faber_ledger.ledger.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from faber_ledger.ledger.events import Draft

SECONDS = 10.0


def append_notes(folder: str, writer: int, appends: int) -> list[float]:
    """Append one event after another, each durably under the lock; return how long each took."""
    seconds = []
    for number in range(appends):
        text = f"{writer} {number}"
        note: Draft = {"event": {"type": "note_recorded", "kind": "note", "text": text, "phase": None, "step": None}}
        start = time.perf_counter()
        with RunLock(f"{folder}/ledger.lock", SECONDS), Log.open(f"{folder}/ledger.db") as log:
            log.append([note], at=now(), writer=f"{writer:032x}")
            log.commit()
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    """Start all writers at once, and print the result."""
    folder, writers, appends = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4:]:
        print(flush=True)  # the imports are done
        sys.stdin.read()  # until all writers are ready
        print(json.dumps(append_notes(folder, int(sys.argv[4]), appends)))
        return
    command = [sys.executable, *sys.argv]
    running = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for number in range(writers)
    ]
    for process in running:
        if process.stdout:
            process.stdout.readline()
    for process in running:
        if process.stdin:
            process.stdin.close()
    seconds = sorted(
        took for process in running for took in json.loads(process.stdout.read() if process.stdout else b"")
    )
    for process in running:
        process.wait()
    with Log.read(f"{folder}/ledger.db") as log:
        texts = [one["event"]["text"] for one in log.stream() if one["event"]["type"] == "note_recorded"]
    wanted = {f"{writer} {number}" for writer in range(writers) for number in range(appends)}
    print(
        json.dumps(
            {
                "lost": len(wanted - set(texts)),
                "doubled": len(texts) - len(set(texts)),
                "p99": seconds[min(len(seconds) * 99 // 100, len(seconds) - 1)],
                "longest": seconds[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
