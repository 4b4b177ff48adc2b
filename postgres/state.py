"""The newest state.json of each run on the server.

Of two states the one with the later `updated_at` is kept, of equal ones the one that is pushed last. A state without
that time counts as the oldest, and a time in the future as now.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from faber_ledger.ledger.encoding import sha256
from faber_ledger.postgres.ask import absurd_answer, ask, ask_one
from faber_ledger.postgres.server import Server

LARGEST = 64 * 1024 * 1024  # bytes, as of a state in a work tree


class ServerState(NamedTuple):
    """What the server has of a run's state: its `updated_at` in UTC, empty if it has none, and its SHA-256."""

    at: str
    digest: bytes


def describe_state(server: Server, project: str, run_id: str) -> ServerState | None:
    """Return the time and the digest of a run's state; None without one. Raises as `Server.transaction`."""
    with server.transaction() as connection:
        columns = {"at": str, "digest": bytes}
        found = ask(connection, "state_of", columns, limit=1, project=project, run_id=run_id)
    return ServerState(*found[0]) if found else None


def fetch_state(server: Server, project: str, run_id: str) -> str | None:
    """Return the text of a run's state; None without one. Raises as `Server.transaction`."""
    with server.transaction() as connection:
        columns: dict[str, Any] = {"content": str, "digest": bytes}
        found = ask(connection, "state_of", columns, limit=1, project=project, run_id=run_id)
    if not found:
        return None
    content, digest = found[0]
    if sha256(content.encode()).digest() != digest:
        raise absurd_answer("state_of", "a digest that is not the content's")
    return str(content)


def put_state(
    server: Server, project: str, run_id: str, content: str, at: str, writer: str, known_redactions: list[str]
) -> bool:
    """Put a run's state on the server, which keeps the newest one; raises as `Server.transaction`.

    Return False if the server has a newer one, or a redaction that is not known here: the state may still show what
    that removes.
    """
    asked = {"content": content, "at": at, "writer": writer, "known_redactions": known_redactions}
    with server.transaction() as connection:
        return bool(ask_one(connection, "put_state", bool, project=project, run_id=run_id, **asked))
