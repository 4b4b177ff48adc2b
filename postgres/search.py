"""What the server's index proposes for a search, newest first: the caller reads it, and decides.

An event whose hash does not match is left out: without the rest of the log nothing else can be checked.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from faber_ledger.files.word_query import WordQuery
from faber_ledger.ledger.encoding import COLUMNS, HASH, PAYLOAD, compute_hash, decode_row
from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.postgres.ask import Connection, check_rows, render_call, translate_decode_errors

if TYPE_CHECKING:
    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.events import Recorded  # which would load typing_extensions

FIRST_EVENTS, FIRST_STATES = 200, 5  # enough for most searches; a state may have megabytes
KEY: dict[str, Any] = dict.fromkeys(("at", "id", "project", "run_id"), str)
ASKED = ("wanted", "projects", *KEY, "most")
NEWEST_FIRST = " ORDER BY at DESC, id DESC, project DESC, run_id DESC"


class FoundEvent(NamedTuple):
    """An event that may match, and where it is."""

    project: str
    run_id: str
    recorded: Recorded


class FoundState(NamedTuple):
    """A run's state that may match."""

    project: str
    run_id: str
    content: str


def find_events(connection: Connection, query: WordQuery, projects: Sequence[str]) -> Generator[FoundEvent]:
    """Yield the events of projects that have the words of a query, newest first.

    The connection is in a transaction, which outlasts the generator: the caller closes it.
    """
    with closing(_find(connection, "find_events", COLUMNS, query, projects, FIRST_EVENTS)) as rows:
        for _, _, project, run_id, *row in rows:
            try:
                if compute_hash(tuple(row)) == row[HASH]:
                    yield FoundEvent(project, run_id, decode_row((*row[:8], row[PAYLOAD])))
            except (IntegrityError, ValueError):
                continue  # malformed


def find_states(connection: Connection, query: WordQuery, projects: Sequence[str]) -> Generator[FoundState]:
    """Yield the states of projects that have the words of a query, as `find_events` does."""
    with closing(_find(connection, "find_states", {"content": str}, query, projects, FIRST_STATES)) as rows:
        yield from (FoundState(project, run_id, content) for _, _, project, run_id, content in rows)


def _find(
    connection: Connection, name: str, columns: dict[str, Any], query: WordQuery, projects: Sequence[str], first: int
) -> Generator[Row]:
    """Yield rows of what has all words of a query, newest first.

    First a few, which the server finds without sorting all; then the others, as they are read. An event's own `id` and
    `at` are in the key, too: names of columns are repeated.
    """
    asked = {"wanted": query.required, "projects": list(projects)}
    kinds = [*KEY.items(), *columns.items()]
    statement = f"{render_call(name, [*KEY, *columns], ASKED)}{NEWEST_FIRST}".encode()
    with translate_decode_errors(name):
        found = connection.execute(statement, {**asked, **dict.fromkeys(KEY), "most": first}).fetchall()
    yield from map(tuple, check_rows(name, kinds, found))
    if len(found) < first:
        return
    after = dict(zip(KEY, found[-1], strict=False))
    with connection.cursor(name=f"rest_{id(asked)}") as rest:
        rest.execute(statement, {**asked, **after, "most": None})
        while True:
            with translate_decode_errors(name):
                part = rest.fetchmany(first)
            if not part:
                return
            yield from map(tuple, check_rows(name, kinds, part))
