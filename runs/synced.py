"""What this clone exchanged last with a team's server, noted to save work: without the note, all is compared again."""

from __future__ import annotations

import json
import os
from typing import TypedDict

from faber_ledger.ledger.clock import is_event_id
from faber_ledger.ledger.disk import FileRefused, read_regular
from faber_ledger.ledger.encoding import loads, sha256
from faber_ledger.runs.clone import put_note
from faber_ledger.runs.run import private_folder


class Note(TypedDict):
    """What was exchanged of a run, or of a project as a whole; hashes are in hex.

    The server's events up to `position` were taken in, except those with the ids `again`, which may pass later; a
    project's note has in `again` the runs of which no event has passed. `roots` are the ids of the run's events with
    seq 1 on the server. The server has all events of a log with these `heads`. `anchor` is the position and id of an
    event that the server had: a server without it was restored or replaced. `state` is the digest of the state.json
    that was exchanged last. `is_due` says that events came in and the run's blocks have not been written since.
    """

    position: int
    again: list[str]
    roots: list[str]
    heads: list[str]
    anchor: tuple[int, str] | None
    state: str
    is_due: bool


FOLDER = "sync"
ANY_SERVER = ""  # whichever was asked last
PROJECT = "project"
LARGEST_NOTE = 1024 * 1024
LONGEST_AGAIN = 1_000  # with more, the run is fetched from its beginning each time


def empty_note() -> Note:
    """Return the note of what was never exchanged."""
    return {"position": 0, "again": [], "roots": [], "heads": [], "anchor": None, "state": "", "is_due": False}


def read_note(root: str, server: str, run_id: str) -> Note:
    """Return the note about a run, or with an empty id about the project; one that cannot be read counts as none."""
    note = empty_note()
    try:
        found = loads(read_regular(_path(root, server, run_id), LARGEST_NOTE).decode())
        anchor = found["anchor"]
        if anchor is not None:
            note["anchor"] = int(anchor[0]), str(anchor[1])
        note["position"], note["is_due"] = int(found["position"]), bool(found["is_due"])
        note["state"] = str(found["state"])
        names = ("again", "roots", "heads")
        note["again"], note["roots"], note["heads"] = [[str(one) for one in found[name]] for name in names]
    except (FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
        return empty_note()
    return note


def note_project(root: str, project: str) -> None:
    """Note the id by which a team's server knows the project of this clone; nothing if that fails."""
    if known_project(root) != project:
        put_note(root, _project_path(root), f"{project}\n".encode())


def known_project(root: str) -> str | None:
    """Return the id of this clone's project on the team's server that it exchanged with last; None if it never did."""
    try:
        found = read_regular(_project_path(root), LARGEST_NOTE).decode().strip()
    except (FileRefused, OSError, ValueError):
        return None
    return found if is_event_id(found) else None


def _project_path(root: str) -> str:
    return os.path.join(private_folder(root), FOLDER, PROJECT)


def write_note(root: str, server: str, run_id: str, note: Note) -> None:
    """Write the note about a run, or with an empty id about the project; nothing if that fails."""
    if len(note["again"]) + len(note["roots"]) > LONGEST_AGAIN:
        note = {**note, "again": [], "roots": [], "position": 0}
    _write(root, _path(root, server, run_id), note)
    note_exchanged(root, run_id)


def note_exchanged(root: str, run_id: str) -> None:
    """Note that a server may have events of a run, whichever it is; nothing if that fails."""
    path = _path(root, ANY_SERVER, run_id)
    if not os.path.lexists(path):
        _write(root, path, empty_note())


def was_exchanged(root: str, run_id: str) -> bool:
    """Return whether this clone has brought a run from a server, or began to push it to one."""
    return os.path.lexists(_path(root, ANY_SERVER, run_id))


def _write(root: str, path: str, note: Note) -> None:
    put_note(root, path, json.dumps(note, separators=(",", ":")).encode())


def _path(root: str, server: str, run_id: str) -> str:
    name = sha256(f"{server}\n{run_id}".encode()).hexdigest()
    return os.path.join(private_folder(root), FOLDER, f"{name}.json")
