"""Ask a server for the plan of each statement that the program sends. Arguments: the URLs of the owner and of a member.

The member sees the projects MANY_RUNS and LONG_RUN. Prints JSON: of each question how the tables of events and
documents are read, {"question": ["Index Scan event_run", …]}.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import scalar_row
from sqlalchemy import event

from faber_ledger.files.word_query import parse_query
from faber_ledger.postgres import documents, fetch, fleet, project, push, search
from faber_ledger.postgres.address import Address, parse_url
from faber_ledger.postgres.server import Server, open_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MANY_RUNS, LONG_RUN = "01K7AAAAAAAAAAAAAAAAAAAAAA", "01K7BBBBBBBBBBBBBBBBBBBBBB"  # ids of projects
RUN, OTHER_RUN = "bench-run", "bench-1-7"
TABLES = ("event", "document")
EXPLAINED = ("SELECT", "WITH", "INSERT")
FUNCTIONS = ("find_events", "find_documents")
ARGUMENTS = re.compile(r"(\w+) ([a-z]+(?:\[\])?)")


class Plans:
    """How the tables are read, by question."""

    def __init__(self, server: Server) -> None:
        self.found: dict[str, list[str]] = {}
        self._question = ""
        event.listen(server.engine, "before_cursor_execute", self._explain)

    @contextmanager
    def of(self, question: str) -> Iterator[None]:
        """Note the plans of the statements in a block under a question."""
        self._question = question
        self.found[question] = []
        yield
        self._question = ""

    def _explain(self, connection: Any, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if self._question and statement.startswith(EXPLAINED):
            with connection.connection.driver_connection.cursor() as other:
                other.execute("EXPLAIN (FORMAT JSON) " + statement, parameters)
                self.found[self._question] += list(scans_of(other.fetchone()[0][0]["Plan"]))


def scans_of(plan: dict[str, Any]) -> Iterator[str]:
    """Yield how a plan reads the tables: the kind of each scan, and its index or table."""
    kind = plan["Node Type"]
    if plan.get("Relation Name") in TABLES and kind != "Bitmap Heap Scan" and kind != "ModifyTable":
        yield f"{kind} {plan.get('Index Name', plan['Relation Name'])}"
    if kind == "Bitmap Index Scan":
        yield f"{kind} {plan['Index Name']}"
    for below in plan.get("Plans", []):
        yield from scans_of(below)


def ask(server: Server, plans: Plans) -> None:
    """Send each statement that the program has."""
    row = fetch_one(server)
    with plans.of("fetch: a run's events after a position"):
        next(fetch.fetch_rows(server, LONG_RUN, RUN, row[0]))
    with plans.of("fetch: a run's events by their ids"):
        fetch.fetch_named(server, LONG_RUN, RUN, [row[1][1]])
    with plans.of("fetch: whether an event stands at a position"):
        fetch.has_event(server, LONG_RUN, row[0], row[1][1])
    with plans.of("fetch: how many events come after a position"):
        fetch.count_events(server, LONG_RUN, RUN, row[0])
    with plans.of("fetch: the newest event of a project"):
        project.newest_event(server, LONG_RUN)
    with plans.of("fetch: the newest event of a run"):
        project.newest_event(server, LONG_RUN, RUN)
    with plans.of("fetch: the runs with news"):
        newest = project.newest_event(server, MANY_RUNS) or (0, "")
        project.list_runs(server, MANY_RUNS, newest[0] - 1000, newest[0])
    with plans.of("push: events that are there"):
        push.push_events(server, LONG_RUN, RUN, [row[1]], lambda count: None)
    with plans.of("fleet: the newest event of each run, their sessions and states"):
        next(fleet.find_runs(server, fleet.Wanted([MANY_RUNS])))
    with plans.of("documents: a run's states, and the content of one"):
        found = documents.list_documents(server, MANY_RUNS, OTHER_RUN)
        documents.fetch_content(server, MANY_RUNS, OTHER_RUN, found[0])
    query = parse_query("heron")
    with server.transaction() as connection, plans.of("search: the calls of its functions"):
        with search.find_events(connection, query, [MANY_RUNS]) as events:
            list(events)
        with search.find_documents(connection, query, [MANY_RUNS]) as states:
            list(states)


def fetch_one(server: Server) -> tuple[int, tuple[Any, ...]]:
    """Return an event of the long run that is in its middle, with its position."""
    newest = project.newest_event(server, LONG_RUN, RUN)
    assert newest is not None
    return next(fetch.fetch_rows(server, LONG_RUN, RUN, newest[0] // 2))[0]


def explain_function(connection: psycopg.Connection[Any], name: str) -> list[str]:
    """Return how the body of a function reads the tables, with the plan that a prepared statement ends with."""
    cursor = connection.cursor(row_factory=scalar_row)
    where = "FROM pg_proc WHERE pronamespace = 'faber_ledger'::regnamespace AND proname = %s"
    body = cursor.execute(f"SELECT prosrc {where}".encode(), (name,)).fetchone() or ""
    wanted = cursor.execute(f"SELECT pg_get_function_arguments(oid) {where}".encode(), (name,)).fetchone() or ""
    arguments = ARGUMENTS.findall(wanted)
    for number, (argument, _) in enumerate(arguments, 1):
        body = re.sub(rf"\b{argument}\b", f"${number}", body)
    kinds = ", ".join([kind for _, kind in arguments])
    values = "ARRAY['heron'], ARRAY['" + MANY_RUNS + "'], NULL, NULL, NULL, NULL, 200"
    cursor.execute("SET search_path = faber_ledger; SET ROLE faber_ledger_keeper")
    cursor.execute(f"PREPARE {name} ({kinds}) AS {body}".encode())
    found = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        cursor.execute(f"SET plan_cache_mode = {mode}".encode())
        plan = cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({values})".encode()).fetchone()
        found += list(scans_of(plan[0]["Plan"]))
    cursor.execute("RESET ROLE; RESET search_path")
    return found


def main() -> None:
    """Print how each question reads the tables."""
    owner, member = sys.argv[1:]
    with open_server(Address(parse_url(member, "the URL"), "the URL")) as server:
        plans = Plans(server)
        ask(server, plans)
    with psycopg.connect(owner) as connection:
        for name in FUNCTIONS:
            plans.found[f"search: the body of {name}"] = explain_function(connection, name)
    del plans.found["search: the calls of its functions"]
    print(json.dumps(plans.found))


if __name__ == "__main__":
    main()
