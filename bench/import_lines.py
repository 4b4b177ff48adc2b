"""Time the import of JSON lines against a plain loop with the same rows. Arguments: ledger, folder, rounds.

Prints the seconds of each round as JSON, each with its processor time. "import" checks and stages the lines and inserts
them into a new log; "loop" reads the same lines with `json.loads`, checks nothing, and passes the rows to one
`executemany`; "rows" is that `executemany` alone, with rows in memory. These two update the index and fire the trigger
for every row; the import creates both after its rows are inserted.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from union import clocks, since

from faber_ledger.ledger.encoding import INSERT, canonical
from faber_ledger.ledger.importing import BINARY, Staged, line_of, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import Passing, insert_rows, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


def import_lines(lines: Path, path: Path) -> None:
    """Import the lines as the command does."""
    with lines.open("rb") as file, closing(Staged(file)) as staged:
        raise_problems(staged.problems, str(lines))
        with Log.open(str(path)) as log:
            insert_rows(log, Passing([staged.log], log))
            log.commit()


def insert(rows: Iterable[tuple[Any, ...]], path: Path) -> None:
    """Insert rows into a new ledger."""
    with Log.open(str(path)) as log:
        log.connection.executemany(INSERT, rows)
        log.commit()


def rows_in(lines: Path) -> Iterator[tuple[Any, ...]]:
    """Read the lines as rows, without a check."""
    with lines.open("rb") as file:
        for line in file:
            event = json.loads(line)
            event["parents"] = "".join(event["parents"])
            for name in BINARY:
                event[name] = bytes.fromhex(event[name]) if event[name] is not None else None
            event["payload"] = canonical(event["payload"])
            yield tuple(event.values())


def main() -> None:
    """Export, run all three in turn, and print how long each took."""
    ledger, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    lines, path = folder / "events.jsonl", folder / "imported.db"
    with Log.read(ledger) as log, lines.open("wb") as file:
        file.writelines(map(line_of, rows_of(log)))
    rows = list(rows_in(lines))
    seconds: dict[str, list[list[float]]] = {"rows": [], "loop": [], "import": []}
    for _ in range(rounds):
        for name, run in (
            ("rows", lambda: insert(rows, path)),
            ("loop", lambda: insert(rows_in(lines), path)),
            ("import", lambda: import_lines(lines, path)),
        ):
            path.unlink(missing_ok=True)
            start = clocks()
            run()
            seconds[name].append(since(start))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
