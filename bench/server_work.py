"""What a client does with a team's server, timed. Arguments: what to do, the server's URL, a project, and the rest.

`push` LEDGER=RUN … pushes ledgers as runs, as `sync` does. `copy` LEDGER=RUN … copies the same rows into the same table
with one COPY, as its owner, with the same triggers and indexes; the rows are in memory before. Both wait for a line on
standard input once they are connected, and print when they began, how long they took, and their processor's time: in
seconds, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
from union import clocks, since

from faber_ledger.ledger.encoding import COLUMNS
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.union import rows_of
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.exchange import push_events
from faber_ledger.postgres.server import open_server

if TYPE_CHECKING:
    from typing import Any


TYPES = [
    "text",
    "text",
    "int8",
    "int8",
    "text",
    "text",
    "int4",
    *["text"] * 4,
    "bytea",
    "bytea",
    "text",
    *["bytea"] * 2,
]


def push(url: str, project: str, runs: dict[str, str]) -> list[float]:
    """Push each ledger as a run, one after the other."""
    with open_server(Address(parse_url(url, "the URL")), writing=True) as server:
        start = wait()
        for run_id, path in runs.items():
            with Log.read(path) as log:
                found = push_events(server, project, run_id, rows_of(log), lambda count: None)
            if found.conflicts:
                raise SystemExit(f"{run_id} has conflicts")
        return [start[0], *since(start)]


def copy_rows(url: str, project: str, runs: dict[str, str]) -> list[float]:
    """Copy all rows of the ledgers in one transaction."""
    rows: list[tuple[Any, ...]] = []
    first = os.getpid() * 10_000_000  # of positions that no other process has
    for run_id, path in runs.items():
        with Log.read(path) as log:
            rows += [(project, run_id, first + len(rows) + number, *row) for number, row in enumerate(rows_of(log))]
    with closing(psycopg.connect(url)) as connection:
        start = wait()
        statement = (
            f"COPY faber_ledger.event (project, run_id, position, {', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)"
        )
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.set_types(TYPES)
            for row in rows:
                copy.write_row(row)
        connection.commit()
        return [start[0], *since(start)]


def wait() -> tuple[float, float]:
    """Say that everything is ready, wait for a line, and return the clocks."""
    print("ready", flush=True)
    sys.stdin.readline()
    return clocks()


def main() -> None:
    """Do what is asked, and print how long it took."""
    what, url, project, *named = sys.argv[1:]
    runs = {run_id: path for path, _, run_id in (one.partition("=") for one in named)}
    print(json.dumps({"push": push, "copy": copy_rows}[what](url, project, runs)))


if __name__ == "__main__":
    main()
