"""Exchange a run's document, the copy of its state.json on the server: a clone's own state is never overwritten."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from faber_ledger.ledger.clock import event_id, now, utc_text
from faber_ledger.ledger.command_errors import ServerRefused, ServerUnavailable
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.postgres.documents import (
    LARGEST,
    NewDocument,
    fetch_content,
    newest_documents,
    push_document,
)
from faber_ledger.recording.state_document import known_heads, make_content, take_content
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.united import read_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from faber_ledger.postgres.documents import Document
    from faber_ledger.postgres.project import Remote
    from faber_ledger.runs.run import Run


def take_document(remote: Remote, run: Run, document: Document) -> bool:
    """Write a run's missing state.json from a document and the run's log; return whether it was missing.

    Raises as `fetch_content` and `take_content`.
    """
    content = fetch_content(remote.server, remote.project, run.run_id, document)
    with read_log(run) as log:
        return take_content(run, content, log)


def fetch_document(remote: Remote, run: Run, warn: Callable[[str], None]) -> bool:
    """Write a missing state.json from the newest document of the server, and return whether it was written.

    Of several that do not include each other none is taken: the user chooses. Raises as the server does.
    """
    if run.is_kept or os.path.lexists(run.state_path):
        return False
    with read_log(run) as log:
        newest = newest_documents(remote.server, remote.project, run.run_id, log)
    if len(newest) > 1:
        warn(
            f"{run.run_id} has {len(newest)} states on the server that do not include each other: run"
            f" `faber-ledger run resume {run.run_id}` to choose one"
        )
    if len(newest) != 1:
        return False
    try:
        return take_document(remote, run, newest[0])
    except (ServerUnavailable, ServerRefused):
        raise
    except LedgerError as error:
        warn(f"{run.run_id} gets no state.json from the server: {error}")
        return False


def push_state(remote: Remote, run: Run, warn: Callable[[str], None]) -> bool:
    """Push a run's state as a document, unless the server has it; return whether it was. Raises as the server does.

    A state that is broken or too large is left out with a warning.
    """
    try:
        content = make_content(run)
    except (LedgerError, ValueError, RecursionError) as error:
        warn(f"the state.json of {run.run_id} is not pushed: {error}")
        return False
    if content is None:
        return False
    if len(content.encode()) > LARGEST:
        warn(f"the state.json of {run.run_id} is not pushed: it is larger than {LARGEST // 1024 // 1024} MB")
        return False
    writer, at = writer_of(run.root), now()
    with read_log(run) as log:
        heads, known_at = known_heads(log, writer)
        name = event_id(at, os.urandom(10))
        new = NewDocument(name, content, heads, writer, known_at or utc_text(at), known_at is not None)
        found = push_document(remote.server, remote.project, run.run_id, new, log)
        if found == "behind":
            warn(f"the state.json of {run.run_id} is not pushed yet: the server has a redaction that is not fetched")
    return found == "pushed"
