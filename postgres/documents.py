"""A run's documents on the server: copies of its state.json, each with the heads of the log that its clone knew.

A clone's document supersedes those whose heads are in the history of its own heads. Two that do not include each other
stay both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import text

from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import split_hashes
from faber_ledger.ledger.union import hash_in
from faber_ledger.postgres.ask import NONE, absurd_answer, ask, render_call

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from faber_ledger.postgres.server import Server

    NotPushed = Literal["behind", "overtaken"]


LARGEST = 64 * 1024 * 1024  # bytes, as of a state in a work tree
MOST_DOCUMENTS = 1_000  # of a run, the newest: each clone that works on it alone leaves one


LISTED: dict[str, Any] = {
    "id": str,
    "heads": bytes,
    "writer": str,
    "at": str,
    "size": (int, NONE),
    "digest": (bytes, NONE),
}
CONTENT: dict[str, Any] = {"content": (str, NONE), "is_longer": (bool, NONE)}
PUSHED = ("project", "run_id", "id", "heads", "superseded", "content", "at", "writer")
PUSH = text(render_call("push_document", ["push_document"], PUSHED))


class Document(NamedTuple):
    """A document without its content.

    `size` is in bytes and `digest` the SHA-256 of the content; both are None where a redaction has emptied it.
    """

    id: str
    heads: frozenset[bytes]
    writer: str
    at: str
    size: int | None
    digest: bytes | None


class NewDocument(NamedTuple):
    """A document to push. `supersedes`: the ids of those that it includes."""

    id: str
    content: str
    heads: frozenset[bytes]
    writer: str
    at: str
    supersedes: frozenset[str]


def list_documents(server: Server, project: str, run_id: str) -> list[Document]:
    """Return a run's documents in the order in which they arrived; raises as `Server.transaction`."""
    with server.transaction() as connection:
        return _documents(connection, project, run_id)


def _documents(connection: Connection, project: str, run_id: str) -> list[Document]:
    asked = {"project": project, "run_id": run_id, "most": MOST_DOCUMENTS}
    newest = ask(connection, "documents", LISTED, limit=MOST_DOCUMENTS, **asked)
    return [Document(row[0], frozenset(split_hashes(row[1])), *row[2:]) for row in reversed(newest)]


def newest_documents(server: Server, project: str, run_id: str, log: Log) -> list[Document]:
    """Return a run's newest document, or several that do not include each other, as `choose_newest` says."""
    return choose_newest(list_documents(server, project, run_id), log)


def fetch_content(server: Server, project: str, run_id: str, document: Document) -> str:
    """Return a document's content; raises LedgerError for one that is too large, or gone since it was listed."""
    asked = {"project": project, "run_id": run_id, "id": document.id, "longest": LARGEST}
    with server.transaction() as connection:
        found = ask(connection, "content_of", CONTENT, limit=1, **asked)
    content, is_larger = found[0] if found else (None, None)
    if is_larger:
        raise LedgerError(
            f"the state.json of {run_id} on the server is larger than {LARGEST // 1024 // 1024} MB",
            hint="get the run with git",
        )
    if content is None:
        raise LedgerError(
            f"the state.json of {run_id} has just been replaced on the server", hint="run the command again"
        )
    if sha256(content.encode()).digest() != document.digest:
        raise absurd_answer("content_of", "another content than it has listed")
    return str(content)


def push_document(
    server: Server, project: str, run_id: str, new: NewDocument, known: Sequence[Document], log: Log
) -> NotPushed | None:
    """Push a document of the run whose log is given; return why it was not pushed, None if it was.

    "overtaken": since the `known` documents were listed, another one has arrived. "behind": a redaction on the server
    is not in the log yet, and the document may still show what that removes. Raises as `Server.transaction`.
    """
    values = {
        "project": project,
        "run_id": run_id,
        "id": new.id,
        "heads": b"".join(sorted(new.heads)),
        "superseded": sorted(new.supersedes),
        "content": new.content,
        "at": new.at,
        "writer": new.writer,
    }
    expected = {new.id, *[one.id for one in known]}
    try:
        with server.transaction() as connection:
            connection.execute(PUSH, values)
            # The project is locked by now: neither a redaction nor a document arrives between this look and the commit.
            if any([hash_in(log, name) is None for name in find_redactions(connection, project, run_id)]):
                raise _Refused("behind")
            arrived = _documents(connection, project, run_id)
            if any([one.id not in expected for one in arrived]):
                raise _Refused("overtaken")
            if (new.id, sha256(new.content.encode()).digest()) not in [(one.id, one.digest) for one in arrived]:
                raise absurd_answer("push_document", "it has not kept what it was given")
    except _Refused as error:
        return error.why
    return None


def find_redactions(connection: Connection, project: str, run_id: str) -> list[str]:
    """Return the ids of a run's redactions on the server."""
    return [name for (name,) in ask(connection, "redactions", {"redactions": str}, project=project, run_id=run_id)]


class _Refused(Exception):
    """Something has arrived on the server that this clone does not know: nothing is pushed."""

    def __init__(self, why: NotPushed) -> None:
        self.why = why


def choose_newest(documents: Sequence[Document], log: Log) -> list[Document]:
    """Return the document whose heads include those of all others that have a content, else all that none includes.

    Of several from one clone with the same heads, or with the same content, the last one counts; one whose heads are
    not all in the log counts only if there is no other.
    """
    full = [one for one in documents if one.digest is not None]
    after = find_included(log, [one.heads for one in full])
    known = [one for number, one in enumerate(full) if number in after[number]]
    newest = []
    for number, one in enumerate(full):
        others = [other for other in range(len(full)) if other != number and number in after[other]]
        is_passed = any(
            [other not in after[number] or (other > number and _is_repeated(one, full[other])) for other in others]
        )
        if not is_passed and (one in known or not known):
            newest.append(one)
    return newest


def _is_repeated(one: Document, other: Document) -> bool:
    return one.writer == other.writer or one.digest == other.digest


def find_included(log: Log, groups: Sequence[frozenset[bytes]]) -> list[set[int]]:
    """Return, for each group of a log's heads, the numbers of the groups that its history includes, its own as well.

    A group with a head that the log does not have is in no history, not even its own.
    """
    wanted = frozenset().union(*groups)
    reached_by = dict.fromkeys(wanted, 0)  # by hash, one bit for each group
    for number, group in enumerate(groups):
        for digest in group:
            reached_by[digest] |= 1 << number
    found: dict[bytes, int] = {}
    events = log.connection.execute("SELECT parents, hash FROM event ORDER BY seq DESC, id DESC")
    for parents, digest in events if wanted else ():
        reached = reached_by.pop(digest, 0)
        if digest in wanted:
            found[digest] = reached
            if len(found) == len(wanted):
                break
        if reached:
            for parent in split_hashes(parents):
                reached_by[parent] = reached_by.get(parent, 0) | reached
    return [
        {at for at, group in enumerate(groups) if all([found.get(digest, 0) >> number & 1 for digest in group])}
        for number in range(len(groups))
    ]
