"""Exchange a run's state.json: push it where it is the newest, fetch it where this clone has none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from faber_ledger.ledger.clock import seconds_of, utc_text
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.plain_json import sha256
from faber_ledger.postgres.project import Remote
from faber_ledger.postgres.state import LARGEST, describe_state, fetch_state, put_state
from faber_ledger.recording.server_state import content_of, write_missing_state
from faber_ledger.runs.clone import writer_of
from faber_ledger.runs.log import read_log
from faber_ledger.runs.run import Run
from faber_ledger.runs.state_file import read_state
from faber_ledger.runs.synced import write_note

if TYPE_CHECKING:
    from faber_ledger.runs.synced import Note


Moved = Literal["fetched", "pushed"]


def exchange_state(
    remote: Remote, run: Run, note: Note, *, fetches: bool, pushes: bool, warn: Callable[[str], None]
) -> Moved | None:
    """Exchange a run's state after its events; return what was done. Changes and writes the note.

    A state that is broken or too large is left out with a warning, here and on the server. Raises as the server does.
    """
    try:
        if not os.path.lexists(run.state_path):
            return "fetched" if fetches and not run.is_kept and _fetch(remote, run, note) else None
        return "pushed" if pushes and _push(remote, run, note) else None
    except StateLeftOut as error:
        warn(f"the state.json of {run.run_id} is left out: {error}")
        return None


class StateLeftOut(Exception):
    """Why a state is neither fetched nor pushed."""


def _fetch(remote: Remote, run: Run, note: Note) -> bool:
    content = fetch_state(remote.server, remote.project, run.run_id)
    if content is None:
        return False
    try:
        with read_log(run) as log:
            is_new = write_missing_state(run, content, log)
    except LedgerError as error:
        raise StateLeftOut(error) from error
    _note_exchanged(remote, run, note, content)
    return is_new


def _push(remote: Remote, run: Run, note: Note) -> bool:
    """Push the state if it has changed here, or the server has lost it; return whether the server has taken it."""
    try:
        state = read_state(run).value
        content = content_of(state)
    except (LedgerError, RecursionError) as error:
        raise StateLeftOut(error) from error
    seconds = seconds_of(state.get("updated_at"))
    at = "" if seconds is None else utc_text(seconds)
    there = describe_state(remote.server, remote.project, run.run_id)
    is_there = there is not None and there.digest.hex() == _digest_of(content)
    if not is_there:
        if there is not None and _digest_of(content) == note["state"]:
            return False
        if there is not None and at < there.at:
            if seconds is None:
                raise StateLeftOut("its updated_at is not a time with a zone")
            return False
        if len(content.encode()) > LARGEST:
            raise StateLeftOut(f"it is larger than {LARGEST // 1024 // 1024} MB")
        with read_log(run) as log:
            known = [name for (name,) in log.connection.execute("SELECT id FROM event WHERE type = 'event_redacted'")]
        if not put_state(remote.server, remote.project, run.run_id, content, at, writer_of(run.root), known):
            raise StateLeftOut("the server has a redaction that is not fetched, or a newer state")
    _note_exchanged(remote, run, note, content)
    return not is_there


def _note_exchanged(remote: Remote, run: Run, note: Note, content: str) -> None:
    if note["state"] != _digest_of(content):
        note["state"] = _digest_of(content)
        write_note(run.root, remote.key, run.run_id, note)


def _digest_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()
