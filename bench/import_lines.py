"""Import JSON lines, and put the same rows into a ledger with a plain loop, in turn. Arguments: ledger, folder, rounds.

Prints the seconds of each round as JSON, each with its processor time: "import" is the lines checked, staged and taken
into a new log; "loop" reads the same lines with `json.loads`, checks nothing, and hands the rows to one `executemany`;
"rows" is the `executemany` alone, of rows that are in memory. Each row of these two goes past the index and the trigger
that every append meets; the import makes both once its rows are in.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from union import clocks, since

from faber_ledger.ledger.canonical import canonical
from faber_ledger.ledger.exchange import BINARY, lines_of
from faber_ledger.ledger.importing import Staged, raise_problems
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import INSERT
from faber_ledger.ledger.union import insert_rows
from faber_ledger.schemas.events import are_events, check_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


def imported(lines: Path, path: Path) -> None:
    """Take the lines in as the command does."""
    with lines.open("rb") as file, closing(Staged(file, check_event, are_events)) as staged:
        raise_problems(staged.problems, str(lines))
        raise_problems(staged.problems_with(None), str(lines))
        with Log.open(str(path)) as log:
            insert_rows(log, staged.missing_in(log))
            log.commit()


def inserted(rows: Iterable[tuple[Any, ...]], path: Path) -> None:
    """Put rows into a new ledger."""
    with Log.open(str(path)) as log:
        log.connection.executemany(INSERT, rows)
        log.commit()


def rows_in(lines: Path) -> Iterator[tuple[Any, ...]]:
    """Read the lines as rows, and believe everything."""
    with lines.open("rb") as file:
        for line in file:
            event = json.loads(line)
            event["parents"] = "".join(event["parents"])
            for name in BINARY:
                event[name] = bytes.fromhex(event[name]) if event[name] is not None else None
            event["payload"] = canonical(event["payload"])
            yield tuple(event.values())


def main() -> None:
    """Export, run all in turn, and print how long each took."""
    ledger, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    lines, path = folder / "events.jsonl", folder / "imported.db"
    with Log.read(ledger) as log, lines.open("wb") as file:
        file.writelines(lines_of(log))
    rows = list(rows_in(lines))
    seconds: dict[str, list[list[float]]] = {"rows": [], "loop": [], "import": []}
    for _ in range(rounds):
        for name, done in (
            ("rows", lambda: inserted(rows, path)),
            ("loop", lambda: inserted(rows_in(lines), path)),
            ("import", lambda: imported(lines, path)),
        ):
            path.unlink(missing_ok=True)
            start = clocks()
            done()
            seconds[name].append(since(start))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
