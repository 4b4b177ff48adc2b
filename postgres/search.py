"""What the server's index proposes for a search, newest first: the caller reads it, and decides.

An event whose hash does not hold is left out: nothing else of the log is there to judge it by.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from faber_ledger.ledger.errors import IntegrityError
from faber_ledger.ledger.row import COLUMNS, HASH, PAYLOAD, compute_hash, decode_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from faber_ledger.files.word_query import WordQuery
    from faber_ledger.ledger.events import Recorded
    from faber_ledger.postgres.server import Server

EVENTS_PAGE, DOCUMENTS_PAGE = 200, 5  # a document may have megabytes
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


def find_events(server: Server, query: WordQuery, projects: Sequence[str]) -> Iterator[FoundEvent]:
    """Yield the events of projects that have the words of a query, newest first; raises as `Server.transaction`."""
    for (_, _, project, run_id), row in _find(server, "find_events", ", ".join(COLUMNS), query, projects, EVENTS_PAGE):
        try:
            if compute_hash(row) == row[HASH]:
                yield FoundEvent(project, run_id, decode_row((*row[:8], row[PAYLOAD])))
        except (IntegrityError, ValueError):
            continue  # no ledger has written it


def find_documents(server: Server, query: WordQuery, projects: Sequence[str]) -> Iterator[FoundDocument]:
    """Yield the copies of states of projects that have the words of a query, as `find_events` does."""
    found = _find(server, "find_documents", "content", query, projects, DOCUMENTS_PAGE)
    for (at, name, project, run_id), (content,) in found:
        yield FoundDocument(project, run_id, name, at, content)


def _find(
    server: Server, function: str, columns: str, query: WordQuery, projects: Sequence[str], page: int
) -> Iterator[tuple[tuple[str, str, str, str], tuple[Any, ...]]]:
    """Yield key and columns of what has all words of one of the alternatives, newest first, each once."""
    question = ASKED.format(key=KEY, columns=columns, function=function)
    alternatives = [_pages(server, question, words, list(projects), page) for words in query.required]
    last = None
    for row in heapq.merge(*alternatives, key=lambda row: row[:4], reverse=True):
        if row[:4] != last:
            last = row[:4]
            yield last, row[4:]


def _pages(server: Server, question: str, wanted: list[str], projects: list[str], page: int) -> Iterator[Any]:
    """Yield rows page by page, so that nobody's transaction is open while one is read."""
    after: tuple[str | None, ...] = (None, None, None, None)
    while True:
        key = dict(zip(("at", "id", "project", "run_id"), after, strict=True))
        with server.transaction() as connection:
            asked = {"wanted": wanted, "projects": projects, "most": page, **key}
            rows = [tuple(row) for row in connection.execute(text(question), asked)]
        yield from rows
        if len(rows) < page:
            return
        after = rows[-1][:4]
