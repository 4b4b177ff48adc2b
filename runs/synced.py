"""What this clone exchanged last with a team's server, noted to save work: without the note, all is compared again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.disk import FileRefused, read_regular
from faber_ledger.ledger.encoding import sha256
from faber_ledger.runs.clone import make_below, put_note
from faber_ledger.runs.run import private_folder, quoted_form
from faber_ledger.runs.seen import Note

FOLDER = "sync"
PROJECT = "project"
LONGEST_ID = 64
LONGEST_AGAIN = 1_000  # with more, the run is fetched from its beginning each time


class SyncNote(Note):
    """What was exchanged of a run, or with an empty id of a project as a whole; hashes are in hex.

    The server's events up to `position` were taken in, except those with the ids `again`, which may pass later; a
    project's note has in `again` the runs of which no event has passed. `roots` are the ids of the run's events with
    seq 1 on the server. The server has all events of a log with these `heads`. `anchor` is the position and id of an
    event that the server had: a server without it was restored or replaced. `state` is the digest of the state.json
    that was exchanged last. `is_due` says that events came in and the run's blocks have not been written since.
    """

    position: int = 0
    again: Sequence[str] = ()
    roots: Sequence[str] = ()
    heads: Sequence[str] = ()
    anchor: tuple[int, str] | None = None
    state: str = ""
    is_due: bool = False

    def __init__(self, root: str, server: str, run_id: str) -> None:
        """Read the note of a server, which is named by a text of its own."""
        self._root = root
        super().__init__(os.path.join(_folder_of(root, run_id), f"{sha256(server.encode()).hexdigest()}.json"))

    def save(self, *, durable: bool = False) -> None:
        """Write the note; nothing if that fails."""
        if len(self.again) + len(self.roots) > LONGEST_AGAIN:
            self.again, self.roots, self.position = (), (), 0
        with suppress(OSError):
            make_below(self._root, os.path.dirname(self.path), durable=False)
            super().save(durable=durable)


def was_exchanged(root: str, run_id: str) -> bool:
    """Return whether this clone has brought a run from a server, or began to push it to one."""
    return os.path.isdir(_folder_of(root, run_id))


def note_project(root: str, project: str) -> None:
    """Note the id by which a team's server knows the project of this clone; nothing if that fails."""
    if known_project(root) != project:
        put_note(root, _project_path(root), f"{project}\n".encode())


def known_project(root: str) -> str | None:
    """Return the id of this clone's project on the team's server that it exchanged with last; None if it never did."""
    try:
        found = read_regular(_project_path(root), LONGEST_ID).decode().strip()
    except (FileRefused, OSError, ValueError):
        return None
    return found if is_event_id(found) else None


def _project_path(root: str) -> str:
    return os.path.join(private_folder(root), FOLDER, PROJECT)


def _folder_of(root: str, run_id: str) -> str:
    return os.path.join(private_folder(root), FOLDER, f"+{quoted_form(run_id)}")
