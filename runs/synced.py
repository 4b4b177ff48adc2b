"""What this clone exchanged last with a team's server, noted to save work: without the note, all is compared again."""

from __future__ import annotations

import json
import os

from faber_ledger.files.untrusted import FileRefused, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.canonical import sha256
from faber_ledger.ledger.plain_json import loads
from faber_ledger.runs.clone import private_folder
from faber_ledger.runs.git import common_directory
from faber_ledger.runs.private_files import make_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Note(TypedDict):
        """What was exchanged of a run, or of a project as a whole.

        `position`: up to which the server's events were taken in; `again`: the ids of those before it that may pass
        later, or in the project's the runs of which none has; `roots`: the ids of the run's events with seq 1 there.
        `heads`: of the log whose events the server has, in hex. `anchor`: position and id of an event that the server
        had then: without it there, the note is about another state of the server. `is_due`: the run's blocks were not
        written since events came in.
        """

        position: int
        again: list[str]
        roots: list[str]
        heads: list[str]
        anchor: tuple[int, str] | None
        is_due: bool


FOLDER = "sync"
LARGEST_NOTE = 1024 * 1024
LONGEST_AGAIN = 1_000  # with more, the run is fetched from its beginning each time


def empty_note() -> Note:
    """Return the note of what was never exchanged."""
    return {"position": 0, "again": [], "roots": [], "heads": [], "anchor": None, "is_due": False}


def read_note(root: str, server: str, run_id: str) -> Note:
    """Return the note about a run, or with an empty id about the project; one that cannot be read counts as none."""
    note = empty_note()
    try:
        found = loads(read_regular(_path(root, server, run_id), LARGEST_NOTE).decode())
        anchor = found["anchor"]
        if anchor is not None:
            note["anchor"] = int(anchor[0]), str(anchor[1])
        note["position"], note["is_due"] = int(found["position"]), bool(found["is_due"])
        names = ("again", "roots", "heads")
        note["again"], note["roots"], note["heads"] = [[str(one) for one in found[name]] for name in names]
    except (FileRefused, OSError, ValueError, TypeError, LookupError, RecursionError):
        return empty_note()
    return note


def write_note(root: str, server: str, run_id: str, note: Note) -> None:
    """Write the note about a run, or with an empty id about the project; nothing if that fails."""
    if len(note["again"]) + len(note["roots"]) > LONGEST_AGAIN:
        note = {**note, "again": [], "roots": [], "position": 0}
    path = _path(root, server, run_id)
    folder = os.path.dirname(path)
    try:
        make_below(common_directory(root) or folder, folder, durable=False)
        content = json.dumps(note, separators=(",", ":")).encode()
        whole_file.put(path, content, mode=whole_file.OWN, durable=False, locked=False)
    except OSError:
        pass  # the next exchange compares all again


def _path(root: str, server: str, run_id: str) -> str:
    name = sha256(f"{server}\n{run_id}".encode()).hexdigest()
    return os.path.join(private_folder(root), FOLDER, f"{name}.json")
