"""What redactions from elsewhere have removed: this clone keeps it until somebody accepts them here.

A redaction hides a payload from every view at once, whoever made it. If it was not made in this clone, the mirror keeps
the events as they were, in a ledger of their own that no reader unites with the run's: so nobody who can push can
destroy what a run says. `redact --accept` removes it. Which redactions were made or accepted here is noted beside it,
where no commit brings it; what an event says of its writer proves nothing.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from faber_ledger.files.untrusted import FileRefused, append_line, read_regular
from faber_ledger.ledger import whole_file
from faber_ledger.ledger.effective import effective_redactions, row_with_payload
from faber_ledger.ledger.errors import LedgerError
from faber_ledger.ledger.file import sqlite3
from faber_ledger.ledger.foreign import open_untrusted
from faber_ledger.ledger.log import Log
from faber_ledger.ledger.row import ID, SEQ
from faber_ledger.ledger.union import remove_database, rows_of, write_rows
from faber_ledger.runs.clone import is_empty, mirror_path
from faber_ledger.runs.git import GitQuery
from faber_ledger.runs.private_files import make_kept_folder
from faber_ledger.runs.run import ACCEPTED, UNACCEPTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from faber_ledger.ledger.effective import Effective
    from faber_ledger.ledger.redaction import Redaction
    from faber_ledger.runs.run import Run

    Row = tuple[Any, ...]


LARGEST_NOTE = 4 * 1024 * 1024
TRUST = "faber-ledger.trustRedactions"  # in the user's own git configuration, global or of this clone


def unaccepted_path(run: Run) -> str | None:
    """Return the path of the ledger with what waits, which may not exist; None without git."""
    mirror = run.ledger_path if run.is_kept else mirror_path(run)
    return os.path.join(os.path.dirname(mirror), UNACCEPTED) if mirror else None


def open_unaccepted(run: Run) -> Log | None:
    """Open the ledger with what waits; None if there is none. Raises as `Log.read`."""
    path = unaccepted_path(run)
    return Log.read(path) if path is not None and os.path.isfile(path) else None


def keep_back(run: Run, mirror: sqlite3.Connection, found: Effective) -> None:
    """Keep what the mirror is about to lose to redactions that nobody has accepted here.

    Raises LedgerError, OSError and sqlite3.Error.
    """
    rows = [row_with_payload([mirror], name) for name in sorted(found.gone.keys() - _settled(run, found))]
    lost = {row[ID]: row for row in rows if row is not None}
    if lost and not _is_trusted(run.root):
        _write(run, _read_kept(run) | lost)


def keep_back_from(run: Run, paths: Iterable[str]) -> None:
    """Keep what mirrors at these paths, which may be damaged, are about to lose when they are written again.

    Raises as `keep_back`.
    """
    with ExitStack() as stack:
        copies = [stack.enter_context(open_untrusted(path, check_values=False)).connection for path in paths]
        found = effective_redactions(*copies)
        for copy in copies:
            keep_back(run, copy, found)


def find_waiting(run: Run, log: Log) -> list[tuple[Redaction, Row]]:
    """Return the redactions that nobody has accepted here, each with an event that they took out, as it was.

    `log` is the run's. The mirror may have such an event until the next append. Raises as `Log.read`.
    """
    with ExitStack() as stack:
        kept = open_unaccepted(run)
        path = mirror_path(run)
        mirror = Log.read(path) if path is not None and os.path.isfile(path) and not is_empty(path) else None
        copies = [stack.enter_context(one) for one in (kept, mirror) if one is not None]
        found = effective_redactions(log.connection, *[one.connection for one in copies])
        names = found.gone.keys() - _settled(run, found)
        rows = [row_with_payload([one.connection for one in copies], name) for name in names]
        waiting = sorted([row for row in rows if row is not None], key=lambda row: (row[SEQ], row[ID]))
        if waiting and kept is None and _is_trusted(run.root):
            return []  # the next append removes them
        return [(found.gone[row[ID]], row) for row in waiting]


def count_waiting(run: Run, log: Log) -> int:
    """Return how many events wait, as `find_waiting`; 0 if what is kept of them cannot be read."""
    path, kept = mirror_path(run), unaccepted_path(run)
    try:
        if kept is None or not os.path.isfile(kept):
            if path is None or not os.path.isfile(path) or is_empty(path):
                return 0
            with Log.read(path) as mirror:
                if mirror.heads() == log.heads():
                    return 0
        return len(find_waiting(run, log))
    except (LedgerError, OSError, sqlite3.Error):
        return 0


def _settled(run: Run, found: Effective) -> set[str]:
    """Return the events whose payload may go, because a redaction that was made or accepted here names them."""
    accepted = read_accepted(run)
    every = [*found.gone.values(), *[one for several in found.by_event.values() for one in several]]
    return {name for one in every if one.id in accepted for name in one.names}


def note_accepted(run: Run, ids: Collection[str]) -> None:
    """Note redactions as made or accepted in this clone; raises OSError."""
    path = unaccepted_path(run)
    if path is None or not ids:
        return
    make_kept_folder(run, os.path.dirname(path))
    append_line(os.path.join(os.path.dirname(path), ACCEPTED), "\n".join(sorted(ids)))


def forget_kept(run: Run, names: Collection[str]) -> None:
    """Remove what is kept of these events; raises LedgerError, OSError and sqlite3.Error."""
    kept = _read_kept(run)
    left = {name: row for name, row in kept.items() if name not in names}
    if len(left) < len(kept):
        _write(run, left)


def kept_ids(run: Run) -> set[str]:
    """Return the ids of the events of which something is kept; raises as `Log.read`."""
    return {*_read_kept(run)}


def _read_kept(run: Run) -> dict[str, Row]:
    kept = open_unaccepted(run)
    if kept is None:
        return {}
    with kept:
        return {row[ID]: row for row in rows_of(kept)}


def _write(run: Run, rows: dict[str, Row]) -> None:
    path = unaccepted_path(run)
    if path is None:
        return
    if not rows:
        remove_database(path)
        return
    temporary = path + ".tmp"
    remove_database(temporary)
    make_kept_folder(run, os.path.dirname(path))
    whole_file.write(temporary, b"", mode=whole_file.OWN)
    try:
        write_rows(sorted(rows.values(), key=lambda row: (row[SEQ], row[ID])), temporary)
        whole_file.move_into_place(temporary, path)
    finally:
        remove_database(temporary)


def read_accepted(run: Run) -> set[str]:
    """Return the ids of the redactions that were made or accepted in this clone, as far as it is noted."""
    path = unaccepted_path(run)
    if path is None:
        return set()
    try:
        content = read_regular(os.path.join(os.path.dirname(path), ACCEPTED), LARGEST_NOTE)
    except (FileRefused, OSError):
        return set()
    return set(content.decode("ascii", "replace").split())


def _is_trusted(root: str) -> bool:
    """Return whether the user trusts the redactions of this project: what a commit brings cannot say so."""
    return GitQuery(["config", "--type=bool", "--get", TRUST], root).answer() == "true"
