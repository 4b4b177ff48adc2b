"""What the server's index proposes for a search, newest first: the caller reads it, and decides.

An event whose hash does not hold is left out: nothing else of the log is there to judge it by.
"""

from __future__ import annotations

import heapq
from contextlib import ExitStack, closing, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.row import COLUMNS, HASH, PAYLOAD, compute_hash, decode_row

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from sqlalchemy import Connection, TextClause

    from faber_ledger.files.word_query import WordQuery
    from faber_ledger.ledger.events import Recorded

    Found = tuple[Any, ...]

FIRST_EVENTS, FIRST_DOCUMENTS = 200, 5  # enough for most searches; a document may have megabytes
KEY = "at, id, project, run_id"
ASKED = (
    "SELECT {key}, {columns} FROM faber_ledger.{function}(:wanted, :projects, :at, :id, :project, :run_id, :most)"
    " ORDER BY at DESC, id DESC, project DESC, run_id DESC"
)


class FoundEvent(NamedTuple):
    """An event that may match, and where it is."""

    project: str
    run_id: str
    recorded: Recorded


class FoundDocument(NamedTuple):
    """A copy of a run's state that may match."""

    project: str
    run_id: str
    id: str
    at: str
    content: str


@contextmanager
def find_events(connection: Connection, query: WordQuery, projects: Sequence[str]) -> Iterator[Iterator[FoundEvent]]:
    """Yield an iterator over the events of projects that have the words of a query, newest first.

    The connection is in a transaction, which outlasts the block.
    """
    with _find(connection, "find_events", ", ".join(COLUMNS), query, projects, FIRST_EVENTS) as found:
        yield _decode(found)


@contextmanager
def find_documents(
    connection: Connection, query: WordQuery, projects: Sequence[str]
) -> Iterator[Iterator[FoundDocument]]:
    """Yield an iterator over the copies of states of projects that have the words of a query, as `find_events` does."""
    with _find(connection, "find_documents", "content", query, projects, FIRST_DOCUMENTS) as found:
        yield (FoundDocument(project, run_id, name, at, content) for at, name, project, run_id, content in found)


def _decode(found: Iterator[Found]) -> Iterator[FoundEvent]:
    for _, _, project, run_id, *row in found:
        try:
            if compute_hash(tuple(row)) == row[HASH]:
                yield FoundEvent(project, run_id, decode_row((*row[:8], row[PAYLOAD])))
        except (IntegrityError, ValueError):
            continue  # no ledger has written it


@contextmanager
def _find(
    connection: Connection, function: str, columns: str, query: WordQuery, projects: Sequence[str], first: int
) -> Iterator[Iterator[Found]]:
    """Yield an iterator over what has all words of one of the alternatives, newest first, each once."""
    question = text(ASKED.format(key=KEY, columns=columns, function=function))
    with ExitStack() as open_alternatives:
        alternatives = [
            open_alternatives.enter_context(closing(_rows(connection, question, words, list(projects), first)))
            for words in query.required
        ]
        merged = heapq.merge(*alternatives, key=lambda row: row[:4], reverse=True)
        yield (next(same) for _, same in groupby(merged, key=lambda row: row[:4]))


def _rows(
    connection: Connection, question: TextClause, wanted: list[str], projects: list[str], first: int
) -> Generator[Found]:
    """Yield rows: the first few, which the server finds without sorting all; then the others, as they are read."""
    asked: dict[str, Any] = {"wanted": wanted, "projects": projects}
    nothing = dict.fromkeys(("at", "id", "project", "run_id"))
    rows = connection.execute(question, {**asked, **nothing, "most": first}).fetchall()
    yield from map(tuple, rows)
    if len(rows) < first:
        return
    after = dict(zip(nothing, rows[-1][:4], strict=True))
    options = {"stream_results": True, "max_row_buffer": first}
    with connection.execute(question, {**asked, **after, "most": None}, execution_options=options) as rest:
        yield from map(tuple, rest)
