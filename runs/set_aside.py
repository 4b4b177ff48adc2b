"""What was refused, replaced or removed: private, dated copies in one folder of the clone, kept for 30 days.

Doctor copies a file privately, too, before it changes it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from faber_ledger.ledger import disk
from faber_ledger.ledger.disk import FileRefused, open_regular, read_regular
from faber_ledger.ledger.encoding import COLUMNS, ID, PAYLOAD
from faber_ledger.runs.clone import make_below
from faber_ledger.runs.run import notices_folder, notices_path, quoted_form, set_aside_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from faber_ledger.ledger.encoding import Row
    from faber_ledger.ledger.errors import Warn
    from faber_ledger.runs.run import Run


ROWS = ".rows.jsonl"  # the ending of a file with events whose payloads a redaction from elsewhere removed
LARGEST = 256 * 1024 * 1024  # bytes of a file that is copied or read
KEPT_SECONDS = 30 * 24 * 3600


def set_file_aside(run: Run, path: str, *, move: bool = False) -> str:
    """Copy, or move, a file of a run to the folder, and return its new path; raises OSError and FileRefused.

    A file that is copied already, with this content, is not copied again.
    """
    if move:
        target = _name_for(run, os.path.basename(path))
        os.replace(path, target)
        return target
    with open(open_regular(path), "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise FileRefused("it is too large to be copied")
    for copy in list_set_aside(run.root):
        if is_of(run, copy) and read_or_empty(copy, len(content)) == content:
            return copy
    target = _name_for(run, os.path.basename(path))
    disk.put(target, content, mode=disk.OWN, locked=False)
    return target


def set_rows_aside(run: Run, rows: Iterable[Row]) -> str:
    """Write events of a run to a file in the folder, and return its path; raises OSError."""
    target = _name_for(run, f"redacted{ROWS}")
    disk.put(target, b"".join(map(row_line, rows)), mode=disk.OWN, locked=False)
    return target


def list_set_aside(root: str) -> list[str]:
    """Return the paths of what is set aside, oldest first."""
    folder = set_aside_folder(root)
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if not name.endswith(".tmp")]
    except OSError:
        return []


def is_of(run: Run, path: str) -> bool:
    """Return whether what is set aside at a path is of this run."""
    return f".{quoted_form(run.run_id)}." in os.path.basename(path)


def rows_set_aside(run: Run) -> Iterator[Row]:
    """Yield the events of a run that are set aside."""
    for path in list_set_aside(run.root):
        if path.endswith(ROWS) and is_of(run, path):
            yield from read_rows(path)


def forget_event(run: Run, name: str) -> None:
    """Remove what is set aside of one event of a run, with the ledgers that have its payload; raises OSError."""
    for path in list_set_aside(run.root):
        if not path.endswith(ROWS):
            if is_of(run, path) and _may_have_payload(path, name):
                os.unlink(path)
            continue
        rows = read_rows(path)
        left = [row for row in rows if row[ID] != name]
        if not left and rows:
            os.unlink(path)
        elif len(left) < len(rows):
            disk.put(path, b"".join(map(row_line, left)), like=os.stat(path), locked=False)


def _may_have_payload(path: str, name: str) -> bool:
    """Return whether a ledger has an event's payload, or names the event and cannot be read."""
    from faber_ledger.ledger.union import rows_in_file

    rows = rows_in_file(path, [name])
    return any([row[PAYLOAD] is not None for row in rows]) if rows else name.encode() in read_or_empty(path)


def report(run: Run, warn: Warn, message: str, path: str | None = None, *, may_write: bool = True) -> None:
    """Call `warn` with a message, and keep it for the run's next start: only a start's messages reach the user.

    `path` is what was set aside; its 30 days begin with that start.
    """
    warn(message)
    notices = notices_path(run)
    try:
        if may_write:
            make_below(run.root, os.path.dirname(notices))
            line, known = json.dumps([message, path]).encode() + b"\n", read_or_empty(notices)
            if line not in known:
                disk.put(notices, known + line, mode=disk.OWN, durable=False, locked=False)
    except OSError:
        pass  # it was said once


def say_notices(run: Run, warn: Warn, at: float) -> None:
    """Call `warn` with what was kept for the next start of a run."""
    for message, path in list_notices(run):
        warn(message)
        if path is not None:
            with suppress(OSError):
                os.utime(path, (at, at), follow_symlinks=False)
    disk.remove(notices_path(run))


def list_notices(run: Run) -> list[tuple[str, str | None]]:
    """Return what is kept for the next start of a run, each with the path of what was set aside."""
    return _read_notices(notices_path(run))


def _read_notices(path: str) -> list[tuple[str, str | None]]:
    try:
        return [(str(one[0]), one[1]) for one in map(json.loads, read_or_empty(path).splitlines())]
    except (ValueError, TypeError, LookupError):
        return []


def read_or_empty(path: str, limit: int = LARGEST) -> bytes:
    """Return the content of a regular file; nothing for a link, or if it is too large or not readable."""
    try:
        return read_regular(path, limit)
    except (FileRefused, OSError):
        return b""


def drop_old(root: str, at: float) -> None:
    """Remove what a start named more than 30 days before a moment; what cannot be removed stays."""
    folder, unsaid = notices_folder(root), set[str | None]()
    with suppress(OSError):
        unsaid = {path for name in os.listdir(folder) for _, path in _read_notices(os.path.join(folder, name))}
    for path in list_set_aside(root):
        try:
            if path not in unsaid and at - os.lstat(path).st_mtime > KEPT_SECONDS:
                os.unlink(path)
        except OSError:
            continue


def read_rows(path: str) -> list[Row]:
    """Return the events that a file of ours has; none if it cannot be read."""
    return [row for line in read_or_empty(path).splitlines() if (row := _row_of(line)) is not None]


def row_line(row: Row) -> bytes:
    """Return the line of a file that has an event."""
    values = [{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]
    return json.dumps(values, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"


def _row_of(line: bytes) -> Row | None:
    try:
        values = json.loads(line.decode(errors="surrogatepass"))
        row = tuple([bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in values])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    is_flat = all([value is None or type(value) in (int, float, str, bytes) for value in row])
    return row if is_flat and len(row) == len(COLUMNS) else None


def _name_for(run: Run, name: str) -> str:
    folder = set_aside_folder(run.root)
    make_below(run.root, folder)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    stem, dot, ending = name.partition(".")
    return free_name(os.path.join(folder, f"{stamp}.{quoted_form(run.run_id)}.{stem}"), dot + ending)


def free_name(stem: str, ending: str = "") -> str:
    """Return a path that does not exist: the stem with the ending, else with `-2`, `-3` and so on between them.

    What stands in the way may have come with a repository, and `os.replace` fails on a folder.
    """
    path, number = stem + ending, 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
