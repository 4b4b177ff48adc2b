"""Ask a server each question of the program, and print how its tables are read. Arguments: URLs of admin and member.

The member sees the projects MANY_RUNS and LONG_RUN. Prints JSON: of each question the indexes that were used, and the
tables that were read whole, as the server has counted them: {"question": ["event_run", …]}.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg

from faber_ledger.files.word_query import parse_query
from faber_ledger.postgres import exchange, fleet, project, search
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MANY_RUNS, LONG_RUN = "01K7AAAAAAAAAAAAAAAAAAAAAA", "01K7BBBBBBBBBBBBBBBBBBBBBB"  # ids of projects
RUN, OTHER_RUN = "bench-run", "bench-1-7"
WHOLE = "all of "
COUNTS = f"""\
SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relname IN ('event', 'state')
UNION ALL SELECT '{WHOLE}' || relname, seq_scan FROM pg_stat_user_tables WHERE relname IN ('event', 'state')"""
IS_THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
SECONDS = 30


class Scans:
    """How the tables are read, by question. Each is asked on a connection of its own: at its end the server counts."""

    def __init__(self, admin: psycopg.Connection[tuple[Any, ...]], member: str) -> None:
        self._admin = admin
        self._member = Address(parse_url(member, "the URL"))
        self.found: dict[str, list[str]] = {}

    @contextmanager
    def of(self, question: str) -> Iterator[Server]:
        """Yield a server to ask a question."""
        before = self._count()
        with open_server(self._member) as server:
            with server.transaction() as connection:
                (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            yield server
        latest = time.monotonic() + SECONDS
        while self._admin.execute(IS_THERE, (pid,)).fetchone() != (0,):
            assert time.monotonic() < latest, "the connection does not end"
        used = [name for name, count in self._count().items() if count > before[name]]
        self.found[question] = sorted(used)

    def _count(self) -> dict[str, int]:
        return dict(self._admin.execute(COUNTS).fetchall())


def ask(scans: Scans) -> None:
    """Ask each question that the program has."""
    with scans.of("fetch: the newest event of a project, and of a run") as server:
        project.newest_event(server, LONG_RUN)
        newest = project.newest_event(server, LONG_RUN, RUN) or (0, "")
    with scans.of("fetch: a run's events after a position") as server:
        row = next(exchange.fetch_rows(server, LONG_RUN, RUN, newest[0] // 2))[0]
    with scans.of("fetch: a run's events by their ids") as server:
        next(exchange.fetch_named(server, LONG_RUN, RUN, [row[1][1]]))
    with scans.of("fetch: whether an event stands at a position") as server:
        exchange.has_event(server, LONG_RUN, row[0], row[1][1])
    with scans.of("fetch: how many events come after a position") as server:
        exchange.count_events(server, LONG_RUN, RUN, row[0])
    with scans.of("fetch: the runs with news") as server:
        last = project.newest_event(server, MANY_RUNS) or (0, "")
        project.list_runs(server, MANY_RUNS, last[0] - 1000, last[0])
    with scans.of("push: events that are there") as server:
        exchange.push_events(server, LONG_RUN, RUN, [row[1]], lambda count: None)
    with scans.of("fleet: the newest event of each run, their sessions and states") as server:
        next(fleet.find_runs(server, [MANY_RUNS]))
    with scans.of("state: that of a run") as server:
        exchange.fetch_state(server, MANY_RUNS, OTHER_RUN)
    query = parse_query("heron")
    for name, find in (("events", search.find_events), ("states", search.find_states)):
        with (
            scans.of(f"search: {name} with a word") as server,
            server.transaction() as connection,
            closing(find(connection, query, [MANY_RUNS])) as candidates,
        ):
            list(candidates)


def main() -> None:
    """Print how each question reads the tables."""
    admin, member = sys.argv[1:]
    with psycopg.connect(admin, autocommit=True) as connection:
        scans = Scans(connection, member)
        ask(scans)
    print(json.dumps(scans.found))


if __name__ == "__main__":
    main()
